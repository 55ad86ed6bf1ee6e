"""Mean reciprocal rank: the inverse rank of the first hit."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("mrr")
class MRR(Measure):
    """1 over the rank, from 1, of the first relevant item; 0 if it is not among the first K."""

    sampled = True

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return the reciprocal rank of each list."""
        first = seen.ranks[:, 0]
        return np.where(first < k, 1.0 / (1.0 + first), 0.0)
