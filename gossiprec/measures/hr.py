"""Hit ratio: whether a test item is among the first K."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("hr")
class HitRatio(Measure):
    """1 if the test item is among the first K of the sampled items, averaged over test items, then users.

    References
    ----------
    X. He et al., "Neural Collaborative Filtering", WWW 2017: one held-out item among 99 sampled ones.
    """

    sampled = True

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return 1.0 for a list with a hit, else 0.0."""
        return np.asarray(seen.hits(k) > 0, np.float64)
