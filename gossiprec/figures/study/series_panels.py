"""Panels of series for lines and rows of a study, each with its reference levels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from gossiprec.figures import style
from gossiprec.figures.study.estimates import MeanEstimate
from gossiprec.figures.study.labels import measure_label
from gossiprec.figures.study.panels import MEASURE, StudyPanel, axis_limits
from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.reference_levels import ReferenceLevel, collect_levels
from gossiprec.figures.study.table_reader import Point, StudyTable

WHOLE = 102.0
"""Top of a scale that shows the full 100 %."""
FAR = 4.0
"""A level up to this multiple of the greatest mean or interval end is kept on the scale."""

Places = dict[Hashable, float]


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
    place = table.axis(by) if by else None
    labels = table.labels(by) if by else [None]
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
        groups.setdefault((of, tuple(panel.fixed.items()), panel.quantity.is_share), []).append(panel)
    parts = []
    for group in groups.values():
        first = group[0]
        series = [
            _series(table, panel, x, measure_label(panel.quantity.name), list(panel.points))
            for panel in group
        ]
        is_share = first.quantity.is_share
        parts.append(SeriesPanel(first.about, "share (%)" if is_share else "", is_share, series))
    return parts


def _series(table: StudyTable, panel: StudyPanel, x: str, name: str, points: Sequence[Point]) -> StudySeries:
    place, drawn, factor = table.axis(x), panel.drawn(), panel.quantity.factor
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
        low, high = axis_limits(estimates, with_zero=with_zero)
        reach = FAR * max(abs(low), abs(high))
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
    said = []
    for level in dict.fromkeys(curve.level for curve in level_curves(part)):
        values = [v for curve in level_curves(part) if curve.level == level for v in curve.places.values()]
        far = sorted({f"{value:.0f}" for value in values if not scale[0] <= value <= scale[1]}, key=float)
        if far:
            ends = far[0] if len(far) == 1 else f"{far[0]} to {far[-1]}"
            said.append(f"{level.short} outside the axis range, at {ends}{' %' if part.is_share else ''}")
    return "; ".join(said)


def series_styles(parts: Iterable[SeriesPanel]) -> dict[str, style.LineStyle]:
    """Return the look of each series by its name, the same in all panels."""
    names = dict.fromkeys(series.name for part in parts for series in part.series)
    return {name: style.line_style(place) for place, name in enumerate(names)}


def legend_handles(
    parts: Sequence[SeriesPanel], looks: Mapping[str, style.LineStyle], *, in_rows: bool
) -> list[Line2D]:
    """Return the entries of a legend: first the series by name, then the levels."""
    dots = {"linestyle": "none", "markersize": 5} if in_rows else {}
    found = [Line2D([], [], label=name, **{**look.kwargs(), **dots}) for name, look in looks.items() if name]
    drawn = [curve for part in parts for curve in level_curves(part)]
    for level in dict.fromkeys(curve.level for curve in drawn):
        flat = all(curve.is_flat and curve.series is None for curve in drawn if curve.level == level)
        found.append(
            Line2D(
                [],
                [],
                label=level.words,
                color=style.GREY,
                **level_handle(level, is_line=flat or not in_rows),
            )
        )
    return found


def level_handle(level: ReferenceLevel, *, is_line: bool) -> dict[str, Any]:
    """Return the style of a level: a line, or its own mark in each row."""
    if is_line:
        return {"linestyle": level.dashes, "linewidth": 1.0, "marker": level.mark, "markersize": 6}
    size = 8 if level.tick == "|" else 4.5
    return {"linestyle": "none", "marker": level.tick, "markersize": size, "markeredgewidth": 1.3}
