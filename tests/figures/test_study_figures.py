"""``gossiprec plot study``."""

from __future__ import annotations

import csv
import json
import math

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gossiprec.base.errors import LogError
from gossiprec.cli.plot import plot
from gossiprec.figures.study import panels
from gossiprec.figures.study.table_reader import read_study
from gossiprec.study.study_table import write_study_table
from tests.figures.drawn_studies import NONE, figure_of, with_levels, write_study
from tests.slow import slow_except_first

KINDS = ("lines", "heat", "front", "paired")


def invoke(*arguments):
    return CliRunner().invoke(plot, ["study", *map(str, arguments)])


def drawn(folder, kind, *options):
    result = invoke(folder, "--kind", kind, *options)
    assert result.exit_code == 0, result.exception
    with (folder / f"{kind}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", slow_except_first(KINDS))
@pytest.mark.cases(1)
def test_files_go_into_the_folder_and_equal_tables_give_equal_bytes(tmp_path, kind):
    one, other = write_study(tmp_path / "one"), write_study(tmp_path / "other")
    for folder in (one, other):
        result = invoke(folder, "--kind", kind)
        assert result.output.split() == [str(folder / f"{kind}.{end}") for end in ("csv", "png", "svg")]
    for end in ("csv", "png", "svg"):
        assert (one / f"{kind}.{end}").read_bytes() == (other / f"{kind}.{end}").read_bytes()


def test_lines_are_means_over_seeds_as_fractions(tmp_path):
    rows = drawn(write_study(tmp_path / "s"), "lines")
    assert len(rows) == 2 * 3 * 2
    row = next(r for r in rows if (r["observer"], r["fanout"], r["graph"]) == ("coalition-10%", "5", "ring"))
    assert float(row["mean"]) == pytest.approx(2 * (0.5 + 0.02))
    # s = 0.02 of three seeds: half width 4.3027 * 0.02 / sqrt(3)
    assert float(row["high"]) - float(row["mean"]) == pytest.approx(4.3027 * 0.02 / math.sqrt(3), rel=1e-4)
    assert row["n"] == "3"


def test_one_attack_can_be_chosen_and_one_value_of_an_axis(tmp_path):
    rows = drawn(write_study(tmp_path / "s"), "heat", "--y", "max_aac[single]")
    assert {row["observer"] for row in rows} == {"single"}
    rows = drawn(tmp_path / "s", "lines", "--y", "max_aac[single]", "--where", "graph=ring")
    assert {row["graph"] for row in rows} == {"ring"}


def test_the_front_marks_what_is_not_beaten(tmp_path):
    rows = drawn(write_study(tmp_path / "s"), "front", "--y", "max_aac[single]")
    # a ring has a little more utility than the random graph and a little less accuracy of the attack
    assert {(row["fanout"], row["graph"]) for row in rows if row["unbeaten"] == "1"} == {
        (fanout, "ring") for fanout in ("1", "2", "5")
    }


def test_a_front_has_the_direction_of_its_measures(tmp_path):
    """A lower utility measure goes with a lower accuracy of the attack, so fanout 1 beats all."""
    study = with_levels(write_study(tmp_path / "s"), "hr@20", **{"exposure_gini@5": lambda row: row["value"]})
    options = {"y": "max_aac[single]", "against": "exposure_gini@5"}
    rows = drawn(study, "front", "--y", options["y"], "--against", options["against"])
    assert {row["fanout"] for row in rows if row["unbeaten"] == "1"} == {"1"}
    assert [row["fanout"] for row in rows] == ["5", "5", "2", "2", "1", "1"]
    (axes,) = figure_of(study, "front", **options).axes
    assert axes.get_xlabel().endswith("(lower is better)")
    assert axes.get_ylabel().endswith("(lower is better)")


def test_ticks_without_room_have_no_labels(tmp_path):
    study = write_study(tmp_path / "s", fanouts=(500, 520, 800))
    (axes,) = figure_of(study, x="fanout", y="hr@20").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["500", "", "800"]


@pytest.mark.slow
def test_a_front_ignores_differences_below_a_tenth_of_a_percent(tmp_path):
    study = write_study(tmp_path / "s", fanouts=(1,))
    rows = pq.read_table(study / "table.parquet").to_pylist()
    for row in rows:
        if (row["graph"], row["measure"]) == ("random", "max_aac"):
            row["value"] -= 0.0012  # the attack finds 0.0002 less than in the ring, which has more utility
    write_study_table(study, rows, {"fanout": "int64", "graph": "string"})
    drawn_rows = drawn(study, "front", "--y", "max_aac[single]")
    assert [row["graph"] for row in drawn_rows if row["unbeaten"] == "1"] == ["ring"]


