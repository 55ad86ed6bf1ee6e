"""What a report says of runs."""

import numpy as np
import pytest

from gossiprec.base.errors import LogError
from gossiprec.report import (
    BlockChoice,
    IntervalChart,
    NetworkGraph,
    TableBlock,
    TextParagraphs,
    Tiles,
)
from gossiprec.report.page import collect_sections
from gossiprec.report.sections import attacks, nodes, overview, privacy, traffic
from gossiprec.report.sources import ReportRuns, logged_until
from gossiprec.runs import RunDirectory, open_run
from tests.figures.small_runs import ACCURACIES, write_run


def of(*runs):
    return ReportRuns(list(runs))


def bare_run(path, status="running", *, sizes=None):
    """Make a run that has logged nothing, and return its directory still open."""
    return RunDirectory.create(
        path, scenario={"name": "bare", "protocol": {"name": "p"}}, seed=1, sizes=sizes
    )


def blocks(section, kind):
    return [block for block in section.blocks if isinstance(block, kind)]


def test_a_complete_run_has_every_section_with_something_to_say_and_no_other(tmp_path):
    write_run(tmp_path / "r")
    titles = [section.title for section in collect_sections([tmp_path / "r"], tmp_path)]
    assert titles == [
        "Runs", "Results", "Results over time", "Attack accuracy by adversary", "Leakage by graph position",
        "Contact network", "Traffic and churn", "Nodes", "Provenance",
    ]  # fmt: skip


def test_a_run_that_has_only_begun_says_what_it_is_and_leaves_the_rest_out(tmp_path):
    directory = bare_run(tmp_path / "r")
    titles = [section.title for section in collect_sections([tmp_path / "r"], tmp_path)]
    assert titles == ["Runs", "Provenance"]
    story = collect_sections([tmp_path / "r"], tmp_path)[0].blocks[0].paragraphs[0]
    assert "still in progress" in story
    directory.finish("failed")
    assert "failed" in collect_sections([tmp_path / "r"], tmp_path)[0].blocks[0].paragraphs[0]


def test_a_run_without_attacks_has_its_utility_alone(tmp_path):
    runs = of(write_run(tmp_path / "r", observers=()))
    (tiles,) = attacks.results_section(runs).blocks
    assert [(tile.name, tile.value) for tile in tiles.tiles] == [("hr@20", "70.0 %")]
    assert attacks.distribution_section(runs) is None
    assert nodes.position_section(runs) is None
    assert [chart.title for chart in attacks.curves_section(runs).blocks] == ["Recommendation quality"]


def test_the_headline_stands_between_guessing_and_what_was_met(tmp_path):
    (spans,) = blocks(attacks.results_section(of(write_run(tmp_path / "r"))), IntervalChart)
    (span,) = spans.spans
    assert (span.low, span.value, span.high) == (0.4, 0.25, 0.5)
    assert span.note == "at round 1"


def test_the_best_report_counts_and_bounds_are_those_of_the_last(tmp_path):
    directory = bare_run(tmp_path / "r")
    row = {
        "observer": "o",
        "relevance": "r",
        "momentum": 0.5,
        "community_size": 4,
        "best10_min": 0.0,
        "best10_mean": 0.0,
    }
    for turn, (aac, met) in enumerate([(0.1, 0.2), (0.3, 0.5), (0.2, 0.9)]):
        told = {"time": float(turn), "round": turn, "aac": aac, "upper_bound": met, "random_bound": 0.05}
        directory.attacks.append([row | told])
    (spans,) = blocks(attacks.results_section(of(open_run(tmp_path / "r"))), IntervalChart)
    assert [(s.value, s.high, s.note) for s in spans.spans] == [(0.3, 0.9, "at round 1")]
    directory.finish("complete")


def test_attacks_are_called_by_what_tells_them_apart_and_the_rest_is_said_once(tmp_path):
    runs = of(write_run(tmp_path / "r", observers=("single", "coalition-5%"), momenta=(0, 0.9)))
    (spans,) = blocks(attacks.results_section(runs), IntervalChart)
    assert [span.name for span in spans.spans][:2] == [
        "single nodes, momentum 0",
        "single nodes, momentum 0.9",
    ]
    assert spans.note.endswith("All with relevance ndcg, K = 4.")


def test_curves_have_both_clocks(tmp_path):
    chart = attacks.curves_section(of(write_run(tmp_path / "r"))).blocks[0]
    assert [axis.label for axis in chart.x] == ["round", "virtual time (mean wake periods)"]
    single = chart.series[0]
    assert [list(x) for x in single.x] == [[0, 1], [0.0, 1.5]]
    assert list(single.y) == [0.1, 0.25]
    assert [series.name for series in chart.series if series.faint] == ["random bound", "upper bound"]


def test_long_curves_are_thinned_and_keep_both_ends():
    points = {"round": np.arange(5000), "time": np.arange(5000.0), "value": np.arange(5000.0)}
    y = attacks.curve_series("l", points, "value").y
    assert (len(y), y[0], y[-1]) == (attacks.MOST_POINTS, 0.0, 4999.0)


