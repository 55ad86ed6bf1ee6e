"""Precision: how much of the list is what a user wants."""

from __future__ import annotations

from gossiprec.arrays import F64
from gossiprec.measures import MEASURES
from gossiprec.measures.base import Measure, RelevantRanks


@MEASURES.register("precision")
class Precision(Measure):
    """Relevant items among the first K, over K: also where fewer items are left to be recommended."""

    @staticmethod
    def of(seen: RelevantRanks, k: int) -> F64:
        """Return the precision of each list."""
        return seen.hits(k) / k
