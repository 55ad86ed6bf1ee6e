"""Figures of attacks on uploads: their guesses, joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F32, F64, I64
from gossiprec.attacks.uploads.contributions import ContributionGuesses, VictimBlock
from gossiprec.data.split import Split
from gossiprec.measures.attack_accuracy import Guess, accuracies_of, overlaps, random_bound
from gossiprec.measures.communities import Communities, jaccard_communities
from gossiprec.ragged import Ragged
from gossiprec.rng import generator

N_SAMPLED = 20_000
"""Items of users for which the evidence is computed, each next to an item that the same user does not have."""


@dataclass(frozen=True)
class CommunityLeak:
    """The accuracy of guessed communities.

    Attributes
    ----------
    accuracy : float
        Mean share of a user's K most similar users among the K guessed; on ties, its expectation over random orders.
    random_bound : float
        The accuracy of a random guess, K / (n_users - 1). Sets nearly keep their size, which is enough to find more
        than that if users' sizes differ.
    """

    accuracy: float
    random_bound: float


@dataclass(frozen=True)
class MembershipLeak:
    """The accuracy of guesses at training items.

    Attributes
    ----------
    precision, recall, f1 : float
        Of the guess that users have what they contribute, over all users and items.
    auc : float
        Of the posterior that a user has an item: how often an item of a user ranks above one that the
        same user does not have.
    prior_auc : float
        The same of the items' popularity, which says that much of users who contribute nothing.
    """

    precision: float
    recall: float
    f1: float
    auc: float
    prior_auc: float


def contribution_leakage(guesses: ContributionGuesses, split: Split, *, k: int) -> dict[str, float]:
    """Return the figures of an attack on contributions, by name.

    Parameters
    ----------
    guesses : ContributionGuesses
    split : Split
        The truth.
    k : int
        Size of communities.
    """
    train, n_items = split.train, split.n_items
    sets = score_communities(guesses.communities, train, n_items=n_items, k=k)
    members = score_membership(guesses, train, n_sampled=N_SAMPLED, seed=0)
    model, of_model = score_auxiliary_model(guesses.victims(), train, n_items=n_items, k=k)
    return {
        "cda": sets.accuracy, "cda_random": sets.random_bound, "mia_precision": members.precision,
        "mia_recall": members.recall, "mia_f1": members.f1, "mia_auc": members.auc,
        "mia_auc_popularity": members.prior_auc, "auxiliary_cda": model.accuracy, "auxiliary_mia_auc": of_model,
    }  # fmt: skip


def score_communities(found: Communities, train: Ragged, *, n_items: int, k: int) -> CommunityLeak:
    """Return the accuracy of the communities that were guessed for all users."""
    true = jaccard_communities(train, n_items=n_items, k=k)
    return CommunityLeak(float(overlaps(true, found).mean()), random_bound(k, len(train) - 1))


def score_membership(
    guesses: ContributionGuesses, train: Ragged, *, n_sampled: int, seed: int
) -> MembershipLeak:
    """Return the accuracy of the guesses at who has what.

    Parameters
    ----------
    guesses : ContributionGuesses
    train : Ragged of int32, one row a user
    n_sampled : int
        Number of training items for which the evidence is computed.
    seed : int
    """
    sets, popularity = guesses.sets, guesses.popularity
    n_items = len(popularity)
    kept = len(np.intersect1d(_pairs(train, n_items), _pairs(sets, n_items)))
    users, members, others = sampled_pairs(train, n_items, n_sampled, seed)
    score = guesses.evidence(np.tile(users, 2), np.concatenate([members, others]))
    return MembershipLeak(
        precision=kept / len(sets.values),
        recall=kept / len(train.values),
        f1=2 * kept / (len(sets.values) + len(train.values)),
        auc=paired_auc(score[: len(users)], score[len(users) :]),
        prior_auc=paired_auc(popularity[members], popularity[others]),
    )


def score_auxiliary_model(
    victims: Iterable[VictimBlock], train: Ragged, *, n_items: int, k: int, n_sampled: int = N_SAMPLED
) -> tuple[CommunityLeak, float]:
    """Return the accuracy of what a model says that has a row for each user.

    Parameters
    ----------
    victims : iterable of VictimBlock
    train : Ragged of int32, one row a user
    n_items, k : int
        The latter: size of communities.
    n_sampled : int
        As of :func:`score_membership`.

    Returns
    -------
    CommunityLeak
        The guess at a user's community is the users with the highest relevance (CDA).
    float
        How often an item of a user has a higher score for the user than one that the user does not have.
    """
    n_users, (users, *sides) = len(train), sampled_pairs(train, n_items, n_sampled, 0)
    found = np.zeros((2, len(users)))
    true, best = jaccard_communities(train, n_items=n_items, k=k), _Best(n_users, k)
    owners, relevance = true.owners, np.zeros(len(true.values))
    for block in victims:
        first, last = int(block.users[0]), int(block.users[-1])
        here = np.isin(users, block.users)
        found[:, here] = [block.scores[users[here] - first, items[here]] for items in sides]
        listed = (true.values >= first) & (true.values <= last)
        relevance[listed] = block.relevance[owners[listed], true.values[listed] - first]
        best.add(block.relevance)
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


def _pairs(sets: Ragged, n_items: int) -> I64:
    return np.asarray(sets.owners * n_items + sets.values, np.int64)


def sampled_pairs(train: Ragged, n_items: int, number: int, seed: int) -> tuple[I64, I64, I64]:
    """Return users, one of the items that each has, and one that it does not have, at random."""
    draw = generator(seed, "contribution-leak")
    chosen = draw.choice(len(train.values), min(number, len(train.values)), replace=False)
    users: I64 = train.owners[chosen]
    ranks = draw.integers(n_items - train.sizes[users])
    others = [_not_in(train[user], int(rank)) for user, rank in zip(users, ranks, strict=True)]
    return users, train.values[chosen].astype(np.int64), np.array(others, np.int64)


def _not_in(items: I64, rank: int) -> int:
    """Return the id of this rank among those that are not in ascending `items`."""
    return rank + int(np.searchsorted(items - np.arange(len(items)), rank, side="right"))


def paired_auc(members: F64 | I64, others: F64 | I64) -> float:
    """Return how often an item of a user ranks above the one next to it; ties count half."""
    return float(np.mean(members > others) + np.mean(members == others) / 2)
