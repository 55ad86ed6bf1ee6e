"""Differences to the baseline of a study, seed by seed: what a change does once the luck of a seed is taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.output import Cell
from gossiprec.figures.study.numbers import Estimate, paired, seeds_in_words
from gossiprec.figures.study.panels import MOST_PANELS, Choice, Drawing, asked, limits
from gossiprec.figures.study.table import Point, Quantity, StudyTable, label_cells, shown
from gossiprec.measures.names import FILTERS

LINE_IN = 0.17


@dataclass(frozen=True)
class Difference:
    """What one combination differs by from the baseline that shares its other values."""

    point: Point
    estimate: Estimate


def differences(table: StudyTable, choice: Choice) -> Drawing:
    """Return the table of the figure, and what draws it."""
    if not table.baseline:
        raise LogError(
            f"the study in {table.path} names no baseline; write `baseline: {{AXIS: VALUE}}` into the study file and "
            "run the same command again: finished runs are kept"
        )
    found = {q: differences_to_baseline(table, q) for q in asked(table, choice)}
    found = {quantity: rows for quantity, rows in found.items() if rows}
    if not found:
        raise LogError(
            f"no finished run of {table.path} shares its seed and other values with one of the baseline"
        )
    if len(found) > MOST_PANELS:
        raise LogError(
            f"that makes {len(found)} panels, at most {MOST_PANELS} fit; choose an attack with --y"
        )
    header = ["measure", *FILTERS, *table.axes, "n", "difference", "low", "high"]
    rows: list[list[Cell]] = [
        [*quantity.cells(), *label_cells(d.point), d.estimate.n, d.estimate.mean, d.estimate.low, d.estimate.high]
        for quantity, lines in found.items()
        for d in lines
    ]  # fmt: skip
    return header, rows, lambda: _figure(table, found)


def differences_to_baseline(table: StudyTable, quantity: Quantity) -> list[Difference]:
    """Return what each combination differs by, of those that share seeds with the baseline."""
    points = table.values[quantity]
    lines = []
    for point, seeds in points.items():
        base = tuple(table.baseline.get(name, label) for name, label in zip(table.axes, point, strict=True))
        if base != point and base in points and set(seeds) & set(points[base]):
            lines.append(Difference(point, paired(seeds, points[base])))
    return lines


def _figure(table: StudyTable, found: dict[Quantity, list[Difference]]) -> Figure:
    names = {d.point: table.name_of(d.point) for lines in found.values() for d in lines}
    left = 0.15 + max(map(style.text_width_in, names.values()))
    margins = style.Margins(left=left, right=0.2, top=0.55, between_rows=0.85)
    width = left + max(3.4, *(style.text_width_in(quantity.words()) for quantity in found))
    height = max(0.5, LINE_IN * (1 + max(len(lines) for lines in found.values())))
    figure, grid = style.panels(len(found), 1, width=width, panel_height=height, margins=margins)
    against = ", ".join(f"{name} {shown(value)}" for name, value in table.baseline.items())
    for (quantity, lines), (axes,) in zip(found.items(), grid, strict=True):
        _panel(axes, [d.estimate.scaled(quantity.factor) for d in lines], [names[d.point] for d in lines])
        axes.set_xlabel("difference (percentage points)" if quantity.is_share else "difference")
        counts = seeds_in_words(d.estimate.n for d in lines)
        axes.set_title(f"{quantity.words()}\nminus {against}, same seed\n95 % t-interval, {counts}", x=0)
    return figure


def _panel(axes: Axes, lines: Sequence[Estimate], names: Sequence[str]) -> None:
    for place, e in enumerate(lines):
        apart = e.n > 1 and (e.low > 0 or e.high < 0)
        color = style.line_style(1 if apart else 0).color
        axes.plot([e.low, e.high], [place, place], color=color, linewidth=1.3)
        face = color if apart else "white"
        axes.plot(e.mean, place, "o", color=color, markerfacecolor=face, markersize=4.5)
    axes.axvline(0, color=style.GREY, linewidth=0.8, zorder=0)
    axes.set_xlim(*limits(lines, with_zero=True))
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_yticks(range(len(lines)), names)
