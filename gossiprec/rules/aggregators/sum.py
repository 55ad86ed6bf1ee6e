"""The sum of deltas: every client moves the model by its full delta.

References
----------
Published code of PoisonFedDLRS (specification, section 3.1), which adds up the gradients of a slice.
"""

from __future__ import annotations

from gossiprec.base.arrays import F32
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox
from gossiprec.rules.aggregators.deltas import add_deltas


@AGGREGATORS.register("sum")
class Sum(Aggregator):
    """The model plus all deltas. Weights are not used, and neither is staleness."""

    uses_deltas = True
    is_robust = False
    propagates_nonfinite = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with all deltas added."""
        return add_deltas(own, inbox, "sum")
