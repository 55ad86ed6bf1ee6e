"""What the axes of a study explain is no part of what its numbers are called."""

import csv
import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.cli.plot import plot
from gossiprec.cli.progress import means_table
from gossiprec.figures.study.quantity import Quantity, join_labels
from gossiprec.figures.study.table_reader import is_numeric, read_study
from gossiprec.study.study_table import write_study_table
from tests.figures.drawn_studies import figure_of, legend, titles

PLACEMENTS = ("random", "degree", "greedy-cover")
FRACTIONS = (0.05, 0.1, 0.2)
NONE = {"observer": None, "relevance": None, "momentum": None, "community_size": None}


def written(folder, rows, axes):
    """Write a study of these rows, given axes' values, an attack's name and options."""
    folder.mkdir()
    about = {"run": "r", "status": "complete", "code": "c"}
    attack = {"relevance": "ndcg", "momentum": 0.9, "community_size": 5, "measure": "max_aac"}
    told = [{**about, **attack, "seed": seed, "value": 0.1 * seed, **row} for row in rows for seed in (1, 2)]
    write_study_table(folder, told, axes)
    mark = {"study": "s", "gossiprec": "0", "axes": list(axes), "baseline": {}}
    (folder / "study.json").write_text(json.dumps(mark))
    return folder


@pytest.fixture
def placed(tmp_path):
    """Who colludes at how many places, beside single observers that are the same everywhere."""
    rows = []
    for placement in PLACEMENTS:
        for fraction in FRACTIONS:
            point = {"placement": placement, "fraction": fraction}
            name = f"coalition-{100 * fraction:g}%" + ("" if placement == "random" else f"-{placement}")
            rows += [{**point, "observer": name}, {**point, "observer": "single"}]
    return written(tmp_path / "placed", rows, {"placement": "string", "fraction": "float64"})


def drawn(folder, *options):
    return CliRunner().invoke(plot, ["study", str(folder), *options])


