"""Miscalibration: how far the kinds of the recommended items are from those that a user has chosen."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import row_entries
from gossiprec.measures import MEASURES, NOTHING, Measure, MeasureData, TopItems


@MEASURES.register("miscalibration")
class Miscalibration(Measure):
    """Hellinger distance between the genres of a user's training items and of the first K; 0 if they are the same.

    An item with n genres counts 1/n for each; items without genres are left out.

    References
    ----------
    Distributions: H. Steck, "Calibrated recommendations", RecSys 2018, p(g|u) and q(g|u), all items weighing the same.
    Distance: H. Abdollahpouri et al., "The connection between popularity bias, calibration, and fairness in
    recommendation", RecSys 2020 (arXiv 2008.09273); unlike Steck's divergence it is finite, and from 0 to 1.
    """

    wants = TopItems
    lower_is_better = True
    needs_features = True
    column: ClassVar[str] = "genres"
    """The column of the items' labels."""

    def __init__(self, data: MeasureData) -> None:
        super().__init__(data)
        if data.item_features is None:
            raise DataError(
                f"{data.name}: has no attributes of items, which miscalibration needs; expected a column "
                f"{self.column}; name a table with dataset.item_features: {{path: FILE}}"
            )
        self._shares = data.item_features.labels(self.column).shares().astype(np.float64)

    def compute_values(self, seen: TopItems, k: int) -> F64:
        """Return the distance of each list; NaN if a user's items, or the list, have no genres."""
        places, owners = row_entries(self.data.train.offsets, seen.users)
        chosen = np.zeros((len(seen.users), self._shares.shape[1]))
        np.add.at(chosen, owners, self._shares[self.data.train.values[places]])
        items = seen.items[:, :k]
        listed = np.where((items != NOTHING)[..., None], self._shares[items], 0.0).sum(axis=1)
        with np.errstate(invalid="ignore"):
            p, q = (found / found.sum(axis=1, keepdims=True) for found in (chosen, listed))
        distance = np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=1) / 2)
        return np.asarray(np.minimum(distance, 1.0))
