"""What a report says of a study."""

import base64
import json
import re

import pytest

from gossiprec.base.errors import LogError
from gossiprec.figures.study.estimates import mean_with_interval
from gossiprec.figures.study.table_reader import order_quantities
from gossiprec.report import page, sources
from gossiprec.report.sections import study
from gossiprec.report.sections import study as study_sections
from gossiprec.report.sources import read_report_study
from gossiprec.runs.lock import LOCK, Lock
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.study.study_table import write_study_table
from tests.figures.drawn_studies import with_levels
from tests.figures.small_runs import write_run
from tests.figures.test_study_figures import NONE, write_study


def study_in(folder, **options):
    return read_report_study(write_study(folder, **options), folder)


def marked(folder, **more):
    mark = folder / "study.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | more))
    return folder


def test_a_study_has_every_section_in_order(tmp_path):
    titles = [section.title for section in page.collect_sections([write_study(tmp_path / "s")], tmp_path)]
    assert titles == [
        "The answer",
        "Study s",
        "Means over seeds",
        "Differences from the baseline",
        "Utility against privacy",
        "The runs",
    ]


def test_findings_say_what_is_highest_and_how_it_differs_from_the_baseline(tmp_path):
    attack, utility = study.findings(study_in(tmp_path / "s"))
    interval = r"\(\d+\.\d to \d+\.\d, n = 3\)"
    assert re.search(
        f"highest with fanout 5, graph random: 52.1 % {interval}, and lowest with fanout 1, graph ring: 12.0 % ",
        attack,
    )
    assert (
        "Compared with fanout 2 (same seed and other values), 4 of 4 combinations differ by an interval without 0"
        in attack
    )
    assert "the largest such difference is +30.0 points (+30.0 to +30.0, n = 3) with fanout 5" in attack
    assert utility.startswith("hr@20 is highest with fanout 5, graph ring: 98.0 %")


def test_one_seed_has_no_interval_and_no_difference(tmp_path):
    attack, _ = study.findings(study_in(tmp_path / "s", seeds=(1,)))
    assert "51.1 % (one seed), and lowest" in attack
    assert "Compared" not in attack


def test_the_page_opens_with_the_picture_that_the_study_names(tmp_path):
    folder = marked(
        write_study(tmp_path / "s"), picture={"kind": "heat", "x": "fanout", "by": "graph", "y": "hr@20"}
    )
    picture, sentences = study.answer_section(read_report_study(folder, folder)).blocks
    assert b"</svg>" in base64.b64decode(picture.svg)
    assert [column.name for column in picture.table.columns][-3:] == ["mean", "low", "high"]
    assert len(picture.table.rows) == 6
    assert sentences.paragraphs[0].startswith("hr@20 is highest")


def test_a_picture_of_what_no_run_has_measured_says_so(tmp_path):
    folder = marked(write_study(tmp_path / "s"), picture={"y": "recall@7"})
    text, _ = study.answer_section(read_report_study(folder, folder)).blocks
    assert "cannot be drawn yet" in text.paragraphs[0]
    assert "no measure 'recall@7'" in text.paragraphs[0]


def test_attacks_come_first_then_utility(tmp_path):
    names = [quantity.name for quantity in order_quantities(study_in(tmp_path / "s").table)]
    assert names == ["max_aac", "max_aac", "hr@20"]


def test_means_are_drawn_over_the_first_axis_with_their_intervals(tmp_path):
    choice, table = study_sections.means_section(study_in(tmp_path / "s")).blocks
    chart = choice.blocks["max_aac (single, ndcg, β 0.9, K 5)"]
    ring = next(series for series in chart.series if series.name == "graph ring")
    expected = [mean_with_interval(0.1 * fanout + 0.01 * seed for seed in (1, 2, 3)) for fanout in (1, 2, 5)]
    assert ring.x == [[1, 2, 5]]
    assert ring.y == pytest.approx([e.mean for e in expected])
    assert ring.low == pytest.approx([e.low for e in expected])
    assert ring.high == pytest.approx([e.high for e in expected])
    assert table.rows[0] == [
        "max_aac (single, ndcg, β 0.9, K 5) (%)",
        "1",
        "ring",
        3,
        pytest.approx(12),
        *table.rows[0][5:],
    ]