def test_differences_are_to_the_baseline_of_the_same_graph_and_seed(tmp_path):
    rows = drawn(write_study(tmp_path / "s"), "paired", "--y", "max_aac[single]")
    assert {(row["fanout"], row["graph"]) for row in rows} == {
        (f, g) for f in "15" for g in ("ring", "random")
    }
    for row in rows:
        wanted = 0.1 * (int(row["fanout"]) - 2)
        assert [float(row[key]) for key in ("difference", "low", "high")] == pytest.approx([wanted] * 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.cases(2)
def test_one_seed_is_drawn_without_intervals(tmp_path, kind):
    rows = drawn(write_study(tmp_path / "s", seeds=(4,)), kind)
    assert {row["low"] for row in rows} == {""}


def test_seeds_that_failed_are_left_out(tmp_path):
    folder = write_study(tmp_path / "s", seeds=(1, 2))
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "table.parquet").to_pylist()
    for row in rows:
        if row["seed"] == 2 and row["fanout"] == 5:
            row.update(measure=None, value=None, status="failed")
    write_study_table(folder, rows, {"fanout": "int64", "graph": "string"})
    counts = {(row["fanout"], row["n"]) for row in drawn(folder, "lines")}
    assert counts == {("1", "2"), ("2", "2"), ("5", "1")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--x", "fanuot"), "did you mean 'fanout'"),
        (("--x", "fanout", "--by", "fanout"), "are both fanout"),
        (("--y", "max_acc"), "did you mean 'max_aac'"),
        (("--y", "max_aac[coordinator]"), "it has hr@20"),
        (("--y", "max_aac[single,ndcg,high]"), "must be a number"),
        (("--where", "graph=torus"), "it has ring, random"),
        (("--kind", "front", "--against", "messages"), "has no measure 'messages'"),
        (("--kind", "heat", "--where", "graph=ring"), "needs 2 axes that vary"),
        (("--kind", "paired", "--where", "fanout=1"), "no finished run"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(tmp_path, options, words):
    result = invoke(write_study(tmp_path / "s"), *options)
    assert isinstance(result.exception, LogError)
    assert words in str(result.exception)


def test_too_many_panels_are_refused_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(panels, "MOST_PANELS", 1)
    result = invoke(write_study(tmp_path / "s"))
    assert (
        "have 2 panels, but only 1 fit; choose an attack with --y, such as --y 'max_aac[single,ndcg,0.9,5]'"
        in (str(result.exception))
    )
    assert drawn(tmp_path / "s", "lines", "--y", "max_aac[single,ndcg,0.9,5]")


def test_a_study_without_a_baseline_says_how_to_give_it_one(tmp_path):
    folder = write_study(tmp_path / "s")
    told = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**told, "baseline": {}}))
    assert "has no baseline; write `baseline" in str(invoke(folder, "--kind", "paired").exception)


def test_a_folder_of_something_else_is_refused(tmp_path):
    result = invoke(tmp_path)
    assert "is not a study folder" in str(result.exception)


def test_a_study_without_a_finished_run_is_refused(tmp_path):
    write_study(tmp_path / "s", seeds=())
    assert "is finished, so there is nothing to draw yet" in str(invoke(tmp_path / "s").exception)


def test_findings_are_chosen_by_labels_that_have_no_column(tmp_path):
    folder = write_study(tmp_path / "study")
    rows = [
        {"fanout": fanout, "graph": "ring", "seed": seed, "run": "r", "status": "complete", "code": "c", **NONE,
         "observer": "everybody", "measure": "heard", "labels": json.dumps({"least": least}), "value": fanout / least}
        for fanout in (1, 2) for seed in (1, 2) for least in (3, 4)
    ]  # fmt: skip
    write_study_table(folder, rows, {"fanout": "int64", "graph": "string"})
    table = drawn(folder, "lines", "--x", "fanout", "--y", "heard[least=4]")
    assert [row["measure"] for row in table] == 2 * ["heard[least=4]"]
    assert [float(row["mean"]) for row in table] == [0.25, 0.5]
    assert {row["observer"] for row in table} == {"everybody"}
    assert len(drawn(folder, "lines", "--x", "fanout", "--y", "heard")) == 4
    result = invoke(folder, "--kind", "lines", "--x", "fanout", "--y", "heard[least=5]")
    assert "it has heard (everybody, least 3), heard (everybody, least 4)" in str(result.exception)


def test_where_names_of_axes_leave_no_room_values_stand_alone(tmp_path):
    long = "as-near-as-it-gets-to-a-ring"
    table = read_study(write_study(tmp_path / "study", graphs=("ring", long)))
    points = [(2, "ring"), (2, long)]
    assert list(table.name_points(points).of.values()) == ["graph ring", f"graph {long}"]
    points = [(1, "ring"), *points]
    assert list(table.name_points(points).of.values()) == ["1, ring", "2, ring", f"2, {long}"]
    assert list(table.name_points([(1, "ring"), (2, "tree")]).of.values()) == [
        "fanout 1, graph ring",
        "fanout 2, graph tree",
    ]


def test_words_stand_in_rows_and_are_not_joined(tmp_path):
    write_study(tmp_path)
    over_words = figure_of(tmp_path, x="graph", by="fanout", y="max_aac[single]").axes[0]
    assert [label.get_text() for label in over_words.get_yticklabels()] == ["ring", "random"]
    assert over_words.get_xlabel() == "highest attack accuracy (%)"
    points = [line for line in over_words.lines if line.get_marker() in "osD"]
    assert {len(line.get_xdata()) for line in points} == {1}
    over_numbers = figure_of(tmp_path, x="fanout", y="max_aac[single]").axes[0]
    assert "-" in {line.get_linestyle() for line in over_numbers.lines}
    assert over_numbers.get_ylabel() == "highest attack accuracy (%)"


def test_axes_are_labelled_in_words(tmp_path):
    write_study(tmp_path)
    labels = [figure_of(tmp_path, y=y).axes[0].get_ylabel() for y in ("max_aac[single]", "hr@20")]
    assert labels == ["highest attack accuracy (%)", "HR@20 (%)"]
