"""Rank of a relevant item among sampled candidates, its discounted gain, and means over users.

Ranks are 0-based. Ties count against the relevant item: a model that scores all items equally recommends nothing, and
must not be rewarded for it. A NaN score counts as a loss, for candidates and relevant items.

References
----------
X. He et al., "Neural Collaborative Filtering", WWW 2017: one held-out item among 99 sampled ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, I64, Bools
from gossiprec.measures import BEHIND, NOTHING, NOWHERE, RelevantRanks
from gossiprec.native import jit_cached

COMPILED_SCORES = 2**18
"""Number of scores from which compiled loops rank: for fewer, loading them takes longer."""
CUTOFF = 20
"""Cut-off of NDCG in attacks and merges by performance, as in the published code of the CDA paper."""
PADDING = -1
"""Value after the sampled candidates of a user who has fewer than others."""


def candidate_ranks(positive: npt.NDArray[np.floating], negatives: npt.NDArray[np.floating]) -> I64:
    """Return the rank of each relevant item: the number of its candidates that it does not beat.

    Parameters
    ----------
    positive : ndarray, shape (...,)
        Scores of the relevant items.
    negatives : ndarray, shape (..., n_candidates)
        Scores of each item's candidates.

    Returns
    -------
    ndarray of int64, shape (...,)
        0 is the top, ``n_candidates`` the bottom.
    """
    beaten = negatives < positive[..., None]
    return np.asarray(negatives.shape[-1] - np.count_nonzero(beaten, axis=-1), dtype=np.int64)


def discounted_gains(ranks: npt.NDArray[np.integer]) -> F64:
    """Return the discounted gain of a hit at each 0-based rank, ``1 / log2(rank + 2)``."""
    return np.asarray(1.0 / np.log2(np.asarray(ranks, dtype=np.float64) + 2.0))


def user_means(values: F64, offsets: npt.NDArray[np.integer]) -> F64:
    """Return the mean value of each user's test items.

    Parameters
    ----------
    values : ndarray of float64, shape (n_test,)
        One value per test item, users in order; NaN values are left out.
    offsets : ndarray of int, shape (n_users + 1,)
        User ``u`` owns ``values[offsets[u]:offsets[u + 1]]``.

    Returns
    -------
    ndarray of float64, shape (n_users,)
        NaN if a user has no test item with a value.
    """
    sizes = np.diff(offsets)
    known = ~np.isnan(values)
    owners = np.repeat(np.arange(sizes.size), sizes)[known]
    counts = np.bincount(owners, minlength=sizes.size)
    sums = np.bincount(owners, weights=values[known], minlength=sizes.size)
    return np.asarray(np.divide(sums, counts, out=np.full(counts.size, np.nan), where=counts > 0))


def nanmean(values: F64) -> float:
    """Return the mean of the values that are not NaN (users with a test item, targets with a user), or NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def mean_by_user(users: I64, values: F64) -> tuple[I64, F64]:
    """Return the users, ascending, and the mean of each one's known values; NaN if a user has none."""
    owners, place = np.unique(users, return_inverse=True)
    order = np.argsort(place, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(owners)))])
    return owners.astype(np.int64), user_means(values[order], offsets)


def relevant_ranks(
    scores: npt.NDArray[np.floating], candidates: Bools, relevant: Bools, k: int
) -> RelevantRanks:
    """Return the ranks of each user's relevant items among the candidates, up to rank `k`, without sorting.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
        Overwritten.
    candidates : ndarray of bool, shape (n_users, n_items)
        The items that may be recommended: those that are not training items.
    relevant : ndarray of bool, shape (n_users, n_items)
        The test items; items that are not candidates are left out, and so are users without relevant items.
    k : int
        Ranks of `k` and above become :data:`~gossiprec.measures.BEHIND`.

    Returns
    -------
    RelevantRanks
        Its users are the rows of `scores` with relevant items.
    """
    if scores.size >= COMPILED_SCORES:
        ranks, listed = jit_cached(rank_relevant_items)(scores, candidates, relevant, k)
        return RelevantRanks(ranks, listed)
    users, items = np.divmod(np.flatnonzero(relevant & candidates), scores.shape[1])  # nonzero is slow in 2-D
    own = scores[users, items]
    own = np.where(np.isnan(own), -np.inf, own)
    others = candidates & ~relevant
    if np.isnan(scores.min(initial=0)):
        scores[np.isnan(scores)] = np.inf  # it beats every relevant item
    np.copyto(scores, -np.inf, where=~others)
    best = _largest(scores, k)
    not_beaten = np.count_nonzero(best[users] >= own[:, None], axis=1)
    not_beaten = np.minimum(not_beaten, np.count_nonzero(others, axis=1)[users])  # masked items tie with -inf
    order = np.lexsort((-own, users))
    counts = np.bincount(users, minlength=len(scores))
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranks = not_beaten[order] + place
    found = np.full((len(scores), counts.max(initial=0)), NOWHERE, np.int32)
    found[users, place] = np.where(ranks < k, ranks, BEHIND)
    listed = np.flatnonzero(counts)
    return RelevantRanks(found[listed], listed)


