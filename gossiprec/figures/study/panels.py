"""Panels, series, rows and axes that the figures of a study share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, StrMethodFormatter

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell
from gossiprec.figures.study.estimates import (
    GUESSING,
    LOG_FROM,
    MeanEstimate,
    ReferenceLevel,
    collect_levels,
    mean_with_interval,
)
from gossiprec.figures.study.quantity import Label, Quantity, format_label, measure_label
from gossiprec.figures.study.table_reader import PerSeed, Point, StudyTable, label_cells
from gossiprec.measures.selectors import FILTERS

MOST_PANELS = 12
MOST_TICKS = 8
MEASURE = "measure"
"""Value of `by` that distinguishes lines by their measure; no axis has this name."""

Drawing = tuple[list[str], list[list[Cell]], Callable[[], Figure]]
"""Header and rows of a figure's table, and the function that draws the figure."""


@dataclass(frozen=True)
class StudyFigureOptions:
    """The content of a figure of a study.

    Attributes
    ----------
    x, by : str, optional
        Axes: `x` runs across, `by` distinguishes lines or rows and may be ``measure``.
    y : str or sequence of str, optional
        Measures such as ``max_aac[single]``.
    against : str, optional
        The other measure of a front: its utility.
    to : dict of str to str
        Reference of differences, instead of the study's baseline; values of axes as text.
    scale : str
        Of lines: one of :data:`SCALES`.
    """

    x: str | None = None
    by: str | None = None
    y: str | Sequence[str] = ()
    against: str | None = None
    to: Mapping[str, str] = field(default_factory=dict)
    scale: str = "auto"

    @property
    def measures(self) -> list[str]:
        """The requested measures."""
        return [self.y] if isinstance(self.y, str) else list(self.y)


@dataclass(frozen=True)
class StudyPanel:
    """A part of the table that has its own panel.

    Attributes
    ----------
    quantity : Quantity
    fixed : dict of str to Label
        The axes that are not drawn, at one value each.
    points : dict of Point to PerSeed
    about : str
        The labels of the quantity, and the value of each axis that distinguishes panels.
    """

    quantity: Quantity
    fixed: dict[str, Label]
    points: dict[Point, PerSeed]
    about: str

    def title(self) -> str:
        """Return the title of the panel, used if its axes do not name the measure."""
        name = measure_label(self.quantity.name)
        return f"{name}, {self.about}" if self.about else name

    def estimates(self) -> dict[Point, MeanEstimate]:
        """Return the means over seeds."""
        return {point: mean_with_interval(seeds.values()) for point, seeds in self.points.items()}

    def picture_estimates(self) -> dict[Point, MeanEstimate]:
        """Return the means over seeds in the units of pictures."""
        return {point: picture_estimate(self.quantity, found) for point, found in self.estimates().items()}


def picture_estimate(quantity: Quantity, found: MeanEstimate) -> MeanEstimate:
    """Return a mean in the unit of pictures; the interval of a share ends at 0 and 100 %."""
    scaled = found.scaled(quantity.picture_factor)
    return scaled.within(0.0, 100.0) if quantity.is_share and found.n > 1 else scaled


def estimate_rows(table: StudyTable, panels: Sequence[StudyPanel]) -> tuple[list[str], list[list[Cell]]]:
    """Return the header and rows of a table of means."""
    header = ["measure", *FILTERS, *table.axes, "n", "mean", "low", "high"]
    rows: list[list[Cell]] = [
        [*panel.quantity.cells(), *label_cells(point), found.n, found.mean, found.low, found.high]
        for panel in panels
        for point, found in panel.estimates().items()
    ]
    return header, rows


def select_axes(
    table: StudyTable, choice: StudyFigureOptions, *, needs: int, by_measure: bool = False
) -> list[str]:
    """Return the one or two axes that a figure draws: the requested ones, then the study's in order.

    Parameters
    ----------
    table : StudyTable
    choice : StudyFigureOptions
    needs : int
        Number of axes that the figure requires.
    by_measure : bool
        Whether the figure can distinguish lines by their measure.

    Raises
    ------
    LogError
        If the study has fewer than the figure needs.
    """
    by = None if by_measure and choice.by == MEASURE else choice.by
    named = [name for name in (choice.x, by) if name is not None]
    for name in named:
        table.axis_index(name)
    if len(set(named)) < len(named):
        raise LogError(
            f"--x and --by are both {named[0]}; pass two different axes of {', '.join(table.axes)}"
        )
    chosen = [*named, *(name for name in table.varying if name not in named)][:2]
    if choice.x is None and by is not None:
        chosen.reverse()
    if len(chosen) < needs:
        raise LogError(
            f"the figure needs {needs} axes that vary, but {table.path} has {len(chosen)}: "
            f"{', '.join(chosen) or 'none'}"
        )
    return chosen


