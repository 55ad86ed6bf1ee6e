"""What becomes of a printed number: within its band, near it, outside, or not to be said."""

from __future__ import annotations

from enum import Enum

import numpy as np

from analysis.papers.seeds import PerSeed, interval, mean

Band = tuple[float, float]
"""Lowest and highest number that count as near to a printed one."""
_ROUNDING = 1e-9


class Verdict(Enum):
    """The agreement of a number with the print, the best first: a mark, a word and what it means."""

    WITHIN = ("✓", "within", "our mean lies in the band around the print")
    NEAR = ("≈", "near", "only the 95 % interval over our seeds reaches the band")
    OUTSIDE = ("✗", "outside", "neither does")
    NOT_RUN = ("–", "not run", "no finished run gives it: see Missing")
    UNJUDGED = ("○", "not judged", "no single number, no run, or a time of another machine")

    def __init__(self, mark: str, word: str, meaning: str) -> None:
        self.mark = mark
        self.word = word
        self.meaning = meaning

    def __lt__(self, other: Verdict) -> bool:
        """Say whether this one is better."""
        order = list(Verdict)
        return order.index(self) < order.index(other)


def agreement(band: Band | None, values: PerSeed) -> Verdict:
    """Return how measured values, by seed, agree with the band of a printed number."""
    if band is None:
        return Verdict.UNJUDGED
    middle = mean(values)
    if not np.isfinite(middle):
        return Verdict.NOT_RUN
    low, high = band
    by = _ROUNDING * max(abs(low), abs(high))
    if low - by <= middle <= high + by:
        return Verdict.WITHIN
    least, most = interval(values)  # NaN with one seed, which reaches nothing
    return Verdict.NEAR if least <= high and most >= low else Verdict.OUTSIDE


def band(value: float, *, points: float = 0.0, share: float = 0.0, most: float = float("inf")) -> Band:
    """Return the lowest and the highest number near a value.

    Parameters
    ----------
    value : float
    points : float
        How far away at least, in the unit of the value.
    share : float
        How far away at least, as a fraction of the value.
    most : float
        What the quantity can be at most; the least is 0, if the value is not below.
    """
    by = max(points, share * abs(value))
    low, high = round(value - by, 9), round(value + by, 9)  # no 66.00999999999999
    return max(low, 0.0) if value >= 0 else low, min(high, most)
