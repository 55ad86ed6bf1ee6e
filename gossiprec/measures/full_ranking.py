"""Where items stand when all the items that may be recommended to a user are ranked.

Ties follow the rule of :mod:`gossiprec.measures.ranking`: against the relevant item, or the target, and so do
scores that are not numbers wherever they stand; nobody is recommended an item without a score.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64, Bools
from gossiprec.measures.base import BEHIND, NOTHING, NOWHERE, RelevantRanks
from gossiprec.measures.top_k import top_k


def relevant_ranks(
    scores: npt.NDArray[np.floating], candidates: Bools, relevant: Bools, k: int
) -> RelevantRanks:
    """Rank the relevant items of each user among the candidates, as far as the first `k`, without sorting the lists.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
        Overwritten.
    candidates : ndarray of bool, shape (n_users, n_items)
        The items that may be recommended: those not seen in training.
    relevant : ndarray of bool, shape (n_users, n_items)
        The test items; those that are no candidates are left out, and so are users without any.
    k : int
        Ranks of `k` and above are told as :data:`~gossiprec.measures.base.BEHIND`.
    """
    users, items = np.divmod(np.flatnonzero(relevant & candidates), scores.shape[1])  # nonzero is slow in 2-D
    own = scores[users, items]
    own = np.where(np.isnan(own), -np.inf, own)
    others = candidates & ~relevant
    scores[~others] = -np.inf
    scores[others & np.isnan(scores)] = np.inf  # it beats every relevant item
    best = _largest(scores, k)
    not_beaten = np.count_nonzero(best[users] >= own[:, None], axis=1)
    not_beaten = np.minimum(
        not_beaten, np.count_nonzero(others, axis=1)[users]
    )  # what is masked ties with -inf
    order = np.lexsort((-own, users))
    counts = np.bincount(users, minlength=len(scores))
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranks = not_beaten[order] + place
    found = np.full((len(scores), counts.max(initial=0)), NOWHERE, np.int32)
    found[users, place] = np.where(ranks < k, ranks, BEHIND)
    return RelevantRanks(found[counts > 0])


def _largest(scores: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """Return the `k` largest scores of each row, or all, in any order; rows are rearranged."""
    first = max(scores.shape[1] - k, 0)
    if first:
        scores.partition(first, axis=1)
    return scores[:, first:]


def target_ranks(scores: npt.NDArray[np.floating], candidates: Bools, targets: I64) -> I32:
    """Rank each target among the candidates of each user.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
    candidates : ndarray of bool, shape (n_users, n_items)
        The items with which a user has not interacted.
    targets : ndarray of int64, shape (n_targets,)
        Item ids.

    Returns
    -------
    ndarray of int32, shape (n_users, n_targets)
        0-based ranks; -1 where the target is no candidate.
    """
    found = np.full((len(scores), len(targets)), NOTHING, np.int32)
    for place, target in enumerate(targets.tolist()):
        open_to = candidates[:, target]
        not_beaten = candidates & ~(scores < scores[:, target, None])  # itself is among them
        found[open_to, place] = np.count_nonzero(not_beaten[open_to], axis=1) - 1
    return found


def top_items(scores: npt.NDArray[np.floating], candidates: Bools, k: int) -> I32:
    """Return the `k` candidates that each user scores highest, ties by lower id.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
    candidates : ndarray of bool, shape (n_users, n_items)
    k : int

    Returns
    -------
    ndarray of int32, shape (n_users, k)
        Best first; -1 where fewer than `k` candidates have a score.
    """
    known = np.where(candidates & ~np.isnan(scores), scores, -np.inf)
    best = top_k(known, k)
    ended = np.take_along_axis(known, best, axis=1) == -np.inf
    return np.where(ended, NOTHING, best).astype(np.int32)
