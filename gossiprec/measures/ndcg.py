"""Normalised discounted cumulative gain: hits near the top count more."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks
from gossiprec.measures.ranking import discounted_gains


@MEASURES.register("ndcg")
class NDCG(Measure):
    """Discounted gain of the hits over the gain of the ideal list, which begins with ``min(K, n_relevant)`` hits.

    References
    ----------
    K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002; with binary
    relevance and gains ``1 / log2(rank + 1)`` of ranks from 1.
    """

    sampled = True

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return the NDCG of each list."""
        hits, most = seen.hits(k), np.minimum(k, seen.n_relevant)
        found = np.zeros(len(hits))
        for count in np.unique(hits[hits > 0]):  # grouped by length: sums do not depend on other lists
            rows = hits == count
            found[rows] = discounted_gains(seen.ranks[rows, :count]).sum(axis=1)
        ideal = np.cumsum(discounted_gains(np.arange(most.max(initial=0))))
        return np.asarray(found / ideal[most - 1])
