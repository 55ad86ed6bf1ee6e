"""A number for each seed, and what is said of several: mean, spread, interval."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats

from gossiprec.eventlog import Run

PerSeed = dict[int, float]
Runs = Mapping[str, Mapping[int, Run]]
"""Finished runs by experiment and seed."""


def mean(values: PerSeed) -> float:
    """Return the mean over seeds; NaN without any."""
    return float(np.mean(list(values.values()))) if values else float("nan")


def spread(values: PerSeed) -> float:
    """Return the standard deviation over seeds (n - 1); NaN with fewer than two."""
    return float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else float("nan")


def interval(values: PerSeed) -> tuple[float, float]:
    """Return the 95 % interval of the mean over seeds (Student's t); NaN with fewer than two."""
    half = spread(values) / np.sqrt(max(1, len(values))) * float(stats.t.ppf(0.975, max(1, len(values) - 1)))
    return mean(values) - half, mean(values) + half
