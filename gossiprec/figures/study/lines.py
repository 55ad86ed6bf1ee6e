"""A measure over one axis of a study: a line for each value of a second axis, with its band over seeds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.output import Cell
from gossiprec.figures.study.numbers import Estimate, seeds_in_words
from gossiprec.figures.study.panels import (
    Choice,
    Panel,
    by_label,
    default_measure,
    drawn_axes,
    estimate_rows,
    finite_ends,
    panels_of,
    places,
    scale_x,
    unit,
)  # fmt: skip
from gossiprec.figures.study.table import Label, Point, StudyTable, shown

Lines = dict[Label, dict[Point, Estimate]]


def lines(table: StudyTable, choice: Choice) -> tuple[Figure, list[str], list[list[Cell]]]:
    """Return the figure, and the header and rows of its table."""
    axes = drawn_axes(table, choice, needs=1)
    x, by = axes[0], axes[1] if len(axes) > 1 else _second(table, axes[0])
    panels = panels_of(
        table, table.quantities(choice.y or default_measure(table)), [x, *([by] if by else [])]
    )
    return _figure(table, panels, x, by), *estimate_rows(table, panels)


def _second(table: StudyTable, x: str) -> str | None:
    """Return the axis that lines are told apart by where none is asked for."""
    return next((name for name in table.axes if name != x and len(table.labels(name)) > 1), None)


def _figure(table: StudyTable, panels: Sequence[Panel], x: str, by: str | None) -> Figure:
    names = [f"{by} {shown(label)}" for label in table.labels(by)] if by else [""]
    margins = style.Margins(top=0.4, right=0.3 + max(map(style.text_width_in, names)), between_rows=0.85)
    longest_title = max(style.text_width_in(panel.quantity.words()) for panel in panels)
    wide = margins.right > 1.2 or len(panels) > 1 or longest_title > style.COLUMN_IN - 1.0
    figure, grid = style.panels(
        len(panels), 1, width=style.PAGE_IN if wide else style.COLUMN_IN, panel_height=1.7, margins=margins
    )
    for panel, (axes,) in zip(panels, grid, strict=True):
        _panel(figure, axes, table, panel, x, by)
    return figure


def _panel(figure: Figure, axes: Axes, table: StudyTable, panel: Panel, x: str, by: str | None) -> None:
    labels, estimates = table.labels(x), panel.drawn()
    at, place = places(labels), table.axis(x)
    scale_x(axes, labels, x)
    grouped: Lines = by_label(estimates, table.axis(by)) if by else {"": estimates}
    order = table.labels(by) if by else [""]
    ends = []
    for number, label in enumerate(order):
        points = sorted((at[point[place]], e) for point, e in grouped.get(label, {}).items())
        if points:
            look = style.line_style(number)
            _line(axes, points, look)
            name = f"{by} {shown(label)}" if by else ""
            ends.append(style.LineEnd(points[-1][0], points[-1][1].mean, name, look))
    low, high = finite_ends(list(estimates.values()))
    margin = 0.06 * (high - low) or 0.5
    axes.set_ylim(max(low - margin, 0.0) if low >= 0 else low - margin, high + margin)
    axes.set_ylabel(unit(panel.quantity))
    axes.set_title(f"{panel.title()}\n{_band_words(list(estimates.values()))}")
    if by:
        style.label_ends(figure, axes, ends)


def _line(axes: Axes, points: Sequence[tuple[float, Estimate]], look: style.LineStyle) -> None:
    xs = [at for at, _ in points]
    axes.fill_between(
        xs, [e.low for _, e in points], [e.high for _, e in points], color=look.color, alpha=0.18, lw=0
    )
    axes.plot(xs, [e.mean for _, e in points], **look.kwargs())


def _band_words(estimates: Sequence[Estimate]) -> str:
    counts = [e.n for e in estimates]
    if max(counts) < 2:
        return "one seed: no interval"
    return f"mean and 95 % t-interval over seeds, {seeds_in_words(counts)}"
