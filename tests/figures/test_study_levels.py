"""What a measure is to be read beside: guessing, and how much could be found at all."""

from __future__ import annotations

import math

import pyarrow.parquet as pq
import pytest

from gossiprec.base.errors import LogError
from gossiprec.figures.study import draw
from gossiprec.figures.study.draw import differences_to_baseline
from gossiprec.figures.study.estimates import AT_MOST, GUESSING, POPULARITY, MeanEstimate, collect_levels
from gossiprec.figures.study.quantity import Quantity
from gossiprec.figures.study.table_reader import read_study
from gossiprec.figures.style import house_style
from gossiprec.study.study_table import write_study_table
from tests.figures.drawn_studies import figure_of, legend, titles, with_levels, write_study

SINGLE = "max_aac[single]"
BOUND, GUESS = "upper bound: fraction met", "guessing"


def bounded(folder, bound=0.9, guess=0.05):
    return with_levels(write_study(folder), upper_bound=bound, random_bound=guess)


def marks(axes, marker):
    """Return the places of marks of a kind, in the order of rows."""
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [round(float(x), 6) for line in lines for x in line.get_xdata()]


def test_lines_show_both_levels_and_say_what_they_are(tmp_path):
    figure = figure_of(bounded(tmp_path), y=SINGLE)
    assert legend(figure)[-2:] == [GUESS, BOUND]
    levels = {round(float(y), 6) for line in figure.axes[0].lines for y in line.get_ydata()}
    assert {5.0, 90.0} <= levels
    assert figure.axes[0].get_ylim()[0] == 0


def test_what_the_study_has_not_collected_is_not_drawn(tmp_path):
    write_study(tmp_path)
    assert GUESS not in legend(figure_of(tmp_path, y=SINGLE))
    assert legend(figure_of(bounded(tmp_path), y="hr@20")) == ["graph ring", "graph random"]


def test_a_row_has_its_own_bound_and_guessing_is_one_line_through_all(tmp_path):
    bounded(tmp_path, bound=lambda row: {1: 0.2, 2: 0.3, 5: 0.8}[row["fanout"]])
    axes = figure_of(tmp_path, x="graph", by="fanout", y=SINGLE).axes[0]
    assert sorted(marks(axes, "|")) == [20, 20, 30, 30, 80, 80]
    upright = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_xdata() for line in upright] == [pytest.approx([5.0, 5.0])]


def test_differences_show_the_bound_less_what_the_baseline_found(tmp_path):
    """The accuracy at fan-out 2 is 0.2 + 0.01 s; where nothing more than 0.03 could be found, that is no defence."""
    bounded(tmp_path, bound=lambda row: 0.03 if row["fanout"] == 1 else 0.9)
    axes = figure_of(tmp_path, "paired", y=SINGLE).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    wanted = {"fanout 1, graph ring": 100 * (0.03 - 0.22), "fanout 5, graph ring": 100 * (0.9 - 0.22)}
    found = dict(zip(names, marks(axes, "|"), strict=True))
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert marks(axes, "4")[:1] == pytest.approx([100 * (0.05 - 0.22)])


def test_levels_of_differences_are_paired_by_seed(tmp_path):
    """Seeds 2 and 3 alone have a bound: the baseline's accuracy of seed 1 must not count."""
    write_study(tmp_path)
    rows = pq.read_table(tmp_path / "table.parquet").to_pylist()
    of = [row for row in rows if row["measure"] == "max_aac" and row["seed"] > 1]
    write_study_table(
        tmp_path,
        rows + [{**row, "measure": "upper_bound", "value": 0.5} for row in of],
        {"fanout": "int64", "graph": "string"},
    )
    table = read_study(tmp_path)
    [quantity] = table.find_quantities(SINGLE)
    ring = next(d for d in differences_to_baseline(table, quantity) if d.point == (1, "ring"))
    assert ring.levels == {AT_MOST: pytest.approx(0.5 - (0.2 + 0.025))}


def test_a_level_far_off_the_scale_is_told_instead(tmp_path):
    write_study(tmp_path, fanouts=(0.1, 0.2))  # accuracies of some 5 %
    rows = pq.read_table(tmp_path / "table.parquet").to_pylist()
    more = [{**r, "measure": "upper_bound", "value": 0.9} for r in rows if r["measure"] == "max_aac"]
    write_study_table(tmp_path, rows + more, {"fanout": "float64", "graph": "string"})
    figure = figure_of(tmp_path, y=SINGLE)
    assert titles(figure) == ["single nodes upper bound off the axis, at 90 %"]
    assert figure.axes[0].get_ylim()[1] < 30


@pytest.mark.parametrize("kind", ["lines", "paired", "front", "heat"])
def test_panels_of_one_measure_have_one_scale(tmp_path, kind):
    """A coalition finds twice what single nodes find: to be seen, not to be read from the ticks."""
    write_study(tmp_path, fanouts=(1, 2))
    figure = figure_of(tmp_path, kind, y="max_aac")
    assert len(figure.axes) == 2
    if kind == "heat":
        scales = [axes.images[0].get_clim() for axes in figure.axes]
    else:
        scales = [axes.get_xlim() if kind == "paired" else axes.get_ylim() for axes in figure.axes]
    assert scales[0] == scales[1]
    low, high = scales[0]
    assert (low <= -20) if kind == "paired" else (high >= 44)  # what the coalition's panel alone would need


def test_panels_of_different_measures_have_scales_of_their_own(tmp_path):
    write_study(tmp_path, fanouts=(1, 2))
    single, _, utility = figure_of(tmp_path, y=["max_aac", "hr@20"]).axes
    assert single.get_ylim() != utility.get_ylim()