@pytest.mark.slow
def test_placement_by_fraction_is_one_panel_with_a_line_for_each_placement(placed):
    figure = figure_of(placed)
    assert titles(figure) == ["coalition", "single nodes"]
    assert {axes.get_xlabel() for axes in figure.axes} == {"fraction"}
    assert legend(figure) == [f"placement {placement}" for placement in PLACEMENTS]
    assert drawn(placed).exit_code == 0
    with (placed / "lines.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["observer"] == "coalition"]
    assert [(row["placement"], row["fraction"]) for row in rows] == [
        (placement, f"{fraction:g}") for placement in PLACEMENTS for fraction in FRACTIONS
    ]


@pytest.mark.parametrize("kind", ["heat", "paired", "front"])
def test_other_figures_have_one_panel_for_it_too(placed, kind):
    mark = json.loads((placed / "study.json").read_text())
    (placed / "study.json").write_text(json.dumps(mark | {"baseline": {"placement": "random"}}))
    options = ("--against", "max_aac[single]") if kind == "front" else ()
    result = drawn(placed, "--kind", kind, "--y", "max_aac[coalition]", *options)
    assert result.exit_code == 0, result.exception
    with (placed / f"{kind}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["observer"] for row in rows} == {"coalition"}
    assert len(rows) == (6 if kind == "paired" else 9)


def test_the_table_at_the_end_has_one_column_for_it(placed):
    headings = [str(column.header).split() for column in means_table(read_study(placed)).columns]
    assert [heading[0] for heading in headings] == ["placement", "fraction", "coalition", "single"]


def test_what_axes_tell_apart_is_chosen_by_their_values(placed):
    result = drawn(placed, "--y", "max_aac[coalition-5%]")
    assert re.search(
        r"differs along the axes .*placement, fraction.*--where AXIS=VALUE", str(result.exception)
    )
    assert drawn(placed, "--y", "max_aac[coalition-5%]", "--where", "fraction=0.05").exit_code == 0
    assert [q.observer for q in read_study(placed).restrict_to({"fraction": "0.05"}).values] == [
        "coalition-5%",
        "single",
    ]


def test_combinations_keep_the_order_of_the_study(placed):
    values = read_study(placed).values
    asked = [(placement, fraction) for placement in PLACEMENTS for fraction in FRACTIONS]
    assert [list(points) for points in values.values()] == [asked, asked]


def test_a_study_of_one_combination_leaves_its_attacks_apart(tmp_path):
    rows = [{"x": 1, "observer": f"coalition-{share}%"} for share in (5, 10)]
    assert len(read_study(written(tmp_path / "s", rows, {"x": "int64"})).values) == 2


def of(observer, momentum=0.9, relevance="ndcg"):
    return Quantity("max_aac", observer, relevance, momentum, 5)


def merged(values):
    """Return the quantities of values given as sets of points."""
    mappings = {quantity: dict.fromkeys(points) for quantity, points in values.items()}
    joined = join_labels(mappings, lambda parts: {point: None for part in parts for point in part})
    return {quantity: set(points) for quantity, points in joined.items()}


def test_as_few_labels_as_do_are_left_out():
    assert merged({of("coalition-5%"): {1}, of("coalition-10%"): {2}}) == {of("coalition"): {1, 2}}
    assert merged({of("coalition-5%"): {1}, of("coalition-5%-degree"): {2}}) == {of("coalition-5%"): {1, 2}}
    assert merged({of("single", 0.0): {1}, of("single", 0.5): {2}}) == {of("single", None): {1, 2}}
    assert merged({of("single"): {1}, of("coordinator"): {2}}) == {of(None): {1, 2}}
    both = {of("single", 0.0, "ndcg"): {1}, of("single", 0.5, "mean_score"): {2}}
    assert merged(both) == {of("single", None, None): {1, 2}}


def test_attacks_of_one_run_stay_apart():
    values = {of(f"coalition-{share}%{how}"): {how} for share in (5, 10) for how in ("", "-degree")}
    assert merged(values) == {of("coalition-5%"): {"", "-degree"}, of("coalition-10%"): {"", "-degree"}}
    everywhere = {of("single"): {1, 2}, of("coalition-5%"): {1}, of("coalition-10%"): {2}}
    assert merged(everywhere) == {of("single"): {1, 2}, of("coalition"): {1, 2}}


def test_findings_are_told_apart_by_labels_of_their_own():
    heard = [Quantity("heard", "single", others=(("least", k),)) for k in (1, 2)]
    assert merged({heard[0]: {1, 2}, heard[1]: {1, 2}}) == {heard[0]: {1, 2}, heard[1]: {1, 2}}
    assert merged({heard[0]: {1}, heard[1]: {2}}) == {Quantity("heard", "single"): {1, 2}}


QUANTITIES = st.builds(
    Quantity,
    st.sampled_from(["max_aac", "upper_bound"]),
    st.sampled_from(
        ["single", "coordinator", "coalition-5%", "coalition-5%-degree", "coalition-3-nodes", "odd one"]
    ),
    st.sampled_from(["ndcg", None]),
    st.sampled_from([0.0, 0.9]),
)


@given(st.dictionaries(QUANTITIES, st.sets(st.integers(0, 4), min_size=1), max_size=6))
def test_nothing_is_lost_nor_mixed(values):
    found = merged(values)
    pairs = sorted((quantity.name, point) for quantity, points in values.items() for point in points)
    assert sorted((quantity.name, point) for quantity, points in found.items() for point in points) == pairs


def test_labels_that_are_numbers_are_places_on_a_scale(tmp_path):
    rows = [{"x": label, "observer": "single"} for label in ("10", "0.5", "2")]
    table = read_study(written(tmp_path / "numbers", rows, {"x": "string"}))
    assert table.axis_values("x") == ["0.5", "2", "10"]
    assert is_numeric(table.axis_values("x"))
    assert drawn(tmp_path / "numbers").exit_code == 0
    assert not any(map(is_numeric, (["1", "none"], ["1", "nan"], ["1", True], [None])))


def test_a_single_combination_has_a_name(placed):
    table = read_study(placed)
    assert table.name_points([("degree", 0.1)]) == ({("degree", 0.1): "placement degree, fraction 0.1"}, "")
    long = [("greedy-cover and random at a time", 0.1), ("degree", 0.2)]
    assert table.name_points(long).axes == "placement, fraction"


def test_an_axis_on_which_a_measure_has_one_value_alone_is_not_told(tmp_path):
    attacked = [{"x": x, "who": "silent", "observer": "single"} for x in (1, 2)]
    others = [{"x": x, "who": "at work", "measure": "hr@20", **NONE} for x in (1, 2)]
    figure = figure_of(written(tmp_path / "s", attacked + others, {"x": "int64", "who": "string"}))
    assert (titles(figure), legend(figure)) == (["single nodes"], [])