def make_panels(table: StudyTable, quantities: Sequence[Quantity], drawn: Sequence[str]) -> list[StudyPanel]:
    """Return one panel for each quantity and combination of the axes that are not drawn.

    Raises
    ------
    LogError
        If they are too many for a page.
    """
    others = [name for name in table.axes if name not in drawn]
    varying = table.varying_among(point for quantity in quantities for point in table.values[quantity])
    panels = []
    for quantity, values in itertools.product(
        quantities, itertools.product(*(table.axis_values(n) for n in others))
    ):
        fixed = dict(zip(others, values, strict=True))
        points = {
            point: seeds
            for point, seeds in table.values[quantity].items()
            if all(point[table.axis_index(name)] == value for name, value in fixed.items())
        }
        if points:
            parts = [
                table.label_text(quantity),
                *(f"{name} {format_label(fixed[name])}" for name in others if name in varying),
            ]
            panels.append(StudyPanel(quantity, fixed, points, ", ".join(text for text in parts if text)))
    hint = f", such as --y '{quantities[0].request_text()}', or one value of an axis with --where AXIS=VALUE"
    check_panel_count(len(panels), MOST_PANELS, hint)
    return panels


def check_panel_count(n_panels: int, most: int, hint: str = "") -> None:
    """Refuse a figure with too many panels; `hint` completes the advice.

    Raises
    ------
    LogError
    """
    if n_panels > most:
        raise LogError(
            f"the figure would have {n_panels} panels, but only {most} fit; choose an attack with --y{hint}"
        )


def requested_quantities(table: StudyTable, choice: StudyFigureOptions) -> list[Quantity]:
    """Return the quantities to draw; the default is attack accuracy if there is any."""
    names = [quantity.name for quantity in table.values]
    texts = choice.measures or ["max_aac" if "max_aac" in names else names[0]]
    return list(dict.fromkeys(quantity for text in texts for quantity in table.find_quantities(text)))


def label_positions(labels: Sequence[Label]) -> dict[Label, float]:
    """Return the positions of numeric labels on a horizontal axis."""
    return {label: float(label) for label in labels}


def scale_x(axes: Axes, labels: Sequence[Label], name: str) -> None:
    """Set the horizontal scale of numbers, linear or log, with a tick at each value if they are few."""
    at = label_positions(labels)
    low, high = min(at.values()), max(at.values())
    axes.set_xlabel(name)
    if low > 0 and high / low >= LOG_FROM:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.15, high * 1.15)
    else:
        margin = 0.06 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    if len(labels) <= MOST_TICKS:
        axes.set_xticks(list(at.values()), _labels_with_room(axes, list(at.values()), labels))
        axes.minorticks_off()


def _labels_with_room(axes: Axes, positions: Sequence[float], labels: Sequence[Label]) -> list[str]:
    """Return the labels of ticks, empty for a tick too near to the labelled one before it."""
    inches = axes.get_position().width * cast(Figure, axes.figure).get_size_inches()[0]
    end, texts = -np.inf, {}
    for position, label in sorted(zip(positions, map(format_label, labels), strict=True)):
        middle = inches * axes.transAxes.inverted().transform(axes.transData.transform((position, 0)))[0]
        half = (style.text_width_in(label) + 0.05) / 2
        texts[position] = label if middle - half >= end else ""
        end = middle + half if texts[position] else end
    return [texts[position] for position in positions]


def format_counts(axis: Axis, highest: float, unit: str) -> None:
    """Write large numbers such as bytes in full, or with k, M and G (of bytes: kB, MB, GB), and not as 1e6."""
    if highest >= 1e5:
        axis.set_major_formatter(EngFormatter("B" if unit.startswith("bytes") else ""))
    elif highest >= 1e4:
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


WHOLE = 102.0
"""Top of a scale that shows the full 100 %."""
FAR = 4.0
"""A level up to this multiple of the greatest mean or interval end is kept on the scale."""

Places = dict[Hashable, float]
Scales = Mapping[str, tuple[float, float]]
"""The ends of the scale of each unit."""


