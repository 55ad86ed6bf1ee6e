"""The coordinate-wise median.

References
----------
D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning: towards optimal statistical
rates", ICML 2018, definition 1.
"""

from __future__ import annotations

import numpy as np

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32


@AGGREGATORS.register("median")
class Median(Aggregator):
    """Of each number the median over the models; of two, or the two in the middle, the mean. Weights are not used."""

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the median; a value that is not a number counts as the largest."""
        n, out = len(inbox.model_weights), np.empty_like(own)
        low, high = (n - 1) // 2, n // 2
        for columns, models in inbox.models(own):
            middle = np.partition(models, [low, high], axis=0)
            out[columns] = 0.5 * middle[low] + 0.5 * middle[high]
        return out
