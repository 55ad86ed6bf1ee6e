"""Hit rate: the share of users with a relevant item in their list."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("hit")
class Hit(Measure):
    """1 for a list with at least one relevant item among its first K.

    Notes
    -----
    LensKit's ``Hit`` and RecBole's ``Hit``. With one test item per user it equals recall.
    """

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return 1.0 for a list with a hit, else 0.0."""
        return np.asarray(seen.hits(k) > 0, np.float64)
