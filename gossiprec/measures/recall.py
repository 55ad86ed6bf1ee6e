"""Recall: how much of what a user wants is in the list."""

from __future__ import annotations

from gossiprec.arrays import F64
from gossiprec.measures import MEASURES
from gossiprec.measures.base import Measure, RelevantRanks


@MEASURES.register("recall")
class Recall(Measure):
    """Relevant items among the first K, over all relevant items.

    Notes
    -----
    Also the hit ratio "averaged over test items, then users" of a ranking of all items.
    """

    @staticmethod
    def of(seen: RelevantRanks, k: int) -> F64:
        """Return the recall of each list."""
        return seen.hits(k) / seen.n_relevant
