"""Gini coefficient of exposure: how unequally the items are recommended."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, NOTHING, Measure, TopItems


@MEASURES.register("exposure_gini")
class ExposureGini(Measure):
    """Gini coefficient of how many lists have each item among the first K: 0 if all are equal, 1 if it is one item.

    References
    ----------
    G. Shani and A. Gunawardana, "Evaluating recommendation systems", Recommender Systems Handbook, 2011: Gini index,
    ``sum_j (2 j - n - 1) p_j / (n - 1)`` of the n items in ascending order of their shares p of all recommendations.
    """

    wants = TopItems
    lower_is_better = True
    per_user = False

    def compute_values(self, seen: TopItems, k: int) -> F64:
        """Return the coefficient, over all items of the data."""
        items = seen.items[:, :k]
        counts = np.sort(np.bincount(items[items != NOTHING], minlength=seen.n_items))
        n, total = len(counts), counts.sum()
        if n < 2 or not total:
            return np.array([np.nan])
        weights = 2 * np.arange(1, n + 1) - n - 1
        return np.array([weights @ counts / ((n - 1) * total)])
