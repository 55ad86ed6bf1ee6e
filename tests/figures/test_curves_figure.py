"""The figure of AAC, its bounds, and utility over both clocks."""

import numpy as np
import pytest
from small_runs import lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.figures import curves
from gossiprec.figures.attack_selection import AttackSelection, attack_curves, ranking_metrics
from gossiprec.figures.curves import curve_rows
from gossiprec.runs import RunDirectory, open_run


def rows_of(runs):
    attacks = {key: c for run in runs for key, c in attack_curves(run, run.path.name).items()}
    utility = {
        (run.path.name, metric): points for run in runs for metric, points in ranking_metrics(run).items()
    }
    return curve_rows(attacks, utility)


def test_the_table_holds_the_numbers_of_the_run(tmp_path):
    curves.draw([write_run(tmp_path / "run")], tmp_path / "curves")
    assert lines(tmp_path / "curves.csv") == [
        "run,observer,relevance,momentum,community_size,quantity,round,time,value",
        "run,single,ndcg,0.9,4,aac,0,0.0,0.1",
        "run,single,ndcg,0.9,4,aac,1,1.5,0.25",
        "run,single,ndcg,0.9,4,upper_bound,0,0.0,0.5",
        "run,single,ndcg,0.9,4,upper_bound,1,1.5,0.5",
        "run,single,ndcg,0.9,4,random_bound,0,0.0,0.4",
        "run,single,ndcg,0.9,4,random_bound,1,1.5,0.4",
        "run,,,,,hr@20,0,0.0,0.2",
        "run,,,,,hr@20,1,1.5,0.7",
    ]


def test_an_interrupted_run_is_drawn_as_far_as_it_got(tmp_path):
    run = write_run(tmp_path / "run", status="interrupted")
    assert [path.name for path in curves.draw([run], tmp_path / "c")] == ["c.csv", "c.png", "c.svg"]


def test_a_run_without_attacks_has_its_utility_drawn(tmp_path):
    run = write_run(tmp_path / "run", observers=())
    assert len(curves.draw([run], tmp_path / "curves")) == 3
    assert lines(tmp_path / "curves.csv")[1:] == ["run,,,,,hr@20,0,0.0,0.2", "run,,,,,hr@20,1,1.5,0.7"]
    assert [row.title for row in rows_of([run])] == ["Recommendation quality"]


def test_an_attack_that_no_run_has_is_refused(tmp_path):
    run = write_run(tmp_path / "run", observers=())
    with pytest.raises(LogError, match=r"no attack results: attacks\.csv"):
        curves.draw([run], tmp_path / "curves", selection=AttackSelection(observers=("single",)))


def test_a_run_with_neither_attacks_nor_utility_is_refused(tmp_path):
    directory = RunDirectory.create(
        tmp_path / "run", scenario={"name": "run"}, seed=1, sizes={"view_size": 1}
    )
    directory.finish("complete")
    with pytest.raises(LogError, match=r"no attack results: attacks\.csv"):
        curves.draw([open_run(directory.path)], tmp_path / "curves")


def test_rules_and_momenta_have_rows_and_observers_have_lines(tmp_path):
    run = write_run(
        tmp_path / "run",
        observers=("single", "coalition-5%"),
        relevances=("ndcg", "standardized"),
        momenta=(0, 0.9),
    )
    accuracy, utility = rows_of([run])[:4], rows_of([run])[-1]
    assert [row.title for row in accuracy] == [
        "Average attack accuracy, relevance ndcg, momentum 0",
        "Average attack accuracy, relevance ndcg, momentum 0.9",
        "Average attack accuracy, relevance standardized, momentum 0",
        "Average attack accuracy, relevance standardized, momentum 0.9",
    ]
    assert [curve.name for curve in accuracy[0].curves] == ["single nodes", "coalition of 5 %", "guessing"]
    assert [curve.name for curve in utility.curves] == ["HR@20"]


def test_the_last_mark_is_inside_its_panel(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(curves, "write_figure", lambda stem, header, rows, draw: figures.append(draw()))
    curves.draw([write_run(tmp_path / "run")], tmp_path / "d")
    for axes in figures[0].axes:
        last = max(line.get_xdata()[-1] for line in axes.lines if line.get_transform() == axes.transData)
        assert last < axes.get_xlim()[1]


def test_the_upper_bound_is_drawn_once_for_all_rules(tmp_path):
    rows = rows_of([write_run(tmp_path / "run", relevances=("ndcg", "standardized"))])
    bounds = [row for row in rows if row.label == "met"]
    assert [curve.name for row in bounds for curve in row.curves] == ["single nodes"]


def test_a_run_keeps_its_look_in_every_row(tmp_path):
    rows = rows_of([write_run(tmp_path / name) for name in ("plain", "defended")])
    looks = {(c.name, c.style.color) for row in rows for c in row.curves if c.name != "guessing"}
    assert len(looks) == 2


def test_the_heading_names_thin_dashes_only_if_there_are_any(tmp_path):
    (accuracy, *_) = rows_of([write_run(tmp_path / "run")])
    assert accuracy.top == pytest.approx(
        1.08 * 40
    )  # the random bound; the upper bound, 50 %, is off the scale
    assert "dashes" not in accuracy.heading


def with_orders(run, value, order="popularity"):
    """Add the metric of another order of the items, or of a group of users, at both reports."""
    columns = run.metrics
    columns["time"] = np.append(columns["time"], [0.0, 1.5])
    columns["round"] = np.append(columns["round"], [0, 1])
    columns["metric"] = np.append(columns["metric"], [f"hr@20[{order}]"] * 2)
    columns["value"] = np.append(columns["value"], [value] * 2)
    return run


def test_other_orders_are_level_lines_in_the_row_of_their_metric(tmp_path):
    run = with_orders(write_run(tmp_path / "one"), 0.4)
    row = rows_of([run])[-1]
    assert [curve.name for curve in row.curves] == ["HR@20", "popularity"]
    assert row.curves[1].points_by_clock("round")[1].tolist() == [40.0, 40.0]
    assert row.curves[1].style.color == row.curves[0].style.color
    two = rows_of([run, with_orders(write_run(tmp_path / "two"), 0.4)])[-1]
    assert [curve.name for curve in two.curves] == ["one", "two", "popularity"]
    other = rows_of([run, with_orders(write_run(tmp_path / "three"), 0.3)])[-1]
    assert [curve.name for curve in other.curves] == ["one", "three", "popularity", "popularity"]


def test_groups_of_users_are_no_level_lines(tmp_path):
    run = with_orders(write_run(tmp_path / "one"), 0.4, "gender=F")
    assert [curve.name for curve in rows_of([run])[-1].curves] == ["HR@20"]