def test_unknown_values_are_no_points_of_a_curve():
    points = {"round": np.arange(3), "time": np.arange(3.0), "value": np.array([0.1, np.nan, 0.3])}
    assert list(attacks.curve_series("l", points, "value").y) == [0.1, 0.3]


def test_the_distribution_rises_from_nothing_to_all(tmp_path):
    (chart,) = attacks.distribution_section(of(write_run(tmp_path / "r"))).blocks
    (series,) = chart.series
    assert (list(series.x[0]), list(series.y)) == ([0, 0, 0.25, 0.5], [0, 0.25, 0.75, 1])
    assert sorted(set(ACCURACIES)) == [0, 0.25, 0.5]
    assert chart.upright == {"random bound": 0.4}


def test_position_shows_what_a_node_finds_and_how_often_it_is_found(tmp_path):
    (choice,) = nodes.position_section(of(write_run(tmp_path / "r"))).blocks
    assert list(choice.blocks) == ["betweenness", "in contacts"]
    dots = {series.name: series for series in choice.blocks["betweenness"].series if series.mark is None}
    assert list(dots["attack accuracy"].y) == [0, 0.25, 0.25, 0.5]
    assert list(dots["exposure"].y) == [1, 0.5, 0.6, 0]
    assert dots["attack accuracy"].texts[3] == "node 3"


def test_a_measure_in_which_nodes_do_not_differ_is_left_out(tmp_path):
    directory = bare_run(tmp_path / "r")
    table = {"sent": (5, 5, 9), "in_contacts": (1, 2, 0), "found[o/r/b0/k2]": (0.1, 0.2)}
    rows = [(node, name, float(v)) for name, values in table.items() for node, v in enumerate(values)]
    directory.write_positions(
        dict(zip(("node", "measure", "value"), map(list, zip(*rows, strict=True)), strict=True))
    )
    (chart,) = nodes.position_section(of(open_run(tmp_path / "r"))).blocks
    assert chart.title == "o: leakage against in contacts"
    directory.finish("complete")


def test_the_network_says_who_heard_from_whom(tmp_path):
    (graph,) = blocks(nodes.network_section(of(write_run(tmp_path / "r"))), NetworkGraph)
    assert graph.n_nodes == 3
    assert graph.links == [0, 1, 0, 2, 1, 2]
    assert graph.met == "IKAA"  # rows 001, 101, 000 in bits, each filled up to a byte
    assert list(graph.values["others met"]) == [1, 2, 0]
    assert {attack: list(ends) for attack, ends in graph.finders.items()} == {
        "single nodes": [2, 0, 1, 0, 2, 1]
    }


def test_of_few_links_all_are_drawn():
    counts = np.ones((25, 25), np.int64) - np.eye(25, dtype=np.int64)
    assert len(nodes._links(counts)) == 25 * 24


def test_of_many_links_the_strongest_of_each_node_are_drawn():
    n = 40
    counts = np.ones((n, n), np.int64) - np.eye(n, dtype=np.int64)
    counts[0, 7] = counts[7, 0] = 9
    links = nodes._links(counts)
    drawn = list(zip(links[::2], links[1::2], strict=True))
    assert (0, 7) in drawn
    assert len(drawn) <= nodes.STRONGEST * n
    assert {node for link in drawn for node in link} == set(range(n))


def test_a_network_too_large_to_draw_says_so(tmp_path, monkeypatch):
    run = of(write_run(tmp_path / "r"))
    monkeypatch.setattr(nodes, "MOST_DRAWN", 2)
    (said,) = blocks(nodes.network_section(run), TextParagraphs)
    assert "is too large to draw (limit: 2 nodes)" in said.paragraphs[0]


def test_nodes_that_hear_from_a_coordinator_alone_are_no_network(tmp_path):
    directory = bare_run(tmp_path / "r")
    ends = {
        "sender": [2, 2, 0],
        "receiver": [0, 1, 2],
        "sent_at": [0.0] * 3,
        "size_bytes": [10, 10, 4],
        "queued": [0.0] * 3,
    }
    directory.log.append("message", {"time": [1.0, 1.0, 2.0], **ends})
    directory.write_summary({"nodes": 2, "coordinator": 2})
    directory.finish("complete")
    runs = of(open_run(tmp_path / "r"))
    assert nodes.network_section(runs) is None
    charts = {chart.title: chart for chart in traffic.traffic_section(runs).blocks}
    assert {series.name: sum(series.y) for series in charts["Bytes delivered"].series} == {
        "up": 4e-6,
        "down": 2e-5,
    }