def test_intervals_of_shares_end_at_100_percent(tmp_path):
    choice, _ = study_sections.means_section(study_in(tmp_path / "s", seeds=(1, 2))).blocks
    rates = choice.blocks["hr@20"].series
    assert max(high for series in rates for high in series.high) == 1.0
    front = next(iter(study_sections.pareto_section(study_in(tmp_path / "s")).blocks[0].blocks.values()))
    assert max(front.series[1].right) == 1.0


def test_an_axis_of_words_has_their_names_for_places(tmp_path):
    choice, _ = study_sections.means_section(study_in(tmp_path / "s", fanouts=(2,))).blocks
    chart = next(iter(choice.blocks.values()))
    assert (chart.x[0].label, chart.x[0].names, chart.mark) == ("graph", ["ring", "random"], "dot")
    assert chart.series[0].x == [[0, 1]]


def test_an_axis_over_a_wide_range_is_logarithmic_and_its_values_are_its_ticks(tmp_path):
    choice, _ = study_sections.means_section(study_in(tmp_path / "s", fanouts=(1, 3, 20))).blocks
    axis = next(iter(choice.blocks.values())).x[0]
    assert (axis.log, axis.ticks) == (True, [1, 3, 20])


def test_a_point_opens_the_runs_behind_it_and_links_those_with_a_report(tmp_path):
    study = study_in(tmp_path / "s")
    choice, _ = study_sections.means_section(study).blocks
    table = next(iter(choice.blocks.values())).details["fanout 1, graph ring"]
    assert [row[:2] for row in table.rows] == [[seed, ["r", ""]] for seed in (1, 2, 3)]
    assert [row[2] for row in table.rows] == pytest.approx([0.11, 0.12, 0.13])
    report = tmp_path / "s" / "runs" / "r" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("")
    assert study.run_link("r") == ["r", "runs/r/report.html"]


def test_differences_are_paired_by_seed(tmp_path):
    (choice,) = study_sections.differences_section(study_in(tmp_path / "s")).blocks
    spans = choice.blocks["max_aac (single, ndcg, β 0.9, K 5)"].spans
    assert {span.name: round(span.value, 9) for span in spans} == {
        "fanout 1, graph ring": -0.1, "fanout 1, graph random": -0.1,
        "fanout 5, graph ring": 0.3, "fanout 5, graph random": 0.3,
    }  # fmt: skip
    assert all(span.high - span.low < 1e-9 for span in spans)


def test_without_a_baseline_there_are_no_differences(tmp_path):
    folder = write_study(tmp_path / "s")
    assert study_sections.differences_section(read_report_study(marked(folder, baseline={}), folder)) is None


def test_the_front_holds_the_points_that_none_beats_in_both(tmp_path):
    (choice,) = study_sections.pareto_section(study_in(tmp_path / "s")).blocks
    line, dots = next(iter(choice.blocks.values())).series
    beaten = {text for text, hollow in zip(dots.texts, dots.hollow, strict=True) if hollow}
    assert beaten == {f"fanout {fanout}, graph random" for fanout in (1, 2, 5)}
    assert len(line.y) == 3


def test_a_study_without_attacks_has_no_front(tmp_path):
    folder = write_study(tmp_path / "s")
    row = {"fanout": 1, "graph": "ring", "run": "r", "status": "complete", "code": "c", **NONE}
    rows = [row | {"seed": seed, "measure": "hr@20", "value": 0.1} for seed in (1, 2)]
    write_study_table(folder, rows, {"fanout": "int64", "graph": "string"})
    assert study_sections.pareto_section(read_report_study(folder, folder)) is None


def test_every_run_is_a_row_also_one_that_failed(tmp_path):
    folder = write_study(tmp_path / "s", fanouts=(1,), graphs=("ring",), seeds=(1,))
    about = {"fanout": 1, "graph": "ring", "code": "c"}
    rows = [
        about | {"seed": 1, "run": "a", "status": "complete", **NONE, "measure": "hr@20", "value": 0.5},
        about | {"seed": 2, "run": "b", "status": "failed", **NONE, "measure": None, "value": None},
    ]
    write_study_table(folder, rows, {"fanout": "int64", "graph": "string"})
    study = read_report_study(
        marked(folder, failed=[{"run": "b", "variants": ["fanout=1, seed 2"], "problem": "no memory"}]),
        folder,
    )
    (table,) = study_sections.runs_section(study).blocks
    assert table.rows == [["1", "ring", 1, ["a", ""], 0.5], ["1", "ring", 2, ["b", ""], None]]
    failed = study_sections.study_overview_section(study).blocks[-1]
    assert failed.rows == [["fanout=1, seed 2", "no memory", ["b", ""]]]


