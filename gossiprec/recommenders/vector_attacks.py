"""Attacks on noisy vectors that users tell: whose one is, and who is alike.

Each has a vector in mind and asks which of the told ones comes from it: that which lies ``nearest`` to it in L1 norm,
or that which is ``likeliest`` of it, by the distance less that to the mean of all told vectors. Under Laplace noise
this is, but for a factor, the logarithm of how much likelier a told vector is of a user just like the mean. Where noise
is larger than what users differ by it tells far more: how far a vector lies from any other is then its noise's doing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gossiprec.arrays import F32, F64, I64
from gossiprec.measures.attack_accuracy import accuracies, guess
from gossiprec.measures.communities import Communities
from gossiprec.rng import generator

MOST = 1000
"""Users whose vectors are looked for, drawn if there are more: among those of all."""
AT_ONCE = 64
"""Of these, so that distances take little memory."""
HOW = ("nearest", "likeliest")
Found = dict[str, dict[str, float]]


def reidentification_rates(latest: F32, before: F32, seed: int) -> Found:
    """Return how often what a user told before is found by what the same user told last.

    Parameters
    ----------
    latest, before : ndarray of float32, shape (n_users, d)
        NaN where nothing was told.
    seed : int
    """
    twice = known_users(before)
    some = sample_users(len(twice), seed)

    def right(distances: F64, rows: slice) -> F64:
        own = np.take_along_axis(distances, some[rows, None], axis=1)
        return _chance_of_first(distances, own)

    hits = _by_both(latest[twice[some]], before[twice], right)
    return {how: {"reidentified": _mean(hits[how])} for how in HOW}


def true_vector_ranks(true: F32, told: F32, users: I64) -> Found:
    """Return how often what a user told is found by the user's vector, and which share of others comes before it.

    Parameters
    ----------
    true, told : ndarray of float32, shape (n_users, d)
        The latter NaN where nothing was told.
    users : ndarray of int64, shape (n,)
        Whose is looked for, ascending; those who told nothing are left out.
    """
    heard = known_users(told)
    users = np.intersect1d(users, heard)
    place = np.searchsorted(heard, users)

    def before_own(distances: F64, rows: slice) -> F64:
        own = np.take_along_axis(distances, place[rows, None], axis=1)
        ties = (distances == own).sum(axis=1) - 1
        ranks = (distances < own).sum(axis=1) + ties / 2
        return np.stack([_chance_of_first(distances, own), ranks], axis=1)

    found = _by_both(true[users], told[heard], before_own)
    others = max(len(heard) - 1, 1)
    return {
        how: {"own_first": _mean(found[how][:, 0]), "own_rank": _mean(found[how][:, 1] / others)}
        for how in HOW
    }


def _chance_of_first(distances: F64, own: F64) -> F64:
    """Return the probability that each one's own vector is the nearest, ties broken at random, shape (n,)."""
    tied = np.count_nonzero(distances == own, axis=1)
    beaten = (distances < own).any(axis=1)
    found = np.divide(1.0, tied, out=np.zeros(len(tied)), where=(tied > 0) & ~beaten)
    return np.asarray(found, np.float64)


def community_accuracies(fictive: F32, told: F32, users: I64, communities: Communities) -> Found:
    """Return the mean share of communities that is found (CDA).

    Parameters
    ----------
    fictive, told : ndarray of float32, shape (n_users, d)
        Made of each user's items; and NaN where nothing was told.
    users : ndarray of int64, shape (n,)
    communities : Communities
        Of these users.
    """

    def judge(distances: F64, rows: slice) -> F64:
        distances[np.arange(len(distances)), users[rows]] = np.nan  # nobody's like is the user itself
        scores, true = -distances, communities.between(rows.start, rows.stop)
        return accuracies(scores, guess(scores, true.k), true)

    found = _by_both(fictive[users], told, judge)
    return {how: {"cda": _mean(found[how])} for how in HOW}


def _by_both(asked: F32, told: F32, judge: Callable[[F64, slice], F64]) -> dict[str, F64]:
    """Return what is found of distances of told vectors to those asked for, some at a time: as they are, and corrected.

    Parameters
    ----------
    asked : ndarray of float32, shape (n_asked, d)
    told : ndarray of float32, shape (n_told, d)
        NaN where nothing was told.
    judge : callable
        Of distances, shape (n, n_told), which are its own, and of which of those asked for they are; returns an array
        whose rows belong to these.
    """
    from scipy.spatial.distance import cdist

    exact = told.astype(np.float64)
    apart = (
        np.abs(exact - exact[known_users(told)].mean(axis=0)).sum(axis=1) if len(known_users(told)) else 0.0
    )
    none = judge(np.zeros((0, len(told))), slice(0, 0))
    found: dict[str, list[F64]] = {how: [none] for how in HOW}
    for low in range(0, len(asked), AT_ONCE):
        rows = slice(low, min(low + AT_ONCE, len(asked)))
        distances = cdist(asked[rows], exact, "cityblock")
        found["likeliest"].append(judge(distances - apart, rows))
        found["nearest"].append(judge(distances, rows))
    return {how: np.concatenate(parts) for how, parts in found.items()}


def suffix_names(found: Found, what: str) -> Found:
    """Return what was found under names that say of what."""
    return {how: {f"{name}_{what}": value for name, value in each.items()} for how, each in found.items()}


def known_users(told: F32) -> I64:
    """Return who has told something."""
    return np.flatnonzero(np.isfinite(told).all(axis=1))


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def sample_users(n: int, seed: int) -> I64:
    """Return at most :data:`MOST` of some users, ascending."""
    if n <= MOST:
        return np.arange(n)
    return np.sort(generator(seed, "vector-leaks").choice(n, MOST, replace=False))