@dataclass(frozen=True)
class StudySeries:
    """A line of a panel.

    Attributes
    ----------
    name : str
        Empty if it is the only series.
    points : dict of Hashable to MeanEstimate
        Estimates by value along the axis, in the unit of pictures.
    levels : dict of ReferenceLevel to dict
        Value of each level at each value along the axis.
    """

    name: str
    points: dict[Hashable, MeanEstimate]
    levels: dict[ReferenceLevel, Places] = field(default_factory=dict)


@dataclass(frozen=True)
class SeriesPanel:
    """A panel.

    Attributes
    ----------
    title : str
    unit : str
        Label of its scale; panels with equal units share a scale.
    is_share : bool
    series : sequence of Series
    """

    title: str
    unit: str
    is_share: bool
    series: Sequence[StudySeries]

    @property
    def estimates(self) -> list[MeanEstimate]:
        """All estimates in the panel."""
        return [estimate for series in self.series for estimate in series.points.values()]


@dataclass(frozen=True)
class LevelCurve:
    """A drawn level: once in grey if all series share it, otherwise in the look of each series.

    Attributes
    ----------
    level : ReferenceLevel
    series : str, optional
    places : dict
    is_flat : bool
        Whether it has the same value everywhere.
    """

    level: ReferenceLevel
    series: str | None
    places: Places
    is_flat: bool


def make_series_panels(
    table: StudyTable, panels: Sequence[StudyPanel], x: str, by: str | None
) -> list[SeriesPanel]:
    """Return panels with a series for each value of an axis, or for each measure."""
    if by == MEASURE:
        return _by_measure(table, panels, x)
    place = table.axis_index(by) if by else None
    labels = table.axis_values(by) if by else [None]
    parts = []
    for panel in panels:
        series = [
            _series(table, panel, x, f"{by} {format_label(label)}" if by else "",
                    [point for point in panel.points if place is None or point[place] == label])
            for label in labels
        ]  # fmt: skip
        drawn = [one for one in series if one.points]
        parts.append(SeriesPanel(panel.about, panel.quantity.unit, panel.quantity.is_share, drawn))
    return parts


def _by_measure(table: StudyTable, panels: Sequence[StudyPanel], x: str) -> list[SeriesPanel]:
    """Return a panel for each attack and unit, in which the measures are the series."""
    groups: dict[Hashable, list[StudyPanel]] = {}
    for panel in panels:
        of = replace(panel.quantity, name="")
        unit = "" if panel.quantity.is_share else panel.quantity.unit  # other scales have nothing in common
        groups.setdefault((of, tuple(panel.fixed.items()), unit), []).append(panel)
    parts = []
    for group in groups.values():
        first = group[0]
        series = [
            _series(table, panel, x, measure_label(panel.quantity.name), list(panel.points))
            for panel in group
        ]
        is_share = first.quantity.is_share
        parts.append(
            SeriesPanel(first.about, "share (%)" if is_share else first.quantity.unit, is_share, series)
        )
    return parts


def _series(table: StudyTable, panel: StudyPanel, x: str, name: str, points: Sequence[Point]) -> StudySeries:
    place, drawn, factor = table.axis_index(x), panel.picture_estimates(), panel.quantity.picture_factor
    levels = {
        level: {
            point[place]: factor * float(np.mean([*values[point].values()]))
            for point in points
            if point in values
        }
        for level, values in collect_levels(table, panel.quantity).items()
    }
    return StudySeries(name, {point[place]: drawn[point] for point in points}, levels)


def level_curves(part: SeriesPanel) -> list[LevelCurve]:
    """Return the levels of a panel as they are drawn."""
    found: list[LevelCurve] = []
    for level in dict.fromkeys(level for series in part.series for level in series.levels):
        having: list[tuple[str | None, Places]] = [
            (series.name, series.levels[level]) for series in part.series if series.levels.get(level)
        ]
        merged = {at: value for _, places in having for at, value in places.items()}
        if all(merged[at] == value for _, places in having for at, value in places.items()):
            having = [(None, merged)] if len(part.series) > 1 or _is_flat(merged) else having
        found += [LevelCurve(level, name, places, _is_flat(places)) for name, places in having]
    return found


def _is_flat(places: Places) -> bool:
    return max(places.values(), default=0.0) - min(places.values(), default=0.0) < 1e-9


