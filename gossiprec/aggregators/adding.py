"""Adding changes to a model: their sum, or a mean of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from gossiprec.aggregators.base import Inbox
from gossiprec.arrays import F32

How: TypeAlias = Literal["touched-mean", "mean", "sum"]
"""The mean over the clients that touched an item, that over all (who has not touched it counts zero), or the sum."""


def added(own: F32, inbox: Inbox, how: How) -> F32:
    """Return a model with the changes of an inbox added; weights are used by means alone."""
    assert inbox.changes is not None
    width, n_shared = inbox.changes[0].rows.shape[1], len(inbox.changes[0].shared)
    n_items = (len(own) - n_shared) // max(width, 1)
    total, mass = np.zeros((n_items, width)), np.zeros(n_items)
    shared = np.zeros(n_shared)
    weights = np.ones(len(inbox)) if how == "sum" else inbox.weights
    for change, weight in zip(inbox.changes, weights, strict=True):
        total[change.items] += weight * change.rows
        mass[change.items] += weight
        shared += weight * change.shared
    if how == "touched-mean":
        total /= np.where(mass > 0, mass, 1.0)[:, None]
    elif how == "mean":
        total /= weights.sum()
    if how != "sum":
        shared /= weights.sum()
    found: F32 = (own + np.concatenate([total.ravel(), shared])).astype(np.float32)
    return found
