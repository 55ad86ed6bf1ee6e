"""What the figures of the study share: panels of named lines, one legend above, the plotted numbers as csv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gossiprec.figures import style
from gossiprec.figures.output import Cell, csv_bytes, save

MAX_COLUMNS = 3


@dataclass(frozen=True)
class Series:
    """A line of a panel: its name and its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """A panel: its title, its lines and the accuracy of guessing, in percent."""

    title: str
    series: Sequence[Series]
    random: float | None = None


@dataclass(frozen=True)
class Axis:
    """What stands along an axis: its label and its limits; None lets the points decide."""

    label: str
    limits: tuple[float, float] | None = None


def draw_panels(
    stem: Path,
    panels: Sequence[Panel],
    *,
    x: Axis,
    y: Axis,
    line: Callable[[Axes, Series, style.LineStyle], None],
    is_random_upright: bool = False,
    is_joined: bool = True,
    names: Sequence[str] = (),
    dress: Callable[[Axes], None] = lambda axes: None,
) -> list[Path]:
    """Draw the panels with one legend and write them.

    Parameters
    ----------
    stem : Path
        Files go to ``<stem>.csv``, ``.png`` and ``.svg``.
    panels : sequence of Panel
    x, y : Axis
    line : callable
        Draws one series.
    is_random_upright : bool
        Whether the accuracy of guessing is on the x axis.
    is_joined : bool
        Whether the points of a series are joined: the legend shows what is drawn.
    names : sequence of str
        Lines in the order of the legend; those of the panels if empty.
    dress : callable
        Has the last word on each panel.
    """
    found = [series.name for panel in panels for series in panel.series]
    order = [name for name in (names or dict.fromkeys(found)) if name in found]
    rows: list[list[Cell]] = [
        [panel.title, series.name, float(a), float(b)]
        for panel in panels
        for series in panel.series
        for a, b in zip(series.x, series.y, strict=True)
    ]
    n_columns = min(len(panels), MAX_COLUMNS)
    n_rows = -(-len(panels) // n_columns)
    width = style.COLUMN_IN if n_columns == 1 else style.PAGE_IN
    sample_in = 0.55 + max(map(style.text_width_in, order))
    per_row = max(1, int((width - style.Margins.left) / sample_in))
    legend_rows = -(-len(order) // per_row)
    margins = style.Margins(top=0.5 + 0.17 * legend_rows, between_columns=0.35, between_rows=0.95)
    with style.house_look():
        figure, grid = style.panels(n_rows, n_columns, width=width, panel_height=1.9, margins=margins)
        for place, axes in enumerate(axes for row in grid for axes in row):
            if place >= len(panels):
                axes.remove()
                continue
            _fill(axes, panels[place], order, line, is_random_upright=is_random_upright)
            axes.set_xlabel(x.label)
            if place % n_columns == 0:
                axes.set_ylabel(y.label)
            if x.limits:
                axes.set_xlim(*x.limits)
            axes.margins(0.08)  # no marker on the frame
            axes.set_ylim(*(y.limits or (0, axes.get_ylim()[1])))
            dress(axes)
        looks = [style.line_style(place).kwargs() for place in range(len(order))]
        if not is_joined:
            looks = [{**look, "linestyle": "none", "markersize": 6} for look in looks]
        samples = [Line2D([], [], label=name, **look) for name, look in zip(order, looks, strict=True)]
        figure.legend(
            handles=samples,
            loc="upper left",
            bbox_to_anchor=(margins.left / width, 1.0),
            ncols=min(per_row, len(order)),
            borderaxespad=0.2,
            borderpad=0.2,
            handlelength=2.6,
            columnspacing=1.4,
        )
        return save(figure, csv_bytes(("panel", "line", x.label, y.label), rows), stem)


def _fill(
    axes: Axes,
    panel: Panel,
    order: Sequence[str],
    line: Callable[[Axes, Series, style.LineStyle], None],
    *,
    is_random_upright: bool,
) -> None:
    if panel.random is not None:
        mark = axes.axvline if is_random_upright else axes.axhline
        mark(panel.random, color=style.GREY, linewidth=0.9, linestyle=":")
    for series in panel.series:
        line(axes, series, style.line_style(order.index(series.name)))
    guess = "" if panel.random is None else f"dots: random, {panel.random:.1f} %"
    axes.set_title(f"{panel.title}\n{guess}", pad=4)  # two lines in every panel: the names are level
