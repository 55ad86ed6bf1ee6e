"""The mean over those who touched an item: what one client has learnt of it is not thinned by those who never saw it.

References
----------
Federated recommenders that upload gradients of items apart (specification, section 3.1: the published code of none of
them says it in an equation); the mean over all clients is `mean`, their sum is `sum`.
"""

from __future__ import annotations

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.aggregators.delta_ops import add_deltas
from gossiprec.arrays import F32


@AGGREGATORS.register("touched-mean")
class TouchedMean(Aggregator):
    """Adds to each item the weighted mean of its changes, over the clients that touched it; to weights, over all."""

    of_changes = True
    withstands = False
    passes_on = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the mean changes."""
        return add_deltas(own, inbox, "touched-mean")
