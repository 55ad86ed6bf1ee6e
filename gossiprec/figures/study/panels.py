"""Panels, axes and options that the figures of a study share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures.figure_files import Cell
from gossiprec.figures.study.estimates import LOG_FROM, MeanEstimate, mean_with_interval
from gossiprec.figures.study.labels import measure_label
from gossiprec.figures.study.quantity import Label, Quantity, format_label
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
    """

    x: str | None = None
    by: str | None = None
    y: str | Sequence[str] = ()
    against: str | None = None
    to: Mapping[str, str] = field(default_factory=dict)

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

    def drawn(self) -> dict[Point, MeanEstimate]:
        """Return the means over seeds in the units of pictures."""
        return {point: found.scaled(self.quantity.factor) for point, found in self.estimates().items()}


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
        table.axis(name)
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
    shown_points = [point for quantity in quantities for point in table.values[quantity]]
    telling = [name for name in others if len({point[table.axis(name)] for point in shown_points}) > 1]
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
            told = [table.about(quantity), *(f"{name} {format_label(fixed[name])}" for name in telling)]
            panels.append(StudyPanel(quantity, fixed, points, ", ".join(text for text in told if text)))
    if len(panels) > MOST_PANELS:
        raise LogError(
            f"the figure would have {len(panels)} panels, but at most {MOST_PANELS} fit; choose an attack "
            f"with --y, such as --y '{quantities[0].text()}', or one value of an axis with --where AXIS=VALUE"
        )
    return panels


def requested_quantities(table: StudyTable, choice: StudyFigureOptions) -> list[Quantity]:
    """Return the quantities to draw; the default is attack accuracy if there is any."""
    names = [quantity.name for quantity in table.values]
    texts = choice.measures or ["max_aac" if "max_aac" in names else names[0]]
    return list(dict.fromkeys(quantity for text in texts for quantity in table.quantities(text)))


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
        axes.set_xticks(list(at.values()), [format_label(label) for label in labels])
        axes.minorticks_off()


def axis_limits(estimates: Iterable[MeanEstimate], *, with_zero: bool = False) -> tuple[float, float]:
    """Return the ends of an axis that holds these estimates and their intervals with a margin, optionally with zero."""
    ends = [value for e in estimates for value in (e.low, e.mean, e.high)]
    low, high = np.nanmin(ends), np.nanmax(ends)
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low) or 0.5
    return float(max(low - margin, 0.0) if low >= 0 and not with_zero else low - margin), float(high + margin)
