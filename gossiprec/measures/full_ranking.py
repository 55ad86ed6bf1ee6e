"""Recommendation quality when all the items a user has not seen are ranked.

Ties follow the rule of :mod:`gossiprec.measures.ranking`: against the relevant items. A user without relevant
items gets NaN, so that an average over users leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64, Bools
from gossiprec.measures.ranking import gains

Mask = Bools

FEW = 50
"""Relevant items up to which looking through all scores for each is faster than sorting them."""


@dataclass(frozen=True)
class FullRanking:
    """The quality of each user's whole list, cut at k.

    Attributes
    ----------
    hit_ratio : ndarray of float64, shape (n_users,)
        1.0 where at least one relevant item is among the first k.
    recall : ndarray of float64, shape (n_users,)
        Relevant items among the first k, over all relevant items. This is also the hit ratio "averaged over
        test items, then users".
    ndcg : ndarray of float64, shape (n_users,)
        Discounted gain over that of the ideal list, which begins with ``min(k, n_relevant)`` hits.
    f1 : ndarray of float64, shape (n_users,)
        Harmonic mean of precision, ``hits / k``, and recall: ``2 hits / (k + n_relevant)``.
    """

    hit_ratio: F64
    recall: F64
    ndcg: F64
    f1: F64


def relevant_ranks(scores: npt.NDArray[np.floating], candidates: Mask, relevant: Mask) -> I64:
    """Rank the relevant items of one user among the candidates.

    Parameters
    ----------
    scores : ndarray, shape (n_items,)
    candidates : ndarray of bool, shape (n_items,)
        The items that may be recommended: those not seen in training.
    relevant : ndarray of bool, shape (n_items,)
        The test items; those that are no candidates are left out.

    Returns
    -------
    ndarray of int64, shape (n_relevant,)
        0-based ranks, ascending.
    """
    others = scores[candidates & ~relevant]
    own = np.asarray(scores[candidates & relevant], dtype=scores.dtype)
    own = np.sort(np.where(np.isnan(own), -np.inf, own))[::-1]
    if own.size < FEW:
        beaten = np.array([np.count_nonzero(others < score) for score in own], np.int64)
    else:
        beaten = np.searchsorted(
            np.sort(others), own, side="left"
        )  # NaN sorts last: it beats every relevant item
    not_beaten = others.size - beaten
    return np.asarray(not_beaten + np.arange(own.size), dtype=np.int64)


def full_ranking(
    scores: npt.NDArray[np.floating], candidates: Mask, relevant: Mask, *, k: int
) -> FullRanking:
    """Measure the lists of a block of users.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
    candidates, relevant : ndarray of bool, shape (n_users, n_items)
        As in :func:`relevant_ranks`.
    k : int
        Length of the list that is shown.
    """
    measured = np.full((4, len(scores)), np.nan)
    ideal = np.concatenate([[0.0], np.cumsum(gains(np.arange(k)))])
    for user in range(len(scores)):
        ranks = relevant_ranks(scores[user], candidates[user], relevant[user])
        if ranks.size:
            hits = ranks[ranks < k]
            best = ideal[min(k, ranks.size)]
            f1 = 2 * hits.size / (k + ranks.size)
            measured[:, user] = hits.size > 0, hits.size / ranks.size, gains(hits).sum() / best, f1
    return FullRanking(*measured)
