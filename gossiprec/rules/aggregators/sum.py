"""The sum of deltas: every client moves the model by its full delta.

References
----------
Published code of PoisonFedDLRS (specification, section 3.1), which adds up the gradients of a slice.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, RoundSums
from gossiprec.rules.aggregators.deltas import add_deltas


@AGGREGATORS.register("sum")
class Sum(Aggregator):
    """The model plus all deltas. Weights are not used, and neither is staleness."""

    uses_deltas = True
    is_robust = False
    propagates_nonfinite = True
    from_sums = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with all deltas added."""
        return add_deltas(own, inbox, "sum")

    def reduce_sums(self, own: F32, sums: RoundSums) -> F32:
        """Return the own model plus the sum of changes."""
        return (own + sums.total).astype(np.float32)
