"""Means over seeds with their intervals, paired differences, Pareto-optimal points, and reference levels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from gossiprec.base.rounding import difference
from gossiprec.figures import style
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import PerSeed, Point, StudyTable, order_quantities
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, split_baseline_name

LEVEL = 0.95
LOG_FROM = 20.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over seeds.

    Attributes
    ----------
    mean : float
    low, high : float
        Ends of the 95 % t-interval of the mean; NaN for a single value.
    n : int
        Number of seeds.
    """

    mean: float
    low: float
    high: float
    n: int

    def scaled(self, factor: float) -> MeanEstimate:
        """Return the estimate in another unit."""
        return MeanEstimate(factor * self.mean, factor * self.low, factor * self.high, self.n)

    def within(self, low: float, high: float) -> MeanEstimate:
        """Return the estimate with its interval cut at the ends of what is possible."""
        return replace(self, low=max(low, self.low), high=min(high, self.high))


def mean_with_interval(values: Iterable[float]) -> MeanEstimate:
    """Return the mean of independent values and its interval, ``mean ± t(n - 1) s / sqrt(n)``.

    Notes
    -----
    The interval assumes normally distributed values. It describes the precision
    of the mean over seeds, not the spread of single runs.
    """
    found = np.array(list(values), np.float64)
    if len(found) < 2:
        return MeanEstimate(float(found.mean()) if len(found) else np.nan, np.nan, np.nan, len(found))
    half = student.ppf((1 + LEVEL) / 2, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    mean = found.mean()
    return MeanEstimate(float(mean), float(mean - half), float(mean + half), len(found))


def paired_difference(values: dict[int, float], baseline: dict[int, float]) -> MeanEstimate:
    """Return the mean difference to the baseline over the seeds that both have, and its interval."""
    return mean_with_interval(difference(values[seed], baseline[seed]) for seed in values if seed in baseline)


def is_pareto_optimal(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return for each (utility, attack accuracy) whether no other point is as good in both and better in one.

    Higher utility is better, and lower attack accuracy is better.
    """
    utility, attack = np.array(points, np.float64).reshape(-1, 2).T

    def is_beaten(point: tuple[float, float]) -> bool:
        gains = np.stack([difference(utility, point[0]), -difference(attack, point[1])])
        return bool(((gains >= 0).all(axis=0) & (gains > 0).any(axis=0)).any())

    return [not is_beaten(point) for point in points]


def describe_intervals(counts: Iterable[int], what: str) -> str:
    """Return the caption of a picture's intervals, a sentence; `what` names their mark."""
    counts = list(counts)
    if max(counts) < 2:
        return "There is one seed, so there are no intervals."
    return f"{what} 95 % t-intervals ({describe_seeds(counts)})."


def describe_seeds(counts: Iterable[int]) -> str:
    """Return the number of seeds behind the means, such as ``n = 3`` or ``n = 2–3``."""
    found = sorted(set(counts))
    return f"n = {found[0]}" if len(found) == 1 else f"n = {found[0]}–{found[-1]}"


NOTE = (
    "Means over seeds ± half-width of the 95 % confidence interval (if there are several seeds). Max AAC is the "
    "highest accuracy of all reports, which flatters an attack; last AAC is that of the last report."
)


class MeansTable(NamedTuple):
    """A table of texts, with the number of rows and columns left out.

    Attributes
    ----------
    axes, headings : list of str
        Headings of the columns; headings of measures are lists of lines.
    rows : list of list of str
        A row per combination of the varying axes.
    more_rows, more_columns : int
    """

    axes: list[str]
    headings: list[str]
    rows: list[list[str]]
    more_rows: int
    more_columns: int


def tabulate_means(table: StudyTable, *, most_rows: int, most_columns: int) -> MeansTable:
    """Return a table with a row per combination of the varying axes and a column for each of the first measures."""
    points, quantities = _points(table), order_quantities(table)[:most_columns]
    rows = [
        [
            *(format_label(point[table.axis_index(name)]) for name in table.varying),
            *(_cell(table, quantity, point) for quantity in quantities),
        ]
        for point in points[:most_rows]
    ]
    headings = [_heading(quantity) for quantity in quantities]
    left = max(0, len(points) - most_rows), max(0, len(table.values) - most_columns)
    return MeansTable(list(table.varying), headings, rows, *left)


def _points(table: StudyTable) -> list[Point]:
    return list(dict.fromkeys(point for points in table.values.values() for point in points))


def _heading(quantity: Quantity) -> str:
    words = {"max_aac": "max AAC", "last_aac": "last AAC"}.get(quantity.name, quantity.name)
    about = [str(value) for name, value in quantity.labels.items() if name in ("observer", "relevance")]
    return "\n".join([*about, f"{words} (%)" if quantity.is_share else words])


def _cell(table: StudyTable, quantity: Quantity, point: Point) -> str:
    seeds = table.values[quantity].get(point)
    if not seeds:
        return "-"
    return _words(
        mean_with_interval(seeds.values()).scaled(quantity.picture_factor),
        places=1 if quantity.is_share else None,
    )


def _words(found: MeanEstimate, *, places: int | None) -> str:
    half = (found.high - found.low) / 2
    if places is None:
        return f"{found.mean:,.4g}" + ("" if math.isnan(half) else f" ± {half:,.2g}")
    return f"{found.mean:.{places}f}" + ("" if math.isnan(half) else f" ± {half:.{places}f}")


@dataclass(frozen=True)
class ReferenceLevel:
    """A kind of reference level: its meaning and its look.

    Attributes
    ----------
    words : str
    dashes
        Line style.
    mark : str
        Matplotlib marker on a line over numbers.
    tick : str
        Matplotlib marker in a row of words.
    """

    words: str
    dashes: Any
    mark: str
    tick: str

    @property
    def short(self) -> str:
        """The name without its explanation."""
        return self.words.partition(":")[0]


GUESSING = ReferenceLevel("guessing", ":", "", "4")
POPULARITY = ReferenceLevel("popularity baseline", (0, (5, 1.5, 1, 1.5)), "", "x")
AT_MOST = ReferenceLevel("upper bound: fraction met", style.BOUND_DASHES, "_", "|")

_SETS = "contribution.leaks."
_OTHERS = {
    **{name: [(GUESSING, "random_bound"), (AT_MOST, "upper_bound")] for name in ("max_aac", "last_aac")},
    **{name: [(GUESSING, "random_bound")] for name in ("exposure_defended", "exposure_undefended")},
    "item_auc": [(POPULARITY, "item_auc_popularity")],
    f"{_SETS}cda": [(GUESSING, f"{_SETS}cda_random")],
    f"{_SETS}auxiliary_cda": [(GUESSING, f"{_SETS}cda_random")],
    f"{_SETS}mia_auc": [(POPULARITY, f"{_SETS}mia_auc_popularity")],
    f"{_SETS}auxiliary_mia_auc": [(POPULARITY, f"{_SETS}mia_auc_popularity")],
}


def collect_levels(table: StudyTable, quantity: Quantity) -> dict[ReferenceLevel, dict[Point, PerSeed]]:
    """Return the collected reference levels of a quantity, by point and seed."""
    found = {
        level: table.values.get(replace(quantity, name=name), {})
        for level, name in _level_measures(quantity.name)
    }
    return {level: values for level, values in found.items() if values}


def _level_measures(name: str) -> list[tuple[ReferenceLevel, str]]:
    """Return the measures that hold the reference levels of a measure."""
    metric, order = split_baseline_name(name)
    if "@" in name and order in ("", VALIDATED):
        return [(POPULARITY, baseline_metric_name(metric, "popularity"))]
    return _OTHERS.get(name, [])
