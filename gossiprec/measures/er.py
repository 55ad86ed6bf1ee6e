"""Exposure ratio: the share of users to whom target items are shown."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.measures import MEASURES, NOTHING, Measure, TargetRanks


@MEASURES.register("er")
class ExposureRatio(Measure):
    """The share of users with a target in their first K, among those new to it; averaged over targets.

    A user is new to a target if they have not interacted with it; a target without new users is left out.

    References
    ----------
    W. Yuan et al., "Robust Federated Contrastive Recommender System against Model Poisoning Attack", arXiv 2403.20107:
    ER@K, eq. 3.
    """

    wants = TargetRanks
    lower_is_better = True

    @staticmethod
    def compute_values(seen: TargetRanks, k: int) -> F64:
        """Return the exposure ratio of each target."""
        is_candidate = seen.ranks != NOTHING
        shown = np.count_nonzero(is_candidate & (seen.ranks < k), axis=0)
        able = np.count_nonzero(is_candidate, axis=0)
        return np.asarray(np.divide(shown, able, out=np.full(len(able), np.nan), where=able > 0))
