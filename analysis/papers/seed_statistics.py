"""Statistics of a number over seeds: mean, spread, interval."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from gossiprec.runs import Run

PerSeed = dict[int, float]
Runs = Mapping[str, Mapping[int, Run]]
"""Finished runs by experiment and seed."""


def mean(values: PerSeed) -> float:
    """Return the mean over seeds; NaN without any."""
    return float(np.mean(list(values.values()))) if values else float("nan")


def standard_deviation(values: PerSeed) -> float:
    """Return the standard deviation over seeds (n - 1); NaN with fewer than two."""
    return float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else float("nan")


def confidence_half_width(values: PerSeed) -> tuple[float, float]:
    """Return the 95 % interval of the mean over seeds (Student's t); NaN with fewer than two."""
    half = (
        standard_deviation(values)
        / np.sqrt(max(1, len(values)))
        * float(stats.t.ppf(0.975, max(1, len(values) - 1)))
    )
    return mean(values) - half, mean(values) + half


def standard_errors_apart(one: float, other: float, n_items: int) -> float:
    """Return the difference of two shares in standard errors of that difference, unpaired.

    Two runs are judged on the same test items, but which of them each hits is not kept. So their errors count as
    independent: the variances of both shares add up.

    Parameters
    ----------
    one, other : float
        From 0 to 1, such as HR@10 with one test item per user.
    n_items : int
        Test items of each.

    Returns
    -------
    float
        Infinite if the shares differ and neither has an error; 0 if they are equal.
    """
    error = math.sqrt((one * (1 - one) + other * (1 - other)) / n_items)
    if one == other:
        return 0.0
    return (one - other) / error if error else math.copysign(math.inf, one - other)
