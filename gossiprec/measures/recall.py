"""Recall: the share of a user's relevant items that is in the list."""

from __future__ import annotations

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("recall")
class Recall(Measure):
    """Relevant items among the first K, divided by all relevant items.

    Notes
    -----
    It is also the hit ratio, averaged over test items, then users, of a ranking of all items.
    """

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return the recall of each list."""
        return seen.hits(k) / seen.n_relevant
