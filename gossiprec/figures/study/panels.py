"""What the figures of a study share: which panels there are, and their axes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gossiprec.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.output import Cell
from gossiprec.figures.study.numbers import Estimate, estimate
from gossiprec.figures.study.table import (
    Label,
    PerSeed,
    Point,
    Quantity,
    StudyTable,
    is_numeric,
    label_cells,
    shown,
)
from gossiprec.measures.names import FILTERS

MOST_PANELS = 12
LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which an axis of numbers is drawn on a log scale."""


@dataclass(frozen=True)
class Choice:
    """What a figure of a study shows.

    Attributes
    ----------
    x, by : str, optional
        Axes: across, and told apart by lines or rows.
    y : str, optional
        A measure such as ``max_aac[single]``.
    against : str, optional
        A second measure: the utility of a front.
    """

    x: str | None = None
    by: str | None = None
    y: str | None = None
    against: str | None = None


@dataclass(frozen=True)
class Panel:
    """A part of the table that has axes of its own.

    Attributes
    ----------
    quantity : Quantity
    fixed : dict of str to Label
        The axes beyond those drawn, at one value each.
    points : dict of Point to PerSeed
    """

    quantity: Quantity
    fixed: dict[str, Label]
    points: dict[Point, PerSeed]

    def title(self) -> str:
        """Return the quantity, and the value of each axis that is fixed."""
        return ", ".join(
            [self.quantity.words(), *(f"{name} {shown(value)}" for name, value in self.fixed.items())]
        )

    def estimates(self) -> dict[Point, Estimate]:
        """Return the means over seeds."""
        return {point: estimate(seeds.values()) for point, seeds in self.points.items()}

    def drawn(self) -> dict[Point, Estimate]:
        """Return the means over seeds in the unit of pictures."""
        return {point: found.scaled(self.quantity.factor) for point, found in self.estimates().items()}


def estimate_rows(table: StudyTable, panels: Sequence[Panel]) -> tuple[list[str], list[list[Cell]]]:
    """Return the header and rows of a table of means."""
    header = ["measure", *FILTERS, *table.axes, "n", "mean", "low", "high"]
    rows: list[list[Cell]] = [
        [*panel.quantity.cells(), *label_cells(point), found.n, found.mean, found.low, found.high]
        for panel in panels
        for point, found in panel.estimates().items()
    ]
    return header, rows


def drawn_axes(table: StudyTable, choice: Choice, *, needs: int) -> list[str]:
    """Return the axes that a figure draws: those asked for, then those of the study in order.

    Raises
    ------
    LogError
        If the study has fewer than the figure needs.
    """
    asked = [name for name in (choice.x, choice.by) if name is not None]
    for name in asked:
        table.axis(name)
    if len(set(asked)) < len(asked):
        raise LogError(f"--x and --by are both {asked[0]}; give two axes, of {', '.join(table.axes)}")
    varying = [name for name in table.axes if len(table.labels(name)) > 1 and name not in asked]
    if choice.x is None and choice.by is not None:
        asked = [*varying[:1], choice.by]
        varying = varying[1:]
    chosen = [*asked, *varying][: max(needs, len(asked))]
    if len(chosen) < needs:
        raise LogError(
            f"the figure needs {needs} axes that vary; {table.path} has {len(chosen)}: {', '.join(chosen) or 'none'}"
        )
    return chosen


def panels_of(table: StudyTable, quantities: Sequence[Quantity], drawn: Sequence[str]) -> list[Panel]:
    """Return one panel for each quantity and combination of the axes that are not drawn.

    Raises
    ------
    LogError
        If they are too many for a page.
    """
    others = [name for name in table.axes if name not in drawn]
    vary = [name for name in others if len(table.labels(name)) > 1]
    panels = []
    for quantity, values in itertools.product(
        quantities, itertools.product(*(table.labels(n) for n in others))
    ):
        fixed = dict(zip(others, values, strict=True))
        points = {
            point: seeds
            for point, seeds in table.values[quantity].items()
            if all(point[table.axis(name)] == value for name, value in fixed.items())
        }
        if points:
            panels.append(Panel(quantity, {name: fixed[name] for name in vary}, points))
    if len(panels) > MOST_PANELS:
        raise LogError(
            f"that makes {len(panels)} panels, at most {MOST_PANELS} fit; choose an attack with --y, such as --y "
            f"'{_narrow(quantities[0])}', or one value of an axis with --where AXIS=VALUE"
        )
    return panels


def _narrow(quantity: Quantity) -> str:
    told = [shown(quantity.labels.get(name, "*")) for name in FILTERS]
    while told and told[-1] == "*":
        told.pop()
    inside = ",".join([*told, *(f"{name}={shown(value)}" for name, value in quantity.others)])
    return f"{quantity.measure}[{inside}]" if inside else quantity.measure


def default_measure(table: StudyTable) -> str:
    """Return the measure drawn where none is asked for: attack accuracy if there is any."""
    names = [quantity.measure for quantity in table.values]
    return "max_aac" if "max_aac" in names else names[0]


def places(labels: Sequence[Label]) -> dict[Label, float]:
    """Return where each label stands on a horizontal axis: numbers at their value, others one after the other."""
    if is_numeric(labels):
        return {label: float(label) for label in labels}
    return {label: float(place) for place, label in enumerate(labels)}


def scale_x(axes: Axes, labels: Sequence[Label], name: str) -> None:
    """Give an axes its horizontal scale: linear or log for numbers, words below for labels."""
    at = places(labels)
    low, high = min(at.values()), max(at.values())
    axes.set_xlabel(name)
    if is_numeric(labels) and low > 0 and high / low >= LOG_FROM:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.15, high * 1.15)
        return
    margin = 0.06 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    if not is_numeric(labels):
        axes.set_xticks(list(at.values()), [style.short_name(shown(label)) for label in labels])
    elif len(labels) <= 8:
        axes.set_xticks(list(at.values()), [shown(label) for label in labels])


def unit(quantity: Quantity) -> str:
    """Return the label of a quantity's own axis."""
    return f"{quantity.measure} (%)" if quantity.is_share else quantity.measure


def by_label(points: Mapping[Point, Any], place: int) -> dict[Label, dict[Point, Any]]:
    """Return points grouped by their label on one axis."""
    groups: dict[Label, dict[Point, Any]] = {}
    for point, value in points.items():
        groups.setdefault(point[place], {})[point] = value
    return groups


def finite_ends(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return the lowest and highest value that is drawn of these estimates and their intervals."""
    ends = np.array([value for e in estimates for value in (e.low, e.mean, e.high)])
    return float(np.nanmin(ends)), float(np.nanmax(ends))
