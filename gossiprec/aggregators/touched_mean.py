"""The mean over those who touched an item: what one client has learnt of it is not thinned by those who never saw it.

References
----------
Federated recommenders that upload gradients of items apart (specification, section 3.1: the published code of none of
them says it in an equation); the mean over all clients is `mean`, their sum is `sum`.
"""

from __future__ import annotations

import numpy as np

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32


@AGGREGATORS.register("touched-mean")
class TouchedMean(Aggregator):
    """Adds to each item the weighted mean of its changes, over the clients that touched it; to weights, over all."""

    of_changes = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the mean changes."""
        assert inbox.changes is not None
        width, n_shared = inbox.changes[0].rows.shape[1], len(inbox.changes[0].shared)
        n_items = (len(own) - n_shared) // max(width, 1)
        total, mass = np.zeros((n_items, width)), np.zeros(n_items)
        shared = np.zeros(n_shared)
        for change, weight in zip(inbox.changes, inbox.weights, strict=True):
            total[change.items] += weight * change.rows
            mass[change.items] += weight
            shared += weight * change.shared
        total /= np.where(mass > 0, mass, 1.0)[:, None]
        added = np.concatenate([total.ravel(), shared / inbox.weights.sum()])
        found: F32 = (own + added).astype(np.float32)
        return found
