"""What the coordinator learns of users from the model that it has trained on what they contributed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gossiprec.arrays import F32, F64, I64
from gossiprec.measures.attack import random_bound
from gossiprec.measures.communities import jaccard_communities
from gossiprec.ragged import Ragged
from gossiprec.recommenders.contribution import Contribution
from gossiprec.recommenders.contribution_leaks import (
    CommunityLeak,
    auc,
    community_leak,
    membership_leak,
    pair_numbers,
    sampled_pairs,
)

AT_ONCE = 512
"""Users whose scores are looked at together."""

Scores = Callable[[], Iterable[F32]]
"""Gives each user's scores of all items, shape (n_items,), user after user."""


def leaks_of(
    train: Ragged, contribution: Contribution, scores: Scores, *, n_items: int, k: int
) -> dict[str, float]:
    """Return by name what contributed sets give away, and what the model does that was trained on them.

    Parameters
    ----------
    train : Ragged of int32, one row a user
    contribution : Contribution
    scores : callable
        Of the model.
    n_items, k : int
        The latter: size of communities.
    """
    sets = community_leak(train, contribution, n_items=n_items, k=k)
    popularity = np.bincount(train.values, minlength=n_items)
    members = membership_leak(train, contribution, popularity=popularity, seed=0)
    model, of_model = auxiliary_leak(train, scores, n_items=n_items, k=k)
    return {
        "cda": sets.accuracy, "cda_random": sets.random_bound, "mia_precision": members.precision,
        "mia_recall": members.recall, "mia_f1": members.f1, "mia_auc": members.auc,
        "mia_auc_popularity": members.prior_auc, "auxiliary_cda": model.accuracy, "auxiliary_mia_auc": of_model,
    }  # fmt: skip


def auxiliary_leak(
    train: Ragged, scores: Scores, *, n_items: int, k: int, n_sampled: int = 20_000
) -> tuple[CommunityLeak, float]:
    """Attack a model that has a row for each user.

    Parameters
    ----------
    train : Ragged of int32, one row a user
    scores : callable
    n_items, k : int
        The latter: size of communities.
    n_sampled : int
        As of :func:`gossiprec.recommenders.contribution_leaks.membership_leak`.

    Returns
    -------
    CommunityLeak
        For each user's likes are taken those whose standardised scores of the user's items have the highest mean (CDA).
    float
        How often an item of a user has a higher score for the user than one that is none.
    """
    n_users = len(train)
    weights, (users, *sides) = mean_over(train, n_items), sampled_pairs(train, n_items, n_sampled, 0)
    found = np.zeros((2, len(users)))
    relevance, who = np.zeros((n_users, 0), np.float32), np.zeros((n_users, 0), np.int64)
    first = 0
    for block in _blocks(scores()):
        block -= block.mean(axis=1, keepdims=True)
        block /= np.maximum(block.std(axis=1, keepdims=True), 1e-12)
        own = np.arange(first, first + len(block))
        here = np.isin(users, own)
        found[:, here] = [block[users[here] - first, items[here]] for items in sides]
        relevance, who = _best(relevance, who, weights @ block.T, own, k)
        first += len(block)
    true = jaccard_communities(train, n_items=n_items, k=k)
    hits = np.isin(pair_numbers(true), pair_numbers(who))
    return CommunityLeak(float(hits.mean()), random_bound(k, n_users - 1)), auc(*found)


def _best(relevance: F32, who: I64, more: F64, own: I64, k: int) -> tuple[F32, I64]:
    """Return the k most relevant of each user so far, of equals the first: of those known, and of some more users."""
    more[own, np.arange(len(own))] = -np.inf  # nobody's like is the user itself
    relevance = np.concatenate([relevance, more.astype(np.float32)], axis=1)
    who = np.concatenate([who, np.broadcast_to(own, more.shape)], axis=1)
    order = np.argsort(-relevance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(relevance, order, axis=1), np.take_along_axis(who, order, axis=1)


def _blocks(rows: Iterable[F32]) -> Iterator[F32]:
    """Yield rows some at a time."""
    rest = iter(rows)
    while some := list(itertools.islice(rest, AT_ONCE)):
        yield np.stack(some)


def mean_over(sets: Ragged, n_items: int) -> Any:
    """Return the matrix that turns values of items into the mean over each set, sparse, shape (n_sets, n_items)."""
    from scipy import sparse

    share = np.repeat(1.0 / np.maximum(sets.sizes, 1), sets.sizes).astype(np.float32)
    return sparse.csr_array((share, sets.values, sets.offsets), shape=(len(sets), n_items))
