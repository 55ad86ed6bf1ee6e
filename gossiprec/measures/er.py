"""Exposure ratio: to how many users target items are shown."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F64
from gossiprec.measures import MEASURES
from gossiprec.measures.base import NOTHING, Measure, TargetRanks


@MEASURES.register("er")
class ExposureRatio(Measure):
    """Of the users who have not interacted with a target, the share with it in their first K; averaged over targets.

    A target with which every user has interacted is left out.

    References
    ----------
    W. Yuan et al., "Robust Federated Contrastive Recommender System against Model Poisoning Attack", arXiv 2403.20107:
    ER@K, eq. 3.
    """

    wants = TargetRanks

    @staticmethod
    def of(seen: TargetRanks, k: int) -> F64:
        """Return the exposure ratio of each target."""
        asked = seen.ranks != NOTHING
        shown = np.count_nonzero(asked & (seen.ranks < k), axis=0)
        able = np.count_nonzero(asked, axis=0)
        return np.asarray(np.divide(shown, able, out=np.full(len(able), np.nan), where=able > 0))