def shared_limits(parts: Sequence[SeriesPanel], *, with_zero: bool = False) -> dict[str, tuple[float, float]]:
    """Return the ends of the scale of each unit, which hold all its estimates and the levels near them.

    Shares, counts and other non-negative measures begin at zero, even if an interval extends below.
    """
    found = {}
    for unit in dict.fromkeys(part.unit for part in parts):
        mine = [part for part in parts if part.unit == unit]
        estimates = [e for part in mine for e in part.estimates]
        ends = [value for e in estimates for value in (e.low, e.mean, e.high)]
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
        if with_zero:
            low, high = min(low, 0.0), max(high, 0.0)
        margin = 0.06 * (high - low) or 0.5
        low, high = low - margin if low < 0 or with_zero else max(low - margin, 0.0), high + margin
        reach = (1.0 if with_zero else FAR) * max(abs(low), abs(high))  # a level must not squeeze differences
        levels = [
            value
            for part in mine
            for curve in level_curves(part)
            for value in curve.places.values()
            if abs(value) <= reach
        ]
        margin = 0.06 * (max([high, *levels]) - min([low, *levels]))
        high = max([high, *(value + margin for value in levels)])
        if with_zero or min(e.mean for e in estimates) < 0:
            low = min([low, *(value - margin for value in levels)])
        else:
            low = 0.0
            high = max(
                high, 1.04 * max(e.mean for e in estimates)
            )  # room for a mark, on a scale that begins at zero
            high = min(high, WHOLE) if mine[0].is_share else high
        found[unit] = low, high
    return found


def describe_off_scale(part: SeriesPanel, scale: tuple[float, float]) -> str:
    """Return the levels that are off the scale, with their values, as text; empty if there are none."""
    texts = []
    for level in dict.fromkeys(curve.level for curve in level_curves(part)):
        values = [v for curve in level_curves(part) if curve.level == level for v in curve.places.values()]
        outside = [value for value in values if not scale[0] <= value <= scale[1]]
        far = sorted({f"{value:.0f}" for value in outside}, key=float)
        partly = "partly " if len(outside) < len(values) else ""
        if far:
            ends = (far[0] if len(far) == 1 else f"{far[0]} to {far[-1]}").replace("-", "−")
            units = {"points": " points", "times": " times"}
            unit = " %" if part.is_share else next((u for word, u in units.items() if word in part.unit), "")
            texts.append(f"{level.short} {partly}off the axis, at {ends}{unit}")
    return "; ".join(texts)


def series_styles(parts: Iterable[SeriesPanel]) -> dict[str, style.LineStyle]:
    """Return the look of each series by its name, the same in all panels."""
    names = dict.fromkeys(series.name for part in parts for series in part.series)
    return {name: style.line_style(place) for place, name in enumerate(names)}


def legend_handles(
    parts: Sequence[SeriesPanel], looks: Mapping[str, style.LineStyle], *, in_rows: bool, scales: Scales
) -> list[Line2D]:
    """Return the entries of a legend: first the series by name, then the levels that are inside a scale."""
    dots = {"linestyle": "none", "markersize": 5} if in_rows else {}
    found = [Line2D([], [], label=name, **{**look.kwargs(), **dots}) for name, look in looks.items() if name]
    drawn = [
        curve
        for part in parts
        for curve in level_curves(part)
        if any(scales[part.unit][0] <= value <= scales[part.unit][1] for value in curve.places.values())
    ]
    for level in dict.fromkeys(curve.level for curve in drawn):
        flat = all(curve.is_flat and curve.series is None for curve in drawn if curve.level == level)
        owners = {curve.series for curve in drawn if curve.level == level}
        color = looks[str(*owners)].color if len(owners) == 1 and None not in owners else style.GREY
        handle = level_handle(level, is_line=flat or not in_rows)
        found.append(Line2D([], [], label=level.words, color=color, **handle))
    return found


def level_handle(level: ReferenceLevel, *, is_line: bool) -> dict[str, Any]:
    """Return the style of a level: a line, or its own mark in each row."""
    if is_line:
        return {"linestyle": level.dashes, "linewidth": 0.9, "marker": level.mark, "markersize": 6}
    size = 8 if level.tick == "|" else 4.5
    return {"linestyle": "none", "marker": level.tick, "markersize": size, "markeredgewidth": 1.3}


MOST_COLUMNS = 3
LEAST_IN = 1.45
"""Least width of a panel in inches."""
WIDE_IN = 3.2
ROW_IN, LINE_IN = 0.19, 0.11
"""Height of a row, and the additional height per further series, in inches."""
ASIDE = 0.62
"""Fraction of a row's height over which its series are spread."""

SCALES = ("auto", "percent", "guessing")
"""Scales of lines: in percent, in multiples of what guessing finds, or these if guessing varies along the axis."""
VARIES = 1.05
"""Ratio from which guessing counts as varying."""
TIMES = "(times guessing)"
LOG_TIMES = 3.0
"""Ratio of multiples of guessing from which their axis is logarithmic."""


