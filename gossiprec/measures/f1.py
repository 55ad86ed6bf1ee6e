"""F1: the harmonic mean of precision and recall."""

from __future__ import annotations

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, Measure, RelevantRanks


@MEASURES.register("f1")
class F1(Measure):
    """Harmonic mean of precision, ``hits / K``, and recall: ``2 hits / (K + n_relevant)``."""

    @staticmethod
    def compute_values(seen: RelevantRanks, k: int) -> F64:
        """Return the F1 of each list."""
        return 2 * seen.hits(k) / (k + seen.n_relevant)
