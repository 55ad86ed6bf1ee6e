"""Statistics of numbers over seeds, and verdicts on printed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from scipy import stats

from gossiprec.base.rounding import difference
from gossiprec.runs import Run

PerSeed = dict[int, float]
Runs = Mapping[str, Mapping[int, Run]]
"""Finished runs by experiment and seed."""


def mean(values: PerSeed) -> float:
    """Return the mean over seeds; NaN without any."""
    return float(np.mean(list(values.values()))) if values else float("nan")


def confidence_half_width(values: PerSeed) -> tuple[float, float]:
    """Return the 95 % interval of the mean over seeds (Student's t); NaN with fewer than two."""
    n = len(values)
    if n < 2:
        return float("nan"), float("nan")
    deviation = float(np.std(list(values.values()), ddof=1))
    half = deviation / np.sqrt(n) * float(stats.t.ppf(0.975, n - 1))
    return mean(values) - half, mean(values) + half


def format_mean_text(values: PerSeed, digits: int, separator: str = "") -> str:
    """Return the mean over seeds as text, with ± half of its 95 % interval if the seeds differ."""
    half = difference(confidence_half_width(values)[1], mean(values))
    text = f"{mean(values):{separator}.{digits}f}"
    return f"{text} ± {half:{separator}.{digits}f}" if half > 0 else text  # NaN with one seed


Band = tuple[float, float]
"""Lowest and highest value that count as near to a printed number."""


class Verdict(Enum):
    """The agreement of a number with the paper, the best first: a mark, a word and its meaning."""

    WITHIN = ("✓", "within", "our mean is in the band around the printed number")
    NEAR = ("≈", "near", "our mean is outside the band, but the 95 % interval over our seeds reaches it")
    OUTSIDE = ("✗", "outside", "neither our mean nor the interval reaches the band")
    NOT_RUN = ("–", "not run", "no finished run has this number: see Missing")
    UNJUDGED = (
        "○",
        "not judged",
        "the paper has no single number, no run is needed, or it is a time on another machine",
    )

    def __init__(self, mark: str, word: str, meaning: str) -> None:
        self.mark = mark
        self.word = word
        self.meaning = meaning

    def __lt__(self, other: Verdict) -> bool:
        """Return whether this verdict is better."""
        order = list(Verdict)
        return order.index(self) < order.index(other)


def judge_agreement(band: Band | None, values: PerSeed) -> Verdict:
    """Return the agreement of measured values, by seed, with the band of a printed number."""
    if band is None:
        return Verdict.UNJUDGED
    middle = mean(values)
    if not np.isfinite(middle):
        return Verdict.NOT_RUN
    low, high = band
    if difference(low, middle) <= 0 <= difference(high, middle):
        return Verdict.WITHIN
    least, most = confidence_half_width(values)  # NaN with one seed, which overlaps no band
    overlaps = difference(least, high) <= 0 <= difference(most, low)
    return Verdict.NEAR if overlaps else Verdict.OUTSIDE


def tolerance_band(
    value: float, *, points: float = 0.0, share: float = 0.0, most: float = float("inf")
) -> Band:
    """Return the lowest and the highest number near a value.

    Parameters
    ----------
    value : float
    points : float
        Least distance from the value, in its unit.
    share : float
        Least distance from the value, as a fraction of it.
    most : float
        Upper limit of the quantity; its lower limit is 0 if the value is not negative.
    """
    by = max(points, share * abs(value))
    low, high = round(value - by, 9), round(value + by, 9)  # avoids 66.00999999999999
    return max(low, 0.0) if value >= 0 else low, min(high, most)
