"""The trimmed mean: the mean of each number without the largest and smallest values.

References
----------
D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning: towards optimal statistical
rates", ICML 2018, definition 2. Item by item, without one value at each end: CL4FedRec; without the values farthest
from the median: published code of PIECK and Spattack (specification, section 3.5).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import LARGEST
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule, TouchedRuleOptions, mean_over_uploads


class TrimmedMeanOptions(TouchedRuleOptions):
    """Options of the trimmed mean."""

    share: float = Field(default=0.1, ge=0, lt=0.5)
    """fraction of the values, rounded up, that are dropped at each end"""
    drop: int | None = Field(default=None, ge=0, le=LARGEST)
    """number of values dropped at each end; null: given by share"""
    trim: Literal["ends", "farthest"] = "ends"
    """ends: drop values at each end; farthest: drop the values farthest from the median, `drop` in total, or `share`
    rounded down"""


@AGGREGATORS.register("trimmed-mean")
class TrimmedMean(TouchedRule):
    """The mean of each number over the models, without the largest and the smallest values.

    Weights are not used. If all values would be dropped, the one or two middle ones stay: the result is the median.
    With one or two models nothing is dropped.
    """

    Options = TrimmedMeanOptions
    options: TrimmedMeanOptions

    @property
    def takes_parts(self) -> bool:
        """Whether received models may lack numbers: each number of whole models is reduced by itself."""
        return not self.uses_deltas

    @property
    def min_models(self) -> int:
        """Number of models of which at least one is left."""
        drop = self.options.drop or 0
        return 1 + (2 * drop if self.options.trim == "ends" else drop)

    @property
    def enough(self) -> int:
        """Three if values are dropped: the result of two models is their mean."""
        drops = self.options.share if self.options.drop is None else self.options.drop
        return max(self.min_models, 3 if drops else 1)

    def breakdown(self, n: int) -> int:
        """Return the number of values dropped, at each end or in total, and less than half of the models."""
        return min(self._n_dropped(n), (n - 1) // 2)

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the mean of the remaining values; NaN counts as the largest value."""
        out = np.empty_like(own)
        for columns, models in inbox.models(own):
            out[columns] = self._left(models).mean(axis=0)
        return out

    def combine(self, values: F32) -> F32:
        """Return the mean of the remaining values of each number."""
        return mean_over_uploads(self._left(values))

    def _left(self, values: F32) -> F32:
        """Return the remaining values of each number, in ascending order."""
        ordered, n = np.sort(values, axis=0), len(values)
        dropped = self._n_dropped(n)
        if self.options.trim == "farthest":
            return nearest_to_median(ordered, dropped)
        return ordered[dropped : n - dropped]

    def _n_dropped(self, n: int) -> int:
        """Return the number of values dropped of n: at each end, or in total if the farthest are dropped."""
        options = self.options
        if options.trim == "farthest":
            dropped = math.floor(options.share * n + 1e-9) if options.drop is None else options.drop
            return min(dropped, n - 1) if n > 2 else 0
        dropped = math.ceil(options.share * n - 1e-9) if options.drop is None else options.drop
        return min(dropped, (n - 1) // 2)


def nearest_to_median(ordered: F32, dropped: int) -> F32:
    """Return the values except those farthest from the median of each number; the larger is dropped on ties."""
    n = len(ordered)
    median = 0.5 * ordered[(n - 1) // 2] + 0.5 * ordered[n // 2]
    low, high = np.zeros(median.shape, np.int64), np.full(median.shape, n - 1)
    for _ in range(dropped):
        below = median - np.take_along_axis(ordered, low[None], axis=0)[0]
        above = np.take_along_axis(ordered, high[None], axis=0)[0] - median
        larger = ~(above < below)
        high -= larger
        low += ~larger
    rank = np.arange(n - dropped).reshape(-1, *[1] * low.ndim)
    return np.take_along_axis(ordered, low + rank, axis=0)
