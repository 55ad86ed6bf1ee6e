"""Genre spread: how many of all genres a list of recommendations has."""

from __future__ import annotations

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.measures import MEASURES, NOTHING, Measure, TopItems


@MEASURES.register("genre_spread")
class GenreSpread(Measure):
    """Share of all genres that the first K items have."""

    wants = TopItems
    needs_features = True

    def __init__(self, data):
        super().__init__(data)
        if data.item_features is None:
            raise DataError(
                f"{data.name}: has no attributes of items; expected a column genres; name a table with "
                "dataset.item_features: {path: FILE}"
            )
        self.has_genre = data.item_features.labels("genres").shares() > 0

    def compute_values(self, seen, k):
        """Return the share of each list."""
        items = seen.items[:, :k]
        listed = self.has_genre[items] & (items != NOTHING)[..., None]
        return np.asarray(listed.any(axis=1).mean(axis=1), np.float64)
