"""What the coordinator learns of users from the model that it has trained on what they contributed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gossiprec.arrays import F32
from gossiprec.measures.attack_accuracy import Guess, accuracies_of, random_bound
from gossiprec.measures.communities import jaccard_communities
from gossiprec.ragged import Ragged
from gossiprec.recommenders.contribution import Contribution
from gossiprec.recommenders.contribution_leaks import (
    CommunityLeak,
    measure_community_leakage,
    measure_membership_leakage,
    paired_auc,
    sampled_pairs,
)

AT_ONCE = 512
"""Users whose scores are looked at together."""
LOWEST = np.finfo(np.float32).min
"""The relevance of a user whose scores are not numbers: below all others."""

Scores = Callable[[], Iterable[F32]]
"""Gives each user's scores of all items, shape (n_items,), user after user."""


def measure_auxiliary_leakage(
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
    sets = measure_community_leakage(train, contribution, n_items=n_items, k=k)
    popularity = np.bincount(train.values, minlength=n_items)
    members = measure_membership_leakage(train, contribution, popularity=popularity, seed=0)
    model, of_model = attack_auxiliary_model(train, scores, n_items=n_items, k=k)
    return {
        "cda": sets.accuracy, "cda_random": sets.random_bound, "mia_precision": members.precision,
        "mia_recall": members.recall, "mia_f1": members.f1, "mia_auc": members.auc,
        "mia_auc_popularity": members.prior_auc, "auxiliary_cda": model.accuracy, "auxiliary_mia_auc": of_model,
    }  # fmt: skip


def attack_auxiliary_model(
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
        As of :func:`gossiprec.recommenders.contribution_leaks.measure_membership_leakage`.

    Returns
    -------
    CommunityLeak
        For each user's likes are taken those whose standardised scores of the user's items have the highest mean (CDA);
        scores that are all equal are 0.
    float
        How often an item of a user has a higher score for the user than one that is none.
    """
    n_users = len(train)
    weights, (users, *sides) = set_mean_matrix(train, n_items), sampled_pairs(train, n_items, n_sampled, 0)
    found = np.zeros((2, len(users)))
    true, best = jaccard_communities(train, n_items=n_items, k=k), _Best(n_users, k)
    owners, relevance = true.owners, np.zeros(len(true.values))
    first = 0
    for block in _blocks(scores()):
        flat = (block == block[:, :1]).all(axis=1)  # exactly, lest rounding is taken for knowledge
        block -= block.mean(axis=1, keepdims=True)
        block /= np.maximum(block.std(axis=1, keepdims=True), 1e-12)
        block[flat] = 0.0
        own = np.arange(first, first + len(block))
        here = np.isin(users, own)
        found[:, here] = [block[users[here] - first, items[here]] for items in sides]
        more = np.nan_to_num((weights @ block.T).astype(np.float32), nan=float(LOWEST), neginf=float(LOWEST))
        more[own, np.arange(len(own))] = -np.inf  # nobody's like is the user itself
        listed = (true.values >= first) & (true.values < first + len(block))
        relevance[listed] = more[owners[listed], true.values[listed] - first]
        best.add(more)
        first += len(block)
    accuracy = accuracies_of(relevance, best.guess(), true)
    return CommunityLeak(float(accuracy.mean()), random_bound(k, n_users - 1)), paired_auc(*found)


class _Best:
    """The k highest scores that each user has given so far, and how many more tie with the lowest of them."""

    def __init__(self, n_users: int, k: int) -> None:
        self._k = k
        self._scores = np.full((n_users, k), -np.inf, np.float32)
        self._left_out = np.zeros(n_users, np.int64)

    def add(self, more: F32) -> None:
        """Take in the scores of some more users, shape (n_users, n_more)."""
        before = self._scores.min(axis=1)
        both = np.concatenate([self._scores, more], axis=1)
        self._scores = -np.partition(-both, self._k - 1, axis=1)[:, : self._k]
        border = self._scores.min(axis=1)
        at_border = [np.count_nonzero(part == border[:, None], axis=1) for part in (both, self._scores)]
        self._left_out = at_border[0] - at_border[1] + np.where(border == before, self._left_out, 0)

    def guess(self) -> Guess:
        """Return the k best of each user, ties by their probability."""
        border = self._scores.min(axis=1)
        better = np.count_nonzero(self._scores > border[:, None], axis=1)
        room = self._k - better
        return Guess(border, room / (room + self._left_out), np.full(len(border), self._k))


def _blocks(rows: Iterable[F32]) -> Iterator[F32]:
    """Yield rows some at a time."""
    rest = iter(rows)
    while some := list(itertools.islice(rest, AT_ONCE)):
        yield np.stack(some)


def set_mean_matrix(sets: Ragged, n_items: int) -> Any:
    """Return the matrix that turns values of items into the mean over each set, sparse, shape (n_sets, n_items)."""
    from scipy import sparse

    share = np.repeat(1.0 / np.maximum(sets.sizes, 1), sets.sizes).astype(np.float32)
    return sparse.csr_array((share, sets.values, sets.offsets), shape=(len(sets), n_items))
