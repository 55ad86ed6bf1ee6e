"""Panels in a row over rows of words: points with their intervals, and reference levels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.study.estimates import MeanEstimate
from gossiprec.figures.study.series_panels import (
    LevelCurve,
    SeriesPanel,
    describe_off_scale,
    legend_handles,
    level_curves,
    level_handle,
    series_styles,
)

MOST_COLUMNS = 3
LEAST_IN = 1.45
"""Least width of a panel in inches."""
WIDE_IN = 3.2
ROW_IN, LINE_IN = 0.19, 0.11
"""Height of a row, and the additional height per further series, in inches."""
ASIDE = 0.62
"""Fraction of a row's height over which its series are spread."""

Tint = Callable[[MeanEstimate], tuple[str, bool]]
"""The colour of a point, and whether it is filled."""


@dataclass(frozen=True)
class RowLabels:
    """The rows: their labels, and the axes that the labels are values of."""

    names: Mapping[Hashable, str]
    axis: str


def draw_rows(
    parts: Sequence[SeriesPanel],
    rows: RowLabels,
    scales: Mapping[str, tuple[float, float]],
    said: str,
    *,
    tint: Tint | None = None,
) -> Figure:
    """Return the figure: rows are named at the left, and a line holds as many panels as fit.

    Parameters
    ----------
    parts : sequence of SeriesPanel
        Panels with points at rows.
    rows : RowLabels
    scales : mapping
        The ends of the scale of each unit.
    said : str
        Caption below all panels.
    tint : callable, optional
        Chooses the look of each point; a line at zero is then drawn. Without it, series have colours.
    """
    names = [style.short_name(name) for name in rows.names.values()]
    left = (0.45 if rows.axis else 0.2) + max(map(style.text_width_in, names))
    base = style.Margins(left=left, right=0.2, between_columns=0.3)
    n_columns = _columns(base, len(parts))
    width = style.PAGE_IN if n_columns > 1 else min(style.PAGE_IN, left + WIDE_IN + base.right)
    inches = base.panel_width(width, n_columns)
    titles = ["\n".join(style.wrap_title(_titled(part, scales), inches)) for part in parts]
    units = [style.wrap_axis_label(part.unit, inches + 0.2) for part in parts]
    extra, below = (style.TITLE_LINE_IN * max(t.count("\n") for t in texts) for texts in (titles, units))
    looks = series_styles(parts)
    legend = style.Legend(legend_handles(parts, looks, in_rows=True), width - 0.2)
    margins = style.Margins(
        left=left,
        right=base.right,
        top=(0.24 if any(titles) else 0.1) + extra + legend.height_in,
        bottom=0.45 + below + style.caption_height(said, width),
        between_columns=base.between_columns,
        between_rows=0.78 + extra + below,
    )
    n_series = max(len(part.series) for part in parts)
    height = max(0.6, (ROW_IN + LINE_IN * (n_series - 1)) * (len(names) + 0.4))
    n_lines = -(-len(parts) // n_columns)
    figure, grid = style.panel_grid(n_lines, n_columns, width=width, panel_height=height, margins=margins)
    cells = [axes for row in grid for axes in row]
    for axes in cells[len(parts) :]:
        axes.remove()
    places = {row: float(place) for place, row in enumerate(rows.names)}
    for number, (axes, part) in enumerate(zip(cells, parts, strict=False)):
        _panel(axes, part, places, looks, tint)
        axes.set_xlim(*scales[part.unit])
        axes.set_ylim(len(names) - 0.4, -0.6)
        is_first = number % n_columns == 0  # row names appear once per line of panels
        axes.set_yticks(range(len(names)), names if is_first else [""] * len(names))
        axes.set_ylabel(rows.axis if is_first else "")
        axes.set_xlabel(units[number])
        axes.set_title(titles[number], pad=5)
    legend.put(figure, left=0.1 / width)
    style.add_caption(figure, said)
    return figure


def _columns(margins: style.Margins, n_panels: int) -> int:
    """Return the number of panels per line."""
    fitting = [
        n for n in range(1, MOST_COLUMNS + 1) if margins.panel_width(style.PAGE_IN, n) >= LEAST_IN
    ] or [1]
    n_lines = -(-n_panels // fitting[-1])
    return -(-n_panels // n_lines)


def _titled(part: SeriesPanel, scales: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(text for text in (part.title, describe_off_scale(part, scales[part.unit])) if text)


def _panel(
    axes: Axes,
    part: SeriesPanel,
    places: Mapping[Hashable, float],
    looks: Mapping[str, style.LineStyle],
    tint: Tint | None,
) -> None:
    aside = {
        series.name: ASIDE * ((number + 0.5) / len(part.series) - 0.5)
        for number, series in enumerate(part.series)
    }
    for series in part.series:
        look = looks[series.name]
        for row, found in series.points.items():
            color, is_filled = tint(found) if tint else (look.color, True)
            at = places[row] + aside[series.name]
            axes.plot([found.low, found.high], [at, at], color=color, linewidth=1.3)
            face = color if is_filled else "white"
            axes.plot(found.mean, at, look.marker, color=color, markerfacecolor=face, markersize=4.5)
    for curve in level_curves(part):
        is_own = len(part.series) > 1 and curve.series is not None
        color = looks[curve.series or ""].color if is_own else style.GREY
        _level(axes, curve, places, aside.get(curve.series or "", 0.0), color)
    if tint:
        axes.axvline(0, color=style.GREY, linewidth=0.8, zorder=0)


def _level(axes: Axes, curve: LevelCurve, places: Mapping[Hashable, float], aside: float, color: str) -> None:
    """Draw a level: one vertical line if it is the same in all rows, otherwise a mark in each row."""
    is_line = curve.is_flat and curve.series is None
    look: dict[str, Any] = level_handle(curve.level, is_line=is_line)
    if is_line:
        axes.axvline(next(iter(curve.places.values())), color=color, zorder=0.5, **(look | {"marker": ""}))
        return
    rows = [places[row] + aside for row in curve.places]
    axes.plot([*curve.places.values()], rows, color=color, zorder=3, **look)
