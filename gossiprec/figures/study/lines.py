"""A measure over one axis of a study: a line for each value of a second axis, with its band over seeds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.study.numbers import Estimate, intervals_in_words
from gossiprec.figures.study.panels import (
    Choice,
    Drawing,
    Panel,
    asked,
    drawn_axes,
    estimate_rows,
    limits,
    panels_of,
    places,
    scale_x,
)
from gossiprec.figures.study.table import StudyTable, shown


def lines(table: StudyTable, choice: Choice) -> Drawing:
    """Return the table of the figure, and what draws it."""
    x, *others = drawn_axes(table, choice, needs=1)
    panels = panels_of(table, asked(table, choice), [x, *others])
    return *estimate_rows(table, panels), lambda: _figure(table, panels, x, others[0] if others else None)


def _figure(table: StudyTable, panels: Sequence[Panel], x: str, by: str | None) -> Figure:
    names = [f"{by} {shown(label)}" for label in table.labels(by)] if by else [""]
    margins = style.Margins(top=0.4, right=0.3 + max(map(style.text_width_in, names)), between_rows=0.85)
    longest_title = max(style.text_width_in(panel.quantity.words()) for panel in panels)
    wide = margins.right > 1.2 or len(panels) > 1 or longest_title > style.COLUMN_IN - 1.0
    width = style.PAGE_IN if wide else style.COLUMN_IN
    figure, grid = style.panels(len(panels), 1, width=width, panel_height=1.7, margins=margins)
    for panel, (axes,) in zip(panels, grid, strict=True):
        _panel(figure, axes, table, panel, x, by)
    return figure


def _panel(figure: Figure, axes: Axes, table: StudyTable, panel: Panel, x: str, by: str | None) -> None:
    labels, estimates = table.labels(x), panel.drawn()
    at, place = places(labels), table.axis(x)
    scale_x(axes, labels, x)
    ends = []
    for number, label in enumerate(table.labels(by) if by else [None]):
        own = ((p, e) for p, e in estimates.items() if by is None or p[table.axis(by)] == label)
        points = sorted((at[point[place]], estimate) for point, estimate in own)
        if points:
            look = style.line_style(number)
            _line(axes, points, look)
            ends.append(style.LineEnd(points[-1][0], points[-1][1].mean, f"{by} {shown(label)}", look))
    axes.set_ylim(*limits(estimates.values()))
    axes.set_ylabel(panel.quantity.unit)
    axes.set_title(f"{panel.title()}\n{intervals_in_words((e.n for e in estimates.values()), 'mean and')}")
    if by:
        style.label_ends(figure, axes, ends)


def _line(axes: Axes, points: Sequence[tuple[float, Estimate]], look: style.LineStyle) -> None:
    xs, estimates = [at for at, _ in points], [e for _, e in points]
    band = [e.low for e in estimates], [e.high for e in estimates]
    axes.fill_between(xs, *band, color=look.color, alpha=0.18, lw=0)
    axes.plot(xs, [e.mean for e in estimates], **look.kwargs())
