"""The mean over the clients that touched an item: clients that never saw it do not dilute its delta.

References
----------
Federated recommenders that upload gradients per item (specification, section 3.1: no published code states it as an
equation); the mean over all clients is `mean`, their sum is `sum`.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.rules.aggregators import AGGREGATORS, Inbox, RoundSums
from gossiprec.rules.aggregators.deltas import add_deltas
from gossiprec.rules.aggregators.sum import Sum


@AGGREGATORS.register("touched-mean")
class TouchedMean(Sum):
    """The model plus the weighted mean of each item's deltas over its clients, and of shared weights over all."""

    counts_items = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the mean deltas added."""
        return add_deltas(own, inbox, "touched-mean")

    def reduce_sums(self, own: F32, sums: RoundSums) -> F32:
        """Return the own model plus each item's mean change over its clients, and the mean of the shared weights."""
        assert sums.touched is not None
        return (own + sums.total / np.where(sums.touched > 0, sums.touched, 1.0)).astype(np.float32)