@pytest.mark.parametrize(
    ("name", "beside", "level"),
    [
        ("recall@20", "recall@20[popularity]", POPULARITY),
        ("recall@20[validated]", "recall@20[popularity]", POPULARITY),
        ("contribution.leaks.cda", "contribution.leaks.cda_random", GUESSING),
        ("contribution.leaks.auxiliary_mia_auc", "contribution.leaks.mia_auc_popularity", POPULARITY),
        ("item_auc", "item_auc_popularity", POPULARITY),
        ("last_aac", "upper_bound", AT_MOST),
        ("exposure_defended", "random_bound", GUESSING),
    ],
)
def test_each_measure_knows_what_stands_beside_it(tmp_path, name, beside, level):
    table = read_study(write_study(tmp_path))
    table.values[Quantity(beside)] = {(1, "ring"): {1: 0.5}}
    assert collect_levels(table, Quantity(name)) == {level: {(1, "ring"): {1: 0.5}}}
    assert collect_levels(table, Quantity(beside)) == {}


def test_a_front_marks_the_bound_of_each_point_that_is_on_its_scale(tmp_path):
    bounded(tmp_path, bound=lambda row: 0.12 if row["fanout"] == 1 else 0.95)
    figure = figure_of(tmp_path, "front", y=SINGLE)
    [bounds] = [line for line in figure.axes[0].lines if line.get_marker() == "_"]
    assert list(bounds.get_ydata()) == pytest.approx([12.0, 12.0])  # fan-out 1 in both graphs
    [stairs] = [line for line in figure.axes[0].lines if line.get_drawstyle().startswith("steps")]
    assert (
        stairs.get_drawstyle() == "steps-pre"
    )  # between two points, only the worse attack accuracy is reached
    assert titles(figure)[0].startswith(
        "highest attack accuracy, single nodes; grey dashes: upper bound"  # guessing, 5 %, is below the scale
    )


def test_a_legend_names_only_what_is_drawn_and_a_bound_does_not_squeeze_differences(tmp_path):
    bounded(tmp_path, bound=0.95)
    figure = figure_of(tmp_path, "paired", y=SINGLE)
    assert legend(figure) == [GUESS]
    assert figure.axes[0].get_xlim()[1] < 40
    assert "upper bound off the axis" in titles(figure)[0]


def test_measures_of_different_scale_have_panels_of_their_own(tmp_path):
    bounded(tmp_path)
    with_levels(tmp_path, **{"bytes.sent": lambda row: 2e6 * row["fanout"], "virtual_time": 3.0})
    figure = figure_of(tmp_path, by="measure", x="fanout", y=["bytes.sent", "virtual_time", "max_aac"])
    labels = {axes.get_ylabel().replace("\n", " ") for axes in figure.axes}
    assert {"bytes sent", "virtual time (mean wake periods)", "share (%)"} == labels
    figure.draw_without_rendering()
    (of_bytes, *_) = (axes for axes in figure.axes if axes.get_ylabel() == "bytes sent")
    assert of_bytes.yaxis.get_major_formatter()(4e6) == "4 MB"


def test_intervals_of_shares_end_at_0_and_100(tmp_path):
    write_study(tmp_path)  # at fan-out 5 the hit rate is 98 % ± 2.5
    for kind in ("lines", "front"):
        figure = figure_of(tmp_path, kind, y="hr@20" if kind == "lines" else SINGLE)
        drawn = [axes.dataLim.x1 if kind == "front" else axes.dataLim.y1 for axes in figure.axes]
        assert max(drawn) <= 100


def test_a_front_names_points_that_others_beat(tmp_path):
    write_study(tmp_path)
    figure = figure_of(tmp_path, "front", y=SINGLE)
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert sum("fanout" in text for text in texts) == 6
    beaten = [line.get_marker() for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert len(beaten) >= 4
    assert all(beaten.count(mark) % 2 == 0 for mark in beaten)  # a point, and its mark beside its name


def test_where_guessing_varies_lines_are_multiples_of_it(tmp_path):
    bounded(tmp_path, guess=lambda row: 0.05 / row["fanout"] ** 2)
    figure = figure_of(tmp_path, x="fanout", y=SINGLE)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel().replace("\n", " ") == "highest attack accuracy (times guessing)"
    ring = axes.lines[0].get_ydata()
    assert list(ring) == pytest.approx([(0.1 * f + 0.02) * f**2 / 0.05 for f in (1, 2, 5)])
    assert any(list(line.get_ydata()) == pytest.approx([1.0] * 3) for line in axes.lines)
    with house_style():
        figure.draw_without_rendering()
        assert axes.yaxis.label.get_window_extent().x0 >= 0  # no label is cut off
    percent = figure_of(tmp_path, x="fanout", y=SINGLE, scale="percent").axes[0]
    assert percent.get_ylabel().replace("\n", " ") == "highest attack accuracy (%)"
    with pytest.raises(LogError, match="--scale: found 'log'; expected one of auto, percent, guessing"):
        figure_of(tmp_path, x="fanout", y=SINGLE, scale="log")


def test_the_height_of_a_band_is_that_on_its_axis():
    scale = 0.85, 42.0
    wide, below = MeanEstimate(1.3, 1.05, 1.55, 3), MeanEstimate(1.3, -0.1, 2.7, 3)
    assert draw._height(wide, scale, is_log=False) < draw.NARROW < draw._height(wide, scale, is_log=True)
    assert draw._height(below, scale, is_log=True) == math.inf