def times_guessing(part: SeriesPanel, scale: str) -> SeriesPanel:
    """Return a panel with multiples of what guessing finds, if these are wanted and guessing is known everywhere."""
    known = [series.levels.get(GUESSING, {}) for series in part.series]
    values = [value for places in known for value in places.values()]
    whole = all(
        places.keys() >= series.points.keys() for places, series in zip(known, part.series, strict=True)
    )
    if scale == "percent" or not values or not whole or min(values) <= 0:
        return part
    if scale == "auto" and max(values) < VARIES * min(values):
        return part
    series = [
        replace(
            one,
            points={at: found.scaled(1 / guess[at]) for at, found in one.points.items()},
            levels={
                level: {at: value / guess[at] for at, value in places.items() if at in guess}
                for level, places in one.levels.items()
            },
        )
        for one, guess in zip(part.series, known, strict=True)
    ]
    return replace(part, unit=part.unit.replace("(%)", TIMES), is_share=False, series=series)


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
    caption: str,
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
    caption : str
        Caption below all panels.
    tint : callable, optional
        Chooses the look of each point; a line at zero is then drawn. Without it, series have colours.
    """
    names, looks = [style.short_name(name) for name in rows.names.values()], series_styles(parts)
    n_series = max(len(part.series) for part in parts)
    height = max(0.6, (ROW_IN + LINE_IN * (n_series - 1)) * (len(names) + 0.4))
    axis = style.wrap_axis_label(rows.axis, height)
    left = (0.45 if rows.axis else 0.2) + style.TITLE_LINE_IN * axis.count("\n")
    base = style.Margins(left + max(map(style.text_width_in, names)), right=0.2, between_columns=0.3)
    n_columns = _columns(base, len(parts))
    width = style.PAGE_IN if n_columns > 1 else min(style.PAGE_IN, base.left + WIDE_IN + base.right)
    inches = base.panel_width(width, n_columns)
    titles = [panel_title(part, scales[part.unit], inches) for part in parts]
    units = [style.wrap_axis_label(part.unit, inches + 0.2) for part in parts]
    legend = style.Legend(legend_handles(parts, looks, in_rows=True, scales=scales), width - 0.2)
    margins = fit_margins(base, titles, units, legend, style.caption_height(caption, width))
    figure, cells = style.panel_list(len(parts), n_columns, width=width, panel_height=height, margins=margins)
    positions = {row: float(position) for position, row in enumerate(rows.names)}
    for number, (axes, part) in enumerate(zip(cells, parts, strict=True)):
        _panel(axes, part, positions, looks, tint)
        axes.set_xlim(*scales[part.unit])
        axes.set_ylim(len(names) - 0.4, -0.6)
        is_first = number % n_columns == 0  # row names appear once per line of panels
        axes.set_yticks(range(len(names)), names if is_first else [""] * len(names))
        axes.set_ylabel(axis if is_first else "")
        axes.set_xlabel(units[number])
        format_counts(axes.xaxis, scales[part.unit][1], part.unit)
        axes.set_title(titles[number], pad=5)
    legend.draw(figure, left=0.1 / width)
    style.add_caption(figure, caption)
    return figure


def fit_margins(
    base: style.Margins, titles: Sequence[str], labels: Sequence[str], legend: style.Legend, caption_in: float
) -> style.Margins:
    """Return margins with room for the lines of titles and of labels below panels, the legend and the caption."""
    extra, below = (style.TITLE_LINE_IN * max(t.count("\n") for t in texts) for texts in (titles, labels))
    return replace(
        base,
        top=(0.24 if any(titles) else 0.1) + extra + legend.height_in,
        bottom=0.45 + below + caption_in,
        between_rows=0.78 + extra + below,
    )


def _columns(margins: style.Margins, n_panels: int) -> int:
    """Return the number of panels per line."""
    fitting = [
        n for n in range(1, MOST_COLUMNS + 1) if margins.panel_width(style.PAGE_IN, n) >= LEAST_IN
    ] or [1]
    n_lines = -(-n_panels // fitting[-1])
    return -(-n_panels // n_lines)


def panel_title(part: SeriesPanel, scale: tuple[float, float], width_in: float) -> str:
    """Return the title of a panel and, on lines of their own, the levels outside its scale, wrapped to a width."""
    texts = (part.title, describe_off_scale(part, scale))
    return "\n".join(line for text in texts for line in style.wrap_title(text, width_in))


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
