"""What a study has found, in cells: means over seeds with half of their intervals."""

from __future__ import annotations

import math
from typing import NamedTuple

from gossiprec.figures.study.numbers import Estimate, estimate
from gossiprec.figures.study.quantity import Quantity, shown
from gossiprec.figures.study.table import Point, StudyTable, by_importance

NOTE = "Means over seeds ± half-width of the 95 % confidence interval (if there are several seeds)."


class Means(NamedTuple):
    """A table of texts, and how much it leaves out.

    Attributes
    ----------
    axes, headings : list of str
        Of the columns; headings of measures in lines.
    rows : list of list of str
        A line for each combination of the axes that vary.
    more_rows, more_columns : int
    """

    axes: list[str]
    headings: list[str]
    rows: list[list[str]]
    more_rows: int
    more_columns: int


def means(table: StudyTable, *, most_rows: int, most_columns: int) -> Means:
    """Return a line for each combination of the axes that vary, a column for each of the first measures."""
    points, quantities = _points(table), by_importance(table)[:most_columns]
    rows = [
        [
            *(shown(point[table.axis(name)]) for name in table.varying),
            *(_cell(table, quantity, point) for quantity in quantities),
        ]
        for point in points[:most_rows]
    ]
    headings = [_heading(quantity) for quantity in quantities]
    left = max(0, len(points) - most_rows), max(0, len(table.values) - most_columns)
    return Means(list(table.varying), headings, rows, *left)


def _points(table: StudyTable) -> list[Point]:
    return list(dict.fromkeys(point for points in table.values.values() for point in points))


def _heading(quantity: Quantity) -> str:
    words = {"max_aac": "max AAC"}.get(quantity.name, quantity.name)
    about = [str(value) for name, value in quantity.labels.items() if name in ("observer", "relevance")]
    return "\n".join([*about, f"{words} (%)" if quantity.is_share else words])


def _cell(table: StudyTable, quantity: Quantity, point: Point) -> str:
    seeds = table.values[quantity].get(point)
    if not seeds:
        return "-"
    return _words(estimate(seeds.values()).scaled(quantity.factor), places=1 if quantity.is_share else None)


def _words(found: Estimate, *, places: int | None) -> str:
    half = (found.high - found.low) / 2
    if places is None:
        return f"{found.mean:,.4g}" + ("" if math.isnan(half) else f" ± {half:,.2g}")
    return f"{found.mean:.{places}f}" + ("" if math.isnan(half) else f" ± {half:.{places}f}")
