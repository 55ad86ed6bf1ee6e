"""Novelty: how rare the recommended items are."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, NOTHING, Measure, TopItems


@MEASURES.register("novelty")
class Novelty(Measure):
    """Mean over the first K of the share of users who have not trained on the item.

    References
    ----------
    S. Vargas and P. Castells, "Rank and relevance in novelty and diversity metrics for recommender systems", RecSys
    2011: expected popularity complement, without its discounts by rank and relevance; seen means trained on.
    """

    wants = TopItems

    def compute_values(self, seen: TopItems, k: int) -> F64:
        """Return the novelty of each list; NaN for a list without items."""
        items = seen.items[:, :k]
        listed = items != NOTHING
        rarity = np.where(listed, 1.0 - self.data.popularity[items] / self.data.n_users, 0.0)
        counts = np.count_nonzero(listed, axis=1)
        means = np.full(len(items), np.nan)
        return np.asarray(np.divide(rarity.sum(axis=1), counts, out=means, where=counts > 0))
