"""Precision: the share of the list that is relevant."""

from __future__ import annotations

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("precision")
class Precision(Measure):
    """Relevant items among the first K, divided by K, even if fewer items are left to be recommended."""

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return the precision of each list."""
        return seen.hits(k) / k