def rank_relevant_items(
    scores: npt.NDArray[np.floating], candidates: Bools, relevant: Bools, k: int
) -> tuple[I32, I64]:
    """Return the ranks and users of :func:`relevant_ranks`, by counting for each hit; to be compiled."""
    counts = np.zeros(len(scores), np.int64)
    for user in range(len(scores)):
        liked, known, count = relevant[user], candidates[user], 0
        for item in range(len(known)):
            count += int(known[item] & liked[item])
        counts[user] = count
    listed = np.flatnonzero(counts)
    found, own = np.full((len(listed), counts.max()), NOWHERE, np.int32), np.empty(counts.max(), scores.dtype)
    for row, listed_user in enumerate(listed):
        given, known, liked = scores[listed_user], candidates[listed_user], relevant[listed_user]
        n_own, rank = 0, -1
        for item in range(len(given)):
            if liked[item] and known[item]:
                own[n_own] = -np.inf if np.isnan(given[item]) else given[item]
                n_own += 1
        own[:n_own].sort()
        for place in range(n_own):
            if rank < k:
                score, rank = own[n_own - 1 - place], place
                for item in range(len(given)):
                    rank += int(known[item] > liked[item]) & int(not given[item] < score)  # NaN is not beaten
            found[row, place] = rank if rank < k else BEHIND
    return found, listed


def _largest(scores: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """Return the `k` largest scores of each row, or all, in any order; the rows are reordered in place."""
    first = max(scores.shape[1] - k, 0)
    if first:
        scores.partition(first, axis=1)
    return scores[:, first:]


def target_ranks(scores: npt.NDArray[np.floating], candidates: Bools, targets: I64) -> I32:
    """Return the rank of each target among the candidates of each user.

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
        0-based ranks; -1 if the target is not a candidate.
    """
    found = np.full((len(scores), len(targets)), NOTHING, np.int32)
    if scores.size >= COMPILED_SCORES:
        jit_cached(rank_targets)(scores, candidates, targets, found)
        return found
    for place, target in enumerate(targets.tolist()):
        open_to = candidates[:, target]
        not_beaten = candidates & ~(scores < scores[:, target, None])  # the target itself is included
        found[open_to, place] = np.count_nonzero(not_beaten[open_to], axis=1) - 1
    return found


def rank_targets(scores: npt.NDArray[np.floating], candidates: Bools, targets: I64, found: I32) -> None:
    """Write the ranks of :func:`target_ranks` for targets that are candidates; to be compiled."""
    for user in range(len(scores)):
        for place, target in enumerate(targets):
            if candidates[user, target]:
                given, known, own, rank = scores[user], candidates[user], scores[user, target], -1
                for item in range(len(given)):
                    rank += known[item] & (not given[item] < own)  # so is the target itself
                found[user, place] = rank


def top_items(scores: npt.NDArray[np.floating], candidates: Bools, k: int) -> I32:
    """Return the `k` candidates with the highest scores of each user; ties go to the lower id.

    Parameters
    ----------
    scores : ndarray, shape (n_users, n_items)
    candidates : ndarray of bool, shape (n_users, n_items)
    k : int

    Returns
    -------
    ndarray of int32, shape (n_users, k)
        Best first; -1 if fewer than `k` candidates have a score.
    """
    known = np.where(candidates & ~np.isnan(scores), scores, -np.inf)
    best = top_k(known, k)
    ended = np.take_along_axis(known, best, axis=1) == -np.inf
    return np.where(ended, NOTHING, best).astype(np.int32)


def top_k_mask(scores: npt.NDArray[np.floating], k: int) -> Bools:
    """Return whether each entry is among the `k` largest of its row, same shape as `scores`; see :func:`top_k`."""
    if k == 0:
        return np.zeros(scores.shape, bool)
    # Negated: past many equal numbers, as of users never met, numpy takes ten times as long.
    negated = -scores
    negated.partition(k - 1, axis=1)
    threshold = -negated[:, k - 1, None]
    chosen = scores >= threshold
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)  # several entries on the threshold
    level = scores[crowded] == threshold[crowded]
    above = chosen[crowded] & ~level
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen[crowded] = above | (level & (np.cumsum(level, axis=1, dtype=np.int32) <= room))
    return chosen


def top_k(scores: npt.NDArray[np.floating], k: int) -> I64:
    """Return the columns of the `k` largest entries of each row, best first.

    Parameters
    ----------
    scores : ndarray, shape (n_rows, n_columns)
        Without NaN.
    k : int
        0 <= k <= n_columns.

    Returns
    -------
    ndarray of int64, shape (n_rows, k)
        The same as the first `k` of a stable descending sort, without sorting the rows.
    """
    columns = np.nonzero(top_k_mask(scores, k))[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1), dtype=np.int64)
