"""What becomes of a printed number: within its band, near it, outside, or not to be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from analysis.papers.seed_statistics import PerSeed, confidence_half_width, mean

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


def judge_agreement(band: Band | None, values: PerSeed) -> Verdict:
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
    least, most = confidence_half_width(values)  # NaN with one seed, which reaches nothing
    return Verdict.NEAR if least <= high and most >= low else Verdict.OUTSIDE


def tolerance_band(
    value: float, *, points: float = 0.0, share: float = 0.0, most: float = float("inf")
) -> Band:
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


HELD, NOT_HELD, UNDECIDED, NOT_MEASURED = "held", "not held", "undecided", "not measured"
MARKS = {HELD: Verdict.WITHIN, NOT_HELD: Verdict.OUTSIDE}
"""The mark of a claim's verdict; of all others that of what was not run."""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, its verdict, and a line of evidence per comparison.

    Held: in every comparison that was measured; not held: one is not; undecided: otherwise.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]


def decide(margins: PerSeed) -> str:
    """Return what paired differences over seeds, positive where a claim holds, say of it."""
    if not margins:
        return NOT_MEASURED
    low, high = confidence_half_width(margins)  # NaN with one seed, which decides nothing
    return HELD if low > 0 else NOT_HELD if high < 0 else UNDECIDED


def describe_margin(margins: PerSeed, digits: int = 1) -> str:
    """Return the mean paired difference with its interval and the verdict."""
    low, high = confidence_half_width(margins)
    several = f"[{low:+.{digits}f}, {high:+.{digits}f}] over {len(margins)} seeds"
    between = several if len(margins) > 1 else "one seed"
    return f"margin {mean(margins):+.{digits}f}, {between}: {decide(margins)}"


def combine_verdicts(verdicts: Sequence[str]) -> str:
    """Return the verdict of a claim, given those of its comparisons."""
    known = set(verdicts) - {NOT_MEASURED}
    return next((verdict for verdict in (NOT_HELD, UNDECIDED, HELD) if verdict in known), NOT_MEASURED)
