"""Means over seeds with their intervals, paired differences, and which points no other one beats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

LEVEL = 0.95
LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which an axis of numbers is drawn on a log scale."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes
    ----------
    mean : float
    low, high : float
        Ends of the 95 % t-interval of the mean; NaN with one value.
    n : int
        Seeds.
    """

    mean: float
    low: float
    high: float
    n: int

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate in another unit."""
        return Estimate(factor * self.mean, factor * self.low, factor * self.high, self.n)


def estimate(values: Iterable[float]) -> Estimate:
    """Return the mean of independent values and its interval, ``mean ± t(n - 1) s / sqrt(n)``.

    Notes
    -----
    The interval takes the values of seeds as normally distributed, and says how well the mean over seeds is known: not
    how much single runs vary.
    """
    found = np.array(list(values), np.float64)
    if len(found) < 2:
        return Estimate(float(found.mean()) if len(found) else np.nan, np.nan, np.nan, len(found))
    half = student.ppf((1 + LEVEL) / 2, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    mean = found.mean()
    return Estimate(float(mean), float(mean - half), float(mean + half), len(found))


def paired(values: dict[int, float], baseline: dict[int, float]) -> Estimate:
    """Return the mean difference to the baseline over the seeds that both have, and its interval."""
    return estimate(values[seed] - baseline[seed] for seed in values if seed in baseline)


def unbeaten(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Say of each (utility, accuracy of the attack) whether no other point is as good in both and better in one.

    Utility is better high, the attack's accuracy is better low.
    """
    return [
        not any(
            other[0] >= point[0] and other[1] <= point[1] and (other[0] > point[0] or other[1] < point[1])
            for other in points
        )
        for point in points
    ]


def intervals_in_words(counts: Iterable[int], what: str) -> str:
    """Return what the intervals of a picture are, after what they are drawn as or with."""
    counts = list(counts)
    if max(counts) < 2:
        return "one seed: no interval"
    return f"{what} 95 % t-interval over seeds, {seeds_in_words(counts)}"


def seeds_in_words(counts: Iterable[int]) -> str:
    """Return how many seeds the means are over, such as ``n = 3`` or ``n = 2–3``."""
    found = sorted(set(counts))
    return f"n = {found[0]}" if len(found) == 1 else f"n = {found[0]}–{found[-1]}"
