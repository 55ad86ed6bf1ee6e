"""Where items stand when all the items that may be recommended to a user are ranked.

Ties follow the rule of :mod:`gossiprec.measures.ranking`: against the relevant item, or the target, and so do
scores that are not numbers wherever they stand; nobody is recommended an item without a score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64, Bools
from gossiprec.measures.base import NOTHING, NOWHERE, RelevantRanks
from gossiprec.measures.top_k import top_k

FEW = 50
"""Relevant items up to which looking through all scores for each is faster than sorting them."""


def relevant_ranks(scores: npt.NDArray[np.floating], candidates: Bools, relevant: Bools) -> I64:
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
        # NaN sorts last: it beats every relevant item
        beaten = np.searchsorted(np.sort(others), own, side="left")
    not_beaten = others.size - beaten
    return np.asarray(not_beaten + np.arange(own.size), dtype=np.int64)


def side_by_side(lists: Sequence[I64]) -> RelevantRanks:
    """Return the ranks of several lists as one array; lists without a relevant item are left out."""
    known = [ranks for ranks in lists if ranks.size]
    found = np.full((len(known), max(map(len, known), default=0)), NOWHERE, np.int32)
    for row, ranks in zip(found, known, strict=True):
        row[: ranks.size] = ranks
    return RelevantRanks(found)


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