def test_traffic_counts_every_message_once_and_losses_by_cause(tmp_path):
    directory = bare_run(tmp_path / "r")
    ends = {"sender": [0] * 4, "receiver": [1] * 4, "sent_at": [0.0] * 4}
    directory.log.append(
        "message", {"time": [0.0, 1.0, 1.0, 60.0], **ends, "size_bytes": [1] * 4, "queued": [0.0] * 4}
    )
    directory.log.append("drop", {"time": [1.0, 2.0, 3.0, 4.0], **ends, "cause": [0, 0, 0, 1]})
    directory.log.append("session", {"time": [0.0, 5.0, 7.0], "node": [1, 1, 0], "online": [0, 1, 0]})
    directory.log.append("miss", {"time": [2.0], "node": [1], "cause": [0]})
    directory.write_summary({"nodes": 2})
    directory.finish("complete")
    charts = {chart.title: chart for chart in traffic.traffic_section(of(open_run(tmp_path / "r"))).blocks}
    assert sum(charts["Messages delivered"].series[0].y) == 4
    assert {s.name: sum(s.y) for s in charts["Messages lost, by cause"].series} == {
        "loss": 3,
        "receiver offline": 1,
    }
    assert [list(s.y[:9]) for s in charts["Nodes online"].series] == [[1, 1, 1, 1, 1, 2, 2, 1, 1]]
    assert {s.name: sum(s.y) for s in charts["Missed wakes by cause"].series} == {"offline": 1}


@pytest.mark.parametrize(
    ("end", "width"), [(60, 1), (61, 2), (50, 1), (5, 0.1), (599.8, 10), (1e-3, 2e-5), (0, 2e-8)]
)
def test_intervals_are_round_and_hold_the_last_event(end, width):
    edges = traffic.interval_edges(end)
    assert edges[1] == pytest.approx(width)
    assert edges[-2] <= end < edges[-1]
    assert len(edges) <= traffic.MOST_INTERVALS + 2


def test_privacy_holds_what_a_node_had_spent_before(tmp_path):
    directory = bare_run(tmp_path / "r")
    directory.log.append("privacy", {"time": [1.0, 1.0, 2.0], "node": [0, 1, 0], "epsilon": [1.0, 3.0, 2.0]})
    directory.finish("complete")
    chart = privacy.privacy_section(of(open_run(tmp_path / "r"))).blocks[-1]
    assert {series.name: list(series.y) for series in chart.series} == {"largest": [3, 3], "mean": [2, 2.5]}


def test_training_without_noise_has_no_epsilon_to_draw(tmp_path):
    directory = bare_run(tmp_path / "r")
    directory.log.append("privacy", {"time": [1.0], "node": [0], "epsilon": [np.inf]})
    directory.finish("complete")
    assert privacy.privacy_section(of(open_run(tmp_path / "r"))) is None


def test_exposure_of_target_items_is_no_utility(tmp_path):
    directory = bare_run(tmp_path / "r")
    rows = [
        {"time": 1.0, "round": 1, "metric": metric, "value": 0.5} for metric in ("hr@5", "er@5", "er@5[3]")
    ]
    directory.metrics.append(rows)
    charts = attacks.curves_section(of(open_run(tmp_path / "r"))).blocks
    assert {chart.title: [series.name for series in chart.series] for chart in charts} == {
        "Recommendation quality": ["hr@5"],
        "Exposure of target items": ["er@5", "er@5[3]"],
    }
    directory.finish("complete")


def test_findings_are_told_by_measure(tmp_path):
    directory = bare_run(tmp_path / "r")
    row = {"attack": "leaks", "measure": "auc", "labels": '{"depth": 3}'}
    directory.findings.append([row | {"time": float(t), "round": t, "value": t / 10} for t in (1, 2)])
    chart, table = attacks.findings_section(of(open_run(tmp_path / "r"))).blocks
    assert [(series.name, list(series.y)) for series in chart.series] == [("leaks, depth 3", [0.1, 0.2])]
    assert table.rows == [["auc", "leaks, depth 3", 2, 0.2]]
    directory.finish("complete")


def test_every_node_is_a_row_with_shares_in_percent(tmp_path):
    (table,) = nodes.node_table_section(of(write_run(tmp_path / "r"))).blocks
    assert [(column.name, column.kind) for column in table.columns][1:] == [
        ("in contacts", "number"), ("betweenness", "number"),
        ("attack accuracy, single nodes", "percent"), ("exposure, single nodes", "percent"),
    ]  # fmt: skip
    assert table.rows[3] == [3, 3, 0.7, 0.5, 0.0]


def test_several_runs_stand_side_by_side_under_their_names(tmp_path):
    runs = of(write_run(tmp_path / "plain"), write_run(tmp_path / "defended"))
    (table,) = blocks(overview.overview_section(runs), TableBlock)
    assert [row[0] for row in table.rows] == ["plain", "defended"]
    (spans,) = blocks(attacks.results_section(runs), IntervalChart)
    assert [span.name for span in spans.spans] == ["plain: single nodes", "defended: single nodes"]
    assert list(blocks(nodes.network_section(runs), BlockChoice)[0].blocks) == ["plain", "defended"]
    (tiles,) = blocks(attacks.results_section(runs), Tiles)
    assert [tile.name for tile in tiles.tiles] == ["plain: hr@20", "defended: hr@20"]


def test_a_folder_that_is_neither_run_nor_study_is_refused(tmp_path):
    with pytest.raises(
        LogError, match=r"has no manifest\.json; it is not a study folder either: it has no study\.json"
    ):
        collect_sections([tmp_path], tmp_path)


def test_the_last_time_is_that_of_the_last_event(tmp_path):
    assert logged_until(write_run(tmp_path / "r")) == 4.0
