"""Panels of named lines with one legend above them, used by several figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gossiprec.figures import style

MAX_COLUMNS = 3
MARKED_SHARES = (10, 30, 50, 70, 90)


@dataclass(frozen=True)
class Series:
    """A line of a panel: its name and its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """A panel: its title, its lines and the accuracies of guessing, in percent."""

    title: str
    series: Sequence[Series]
    random: Sequence[float] = ()

    def heading(self, width_in: float) -> str:
        """Return the title and an explanation of the dots, wrapped to this width; the dots' lines are level."""
        guess = ", ".join(f"{percent:.1f}" for percent in self.random)
        dots = style.wrap_title(f"dots: random, {guess} %" if guess else "", width_in)
        return "\n".join([*style.wrap_title(self.title, width_in), *(dots or [""])])


@dataclass(frozen=True)
class Axis:
    """An axis: its label and limits.

    Without limits, the points of each panel set them, upwards from zero. Without an upper limit, the points of all
    panels set it.
    """

    label: str
    limits: tuple[float, float | None] | None = None


def plot_line(axes: Axes, series: Series, look: style.LineStyle) -> None:
    """Draw a line with a few markers."""
    axes.plot(series.x, series.y, markevery=max(1, len(series.x) // 6), **look.kwargs())


def plot_steps(axes: Axes, series: Series, look: style.LineStyle) -> None:
    """Draw a cumulative distribution (percent) as steps."""
    marked = np.unique(np.searchsorted(series.y, MARKED_SHARES)).tolist()
    axes.plot(series.x, series.y, drawstyle="steps-post", markevery=marked, **look.kwargs())


def plot_dots(axes: Axes, series: Series, look: style.LineStyle) -> None:
    """Draw points that are not joined."""
    axes.plot(series.x, series.y, **{**look.kwargs(), "linestyle": "none", "markersize": 6})


@dataclass(frozen=True)
class PanelLook:
    """How panels are drawn.

    Attributes
    ----------
    line : callable
        Draws one series.
    order : sequence of str
        Lines in the order of the legend; the order of the panels if empty.
    n_columns : int
        Limit on the number of columns.
    is_random_upright : bool
        Whether the accuracy of guessing is on the x axis.
    is_joined : bool
        Whether the points of a series are joined; the legend follows it.
    dress : callable
        Called last on each panel.
    """

    line: Callable[[Axes, Series, style.LineStyle], None] = plot_line
    order: Sequence[str] = ()
    n_columns: int = MAX_COLUMNS
    is_random_upright: bool = False
    is_joined: bool = True
    dress: Callable[[Axes], None] = lambda axes: None


def draw_panels(panels: Sequence[Panel], *, x: Axis, y: Axis, look: PanelLook | None = None) -> Figure:
    """Return the panels as a figure with one legend."""
    look = look or PanelLook()
    found = dict.fromkeys(series.name for panel in panels for series in panel.series)
    names = [name for name in look.order or found if name in found]
    looks = {name: style.line_style(place) for place, name in enumerate(names)}
    n_columns = min(look.n_columns, MAX_COLUMNS, len(panels))
    n_rows = -(-len(panels) // n_columns)
    width = style.COLUMN_IN if n_columns == 1 else style.PAGE_IN
    per_row = max(1, int((width - style.Margins.left) / (0.55 + max(map(style.text_width_in, names)))))
    top = 0.5 + 0.17 * -(-len(names) // per_row)
    margins = style.Margins(between_columns=0.35)
    headings = [panel.heading(margins.panel_width(width, n_columns)) for panel in panels]
    more = style.TITLE_LINE_IN * (max(heading.count("\n") for heading in headings) - 1)
    margins = replace(margins, top=top + more, between_rows=0.95 + more)
    figure, grid = style.panel_grid(n_rows, n_columns, width=width, panel_height=1.9, margins=margins)
    places = [axes for row in grid for axes in row]
    for axes in places[len(panels) :]:
        axes.remove()
    for place, (axes, panel, heading) in enumerate(zip(places, panels, headings, strict=False)):
        for percent in panel.random:
            mark = axes.axvline if look.is_random_upright else axes.axhline
            mark(percent, color=style.GREY, linewidth=0.9, linestyle=":")
        for series in panel.series:
            look.line(axes, series, looks[series.name])
        axes.set_title(heading, pad=4)
        axes.margins(0.08)  # keeps markers off the frame
        _dress(axes, panels, x, y, is_first=place % n_columns == 0)
        look.dress(axes)
    _explain(
        figure, looks, ncols=min(per_row, len(looks)), left=margins.left / width, is_joined=look.is_joined
    )
    return figure


def _dress(axes: Axes, panels: Sequence[Panel], x: Axis, y: Axis, *, is_first: bool) -> None:
    """Set the labels and limits of a panel."""
    axes.set_xlabel(x.label)
    if is_first:
        axes.set_ylabel(y.label)
    if x.limits:
        low, high = x.limits
        points = (at for panel in panels for series in panel.series for at in series.x)
        axes.set_xlim(low, max(1.0, 1.03 * max(points)) if high is None else high)
    axes.set_ylim(*(y.limits or (0, axes.get_ylim()[1])))


def _explain(
    figure: Figure, looks: dict[str, style.LineStyle], *, ncols: int, left: float, is_joined: bool
) -> None:
    dots = {} if is_joined else {"linestyle": "none", "markersize": 6}
    handles = [Line2D([], [], label=name, **{**look.kwargs(), **dots}) for name, look in looks.items()]
    style.add_legend(figure, handles, left=left, ncols=ncols)
