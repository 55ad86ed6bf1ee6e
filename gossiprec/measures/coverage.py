"""Catalogue coverage: the share of items that are recommended to any user."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, NOTHING, Measure, TopItems


@MEASURES.register("coverage")
class Coverage(Measure):
    """The share of all items that are among the first K of at least one user.

    References
    ----------
    M. Ge, C. Delgado-Battenfeld, D. Jannach, "Beyond accuracy: evaluating recommender systems by coverage and
    serendipity", RecSys 2010: catalogue coverage.
    """

    wants = TopItems
    per_user = False

    @staticmethod
    def compute_values(seen: TopItems, k: int) -> F64:
        """Return 1.0 for each item that is shown to a user, else 0.0."""
        shown = np.unique(seen.items[:, :k])
        found = np.zeros(seen.n_items)
        found[shown[shown != NOTHING]] = 1.0
        return found
