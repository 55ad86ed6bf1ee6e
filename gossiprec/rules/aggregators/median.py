"""The coordinate-wise median.

References
----------
D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning: towards optimal statistical
rates", ICML 2018, definition 1. Item by item, and times the number of clients: published code of PIECK (specification,
section 3.5).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule


@AGGREGATORS.register("median")
class Median(TouchedRule):
    """The median of each number over the models; the mean of the two middle ones if n is even. Weights are not used."""

    enough = 3  # the median of two models is their mean

    @property
    def takes_parts(self) -> bool:
        """Whether received models may lack numbers: each number of whole models is reduced by itself."""
        return not self.uses_deltas

    def breakdown(self, n: int) -> int:
        """Return the largest number below half of the models."""
        return (n - 1) // 2

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the median; NaN counts as the largest value."""
        n, out = len(inbox.model_weights), np.empty_like(own)
        for columns, models in inbox.models(own):
            out[columns] = median_of_sorted(np.partition(models, [(n - 1) // 2, n // 2], axis=0))
        return out

    def combine(self, values: F32) -> F32:
        """Return the median of each number; sorting is faster than selecting in this memory layout."""
        return median_of_sorted(np.sort(values, axis=0))


def median_of_sorted(ordered: F32) -> F32:
    """Return the median of each number; `ordered` is ascending in its first dimension."""
    n = len(ordered)
    return 0.5 * ordered[(n - 1) // 2] + 0.5 * ordered[n // 2]
