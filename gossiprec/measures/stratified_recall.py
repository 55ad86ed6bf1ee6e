"""Popularity-stratified recall: recall in which rare items weigh more."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.ragged import row_entries
from gossiprec.measures import MEASURES, Measure, MeasureData, TopItems


@MEASURES.register("stratified_recall")
class StratifiedRecall(Measure):
    """Weight of the test items among the first K over the weight of all test items; an item weighs its users ** -beta.

    References
    ----------
    H. Steck, "Item popularity and recommendation accuracy", RecSys 2011: popularity-stratified recall, with the weight
    ``1 / N ** (gamma / (gamma + 1))`` of an item with N observed users; gamma = 1 gives beta = 0.5. N counts training
    users, and is 1 for an item without any.
    """

    wants = TopItems
    beta: ClassVar[float] = 0.5

    def __init__(self, data: MeasureData) -> None:
        super().__init__(data)
        self._weights = np.maximum(data.popularity, 1).astype(np.float64) ** -self.beta

    def compute_values(self, seen: TopItems, k: int) -> F64:
        """Return the recall of each list; NaN for a user without test items."""
        places, owners = row_entries(self.data.test.offsets, seen.users)
        tests = self.data.test.values[places]
        hit = (seen.items[owners, :k] == tests[:, None]).any(axis=1)
        found, whole = (
            np.bincount(owners, self._weights[tests] * counts, len(seen.users)) for counts in (hit, 1.0)
        )
        return np.asarray(np.divide(found, whole, out=np.full(len(found), np.nan), where=whole > 0))
