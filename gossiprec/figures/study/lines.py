"""A measure over one axis of a study: a line for each value of a second axis, with its band over seeds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
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
from gossiprec.figures.study.table import Point, StudyTable, is_numeric, shown
from gossiprec.measures.names import OF_ATTACKS

WHOLE = 102.0
"""Top of a scale that shows all of 100 %."""
ASIDE = 0.09
"""Between points of one category."""
BOUNDS: dict[str, dict[str, Any]] = {
    "random_bound": {"linestyle": ":", "linewidth": 1.1},
    "upper_bound": {"linestyle": style.THIN_DOTS, "linewidth": 0.9, "marker": "_"},
}
"""How far an attack could have come by guessing, and at most, where the study has collected it."""


def lines(table: StudyTable, choice: Choice) -> Drawing:
    """Return the table of the figure, and what draws it."""
    x, *others = drawn_axes(table, choice, needs=1)
    panels = panels_of(table, asked(table, choice), [x, *others])
    return *estimate_rows(table, panels), lambda: _figure(table, panels, x, others[0] if others else None)


def _figure(table: StudyTable, panels: Sequence[Panel], x: str, by: str | None) -> Figure:
    extra = 2 * style.TITLE_LINE_IN  # a wrapped title, and what dots are
    names = [f"{by} {shown(label)}" for label in table.labels(by)] if by else [""]
    margins = style.Margins(
        top=0.4 + extra, right=0.3 + max(map(style.text_width_in, names)), between_rows=0.85 + extra
    )
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
    bounds = bounds_of(table, panel)
    ends, is_joined = list[style.LineEnd](), is_numeric(labels)
    rows = table.labels(by) if by else [None]
    for number, label in enumerate(rows):
        mine = ((p, e) for p, e in estimates.items() if by is None or p[table.axis(by)] == label)
        aside = 0.0 if is_joined else ASIDE * (number - (len(rows) - 1) / 2)
        own = {at[point[place]] + aside: (point, estimate) for point, estimate in mine}
        points = [(x, own[x][1]) for x in sorted(own)]
        if points:
            look = style.line_style(number)
            _line(axes, points, look, is_joined=is_joined)
            for name, bound in bounds.items():
                levels = [bound[own[x][0]] for x in sorted(own)]
                dots = BOUNDS[name] if is_joined else BOUNDS[name] | {"linestyle": "none", "marker": "_"}
                axes.plot(sorted(own), levels, color=look.color, **dots)
            ends.append(style.LineEnd(points[-1][0], points[-1][1].mean, f"{by} {shown(label)}", look))
    if not is_joined:
        axes.set_xlim(-0.5, len(labels) - 0.5)
    low, high = _limits(axes, estimates.values())
    axes.set_ylim(low, min(high, WHOLE) if panel.quantity.is_share else high)
    axes.set_ylabel(panel.quantity.unit)
    inches = axes.get_position().width * figure.get_size_inches()[0]
    about = intervals_in_words((e.n for e in estimates.values()), "mean and")
    legend = f"{'dots' if is_joined else 'dashes'}: {' and '.join(name.replace('_', ' ') for name in bounds)}"
    axes.set_title("\n".join([*style.wrapped(panel.title(), inches), about, *([legend] if bounds else [])]))
    if by:
        style.label_ends(figure, axes, ends, is_led=is_joined)


def bounds_of(table: StudyTable, panel: Panel) -> dict[str, dict[Point, float]]:
    """Return the mean bounds of an attack at each point, in the unit of pictures, one value a place along the axis."""
    quantity = panel.quantity
    if quantity.name not in OF_ATTACKS or not quantity.is_share:
        return {}
    known = {name: table.values.get(replace(quantity, name=name), {}) for name in BOUNDS}
    return {
        name: {point: quantity.factor * float(np.mean([*values[point].values()])) for point in panel.points}
        for name, values in known.items()
        if values and all(point in values for point in panel.points)
    }


def _limits(axes: Axes, estimates: Collection[Estimate]) -> tuple[float, float]:
    """Return limits that hold what was found, from zero, and the bounds where they are near."""
    low, high = limits(estimates)
    levels = [y for line in axes.lines for y in np.asarray(line.get_ydata(), float) if y <= 3 * high]
    negative = (
        min(e.mean for e in estimates) < 0
    )  # an interval alone that reaches below zero says nothing of it
    return min([low, *levels]) if negative else 0.0, max([high, *(1.06 * y for y in levels)])


def _line(
    axes: Axes, points: Sequence[tuple[float, Estimate]], look: style.LineStyle, *, is_joined: bool
) -> None:
    """Draw a line in its band; between categories there is nothing: their points stand alone with their intervals."""
    xs, estimates = [at for at, _ in points], [e for _, e in points]
    means, low, high = ([getattr(e, name) for e in estimates] for name in ("mean", "low", "high"))
    if is_joined:
        axes.fill_between(xs, low, high, color=look.color, alpha=0.18, lw=0)
        axes.plot(xs, means, **look.kwargs())
    else:
        axes.vlines(xs, low, high, color=look.color, linewidth=1.3)
        axes.plot(xs, means, **{**look.kwargs(), "linestyle": "none", "markersize": 5})
