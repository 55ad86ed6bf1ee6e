"""Differences to the baseline of a study, seed by seed, which removes the variation between seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell
from gossiprec.figures.study.estimates import (
    MeanEstimate,
    ReferenceLevel,
    collect_levels,
    describe_seeds,
    paired_difference,
)
from gossiprec.figures.study.panels import (
    MOST_PANELS,
    Drawing,
    Places,
    RowLabels,
    SeriesPanel,
    StudyFigureOptions,
    StudySeries,
    check_panel_count,
    draw_rows,
    requested_quantities,
    shared_limits,
)
from gossiprec.figures.study.quantity import Label, Quantity, format_label
from gossiprec.figures.study.table_reader import Point, StudyTable, label_cells
from gossiprec.measures.selectors import FILTERS


@dataclass(frozen=True)
class PairedDifference:
    """The difference of one combination from the baseline that shares its other values.

    Attributes
    ----------
    point : Point
    estimate : MeanEstimate
    levels : dict of ReferenceLevel to float
        Difference of each level (guessing, or the most that could be found) from the same baseline.
    """

    point: Point
    estimate: MeanEstimate
    levels: dict[ReferenceLevel, float]


def paired_differences(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    if choice.to:
        table = replace(table, baseline=_baseline(table, choice.to))
    if not table.baseline:
        raise LogError(
            f"the study in {table.path} has no baseline; write `baseline: {{AXIS: VALUE}}` into the study "
            "file and run the same command again (finished runs are kept), or pass one with --to AXIS=VALUE"
        )
    found = {q: differences_to_baseline(table, q) for q in requested_quantities(table, choice)}
    found = {quantity: rows for quantity, rows in found.items() if rows}
    if not found:
        raise LogError(
            f"no finished run of {table.path} shares its seed and other values with one of the baseline"
        )
    check_panel_count(len(found), MOST_PANELS)
    header = ["measure", *FILTERS, *table.axes, "n", "difference", "low", "high"]
    rows: list[list[Cell]] = [
        [*quantity.cells(), *label_cells(d.point), d.estimate.n, d.estimate.mean, d.estimate.low, d.estimate.high]
        for quantity, lines in found.items()
        for d in lines
    ]  # fmt: skip
    return header, rows, lambda: _figure(table, found)


def _baseline(table: StudyTable, to: Mapping[str, str]) -> dict[str, Label]:
    """Return the baseline's values of axes, given as text."""
    return {name: table.find_axis_value(name, text) for name, text in to.items()}


def differences_to_baseline(table: StudyTable, quantity: Quantity) -> list[PairedDifference]:
    """Return the difference of each combination that shares seeds with the baseline."""
    points, levels = table.values[quantity], collect_levels(table, quantity)
    lines = []
    for point, seeds in points.items():
        base = tuple(table.baseline.get(name, label) for name, label in zip(table.axes, point, strict=True))
        if base != point and base in points and set(seeds) & set(points[base]):
            at_levels = {
                level: paired_difference(at[point], points[base]).mean
                for level, at in levels.items()
                if point in at
            }
            lines.append(PairedDifference(point, paired_difference(seeds, points[base]), at_levels))
    return lines


def _figure(table: StudyTable, found: dict[Quantity, list[PairedDifference]]) -> Figure:
    drawn = list(dict.fromkeys(d.point for lines in found.values() for d in lines))
    parts = [_part(table, quantity, lines) for quantity, lines in found.items()]
    return draw_rows(
        parts,
        _rows(table, drawn),
        shared_limits(parts, with_zero=True),
        _caption(table, found, drawn),
        tint=_tint,
    )


def _rows(table: StudyTable, drawn: Sequence[Point]) -> RowLabels:
    """Return the labels of the lines: only values if all belong to one axis, which is then named next to them."""
    axes = table.varying_among(drawn)
    if len(axes) == 1:
        return RowLabels(
            {point: format_label(point[table.axis_index(axes[0])]) for point in drawn},
            table.axis_label(axes[0]),
        )
    names = table.name_points(drawn)
    return RowLabels({point: names.of[point] for point in drawn}, names.axes)


def _part(table: StudyTable, quantity: Quantity, lines: Sequence[PairedDifference]) -> SeriesPanel:
    factor = quantity.picture_factor
    levels: dict[ReferenceLevel, Places] = {}
    for each in lines:
        for level, value in each.levels.items():
            levels.setdefault(level, {})[each.point] = factor * value
    points = {each.point: each.estimate.scaled(factor) for each in lines}
    unit = "difference (percentage points)" if quantity.is_share else f"difference in {quantity.unit}"
    return SeriesPanel(table.title(quantity), unit, False, [StudySeries("", dict(points), levels)])


def _caption(
    table: StudyTable, found: Mapping[Quantity, Sequence[PairedDifference]], drawn: Sequence[Point]
) -> str:
    """Return the caption: the compared combinations, and the meaning of bars and levels."""
    against, what = _in_words(table, table.baseline), _in_words(table, _common(table, drawn))
    lines = [difference for each in found.values() for difference in each]
    counts = [difference.estimate.n for difference in lines]
    bars = (
        f"Bars are 95 % t-intervals ({describe_seeds(counts)}); an orange one excludes 0."
        if max(counts) > 1
        else "There is one seed, so there are no intervals."
    )
    caption = f"{what or 'Each point'} is compared with {against}, at the same seed and other values. {bars}"
    levels = list(dict.fromkeys(level.short for each in lines for level in each.levels))
    if levels:
        caption += f" Levels ({', '.join(levels)}) are differences from the baseline, too."
    return caption[0].upper() + caption[1:]


def _in_words(table: StudyTable, values: Mapping[str, Label]) -> str:
    return ", ".join(f"{table.axis_label(name)} = {format_label(value)}" for name, value in values.items())


def _common(table: StudyTable, points: Sequence[Point]) -> dict[str, Label]:
    """Return the axes of the baseline on which all lines share a value, which their names need not repeat."""
    found = {
        name: list(dict.fromkeys(point[table.axis_index(name)] for point in points))
        for name in table.baseline
    }
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _tint(found: MeanEstimate) -> tuple[str, bool]:
    """Return the colour of a difference and whether it is filled; it is marked if its interval excludes zero."""
    apart = found.n > 1 and (found.low > 0 or found.high < 0)
    return style.line_style(1 if apart else 0).color, apart