def test_a_study_of_which_no_run_has_ended_says_so_alone(tmp_path):
    folder = marked(write_study(tmp_path / "s"), status="running")
    write_study_table(folder, [], {"fanout": "int64", "graph": "string"})
    (section,) = page.collect_sections([folder], tmp_path)
    assert "Status: killed" in section.blocks[0].paragraphs[0]


def test_runs_that_were_killed_are_listed_as_such(tmp_path):
    folder = marked(write_study(tmp_path / "s"), status="interrupted")
    begun, other, half = (RunDirectory.create(folder / "runs" / name, scenario={}, seed=1) for name in "abc")
    for run in (begun, half):
        run.lock.close()
    other.finish("complete")
    (half.path / "scenario.yaml").unlink()
    table = study_sections.study_overview_section(read_report_study(folder, folder)).blocks[-1]
    assert table.title == "Unfinished runs"
    assert [row[0] for row in table.rows] == [["a", ""], ["c", ""]]
    assert table.rows[0][1].startswith("killed (process ")
    assert "has no scenario.yaml" in table.rows[1][1]


def test_of_a_study_of_another_machine_it_is_not_known_whether_it_goes_on(tmp_path):
    writer = {"host": "elsewhere", "boot": "x", "process": 7}
    folder = marked(write_study(tmp_path / "s"), status="running", writer=writer)
    assert page.is_in_progress([folder])
    assert (
        "Status: unknown"
        in study_sections.study_overview_section(read_report_study(folder, folder)).blocks[0].paragraphs[0]
    )


def test_a_study_is_running_while_a_process_holds_its_lock(tmp_path):
    folder = marked(write_study(tmp_path / "s"), status="running")
    assert not page.is_in_progress([folder])
    lock = Lock(folder / LOCK, LogError("held"), 1.0)
    assert page.is_in_progress([folder])
    lock.close()
    assert not page.is_in_progress([folder])


def test_a_damaged_mark_is_named(tmp_path):
    folder = write_study(tmp_path / "s")
    (folder / "study.json").write_text("[")
    with pytest.raises(LogError, match=r"study\.json"):
        page.is_in_progress([folder])


def test_the_page_of_a_large_study_is_bounded_and_says_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MOST_MEANS", 40)
    monkeypatch.setattr(study_sections, "MOST_ROWS", 20)
    monkeypatch.setattr(study_sections, "MOST_SPANS", 3)
    folder = with_levels(write_study(tmp_path / "s", fanouts=(1, 2, 3, 4)), m1=0.1, m2=0.2)
    found = {section.title: section.blocks for section in page.collect_sections([folder], tmp_path)}
    text = found["Study s"][0].paragraphs[0]
    assert "Charts show the first 5 of 7 measures. table.csv in the study's folder has all." in text
    choice, table = found["Means over seeds"]
    assert len(choice.blocks) == 5
    assert (len(table.rows), "The first 20 of 56 rows" in table.note) == (20, True)
    differences = found["Differences from the baseline"][0].blocks["max_aac (single, ndcg, β 0.9, K 5)"]
    assert "The 3 largest of 6 differences" in differences.note
    assert {span.name for span in differences.spans} >= {"fanout 4, graph ring", "fanout 4, graph random"}
    runs = found["The runs"][0]
    assert (len(runs.rows), "The first 20 of 24 rows" in runs.note) == (20, True)


def test_a_page_of_many_runs_lists_all_and_draws_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_RUNS", 2)
    runs = [write_run(tmp_path / name).path for name in "abc"]
    (runs[2] / "report.html").write_text("")
    first, *others = page.collect_sections(runs, tmp_path)
    text, table = first.blocks
    assert text.paragraphs[0].startswith(
        "This page is about 3 runs. The table has all of them; the sections below"
    )
    assert [row[0] for row in table.rows] == [["a", ""], ["b", ""], ["c", "c/report.html"]]
    assert [column.name for column in table.columns][:3] == ["run", "name", "seed"]
    assert [row[0] for row in others[0].blocks[1].rows] == ["a", "b"]
    assert next(section.title for section in page.collect_sections(runs[:2], tmp_path)) == "Runs"
    page.write_report(runs, tmp_path / "page.html")
    assert b"<title>a, b and 1 more" in (tmp_path / "page.html").read_bytes()
