"""Figures of attacks on uploads: their guesses, joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.uploads import (
    HOW,
    ContributionGuesses,
    Found,
    VectorGuesses,
    VictimBlock,
    chance_of_first,
    judge_distances,
    known_users,
    mean,
)
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data.split import Split
from gossiprec.data.training_data import TrainingData
from gossiprec.emulation.scoring.judges import JUDGES, Judge
from gossiprec.federated.user_vectors import clip_l1, compute_user_vectors
from gossiprec.measures.attack_accuracy import (
    Guess,
    accuracies,
    accuracies_from_member_scores,
    guess_top_victims,
    overlap_fractions,
    random_bound,
)
from gossiprec.measures.communities import Communities, jaccard_communities
from gossiprec.models.base import Layout
from gossiprec.models.base.sequence_model import SequenceModel

N_SAMPLED = 20_000
"""Number of training items for which the evidence is computed, each with an item that the user does not have."""


@JUDGES.register("upload-leakage")
class UploadJudge(Judge):
    """The judge of guesses from uploads."""

    def figures(self, found: ContributionGuesses | VectorGuesses) -> dict[str, Any]:
        """Return the figures of the guesses at the end of a run."""
        split = self._truth.split
        if isinstance(found, ContributionGuesses):
            return contribution_leakage(found, split, k=found.communities.k)
        model, data = found.scorer.model, split.training_data(for_feed=True)
        assert isinstance(model, SequenceModel)
        vectors = true_vectors(model, found.scorer.layout, found.version, data, self._truth.own_rows())
        true = clip_l1(vectors, found.options.clip).astype(np.float32)
        return vector_leakage(found, true, split, k=found.options.community_size)


def contribution_leakage(guesses: ContributionGuesses, split: Split, *, k: int) -> dict[str, float]:
    """Return the figures of an attack on contributions, by name.

    The bound of a random guess at communities is K / (n_users - 1). Set sizes are nearly kept, which already gives an
    accuracy above it if users have sets of different sizes.

    Parameters
    ----------
    guesses : ContributionGuesses
    split : Split
        The truth.
    k : int
        Size of communities.
    """
    train, n_items = split.train, split.n_items
    true = jaccard_communities(train, n_items=n_items, k=k)
    model, of_model = score_auxiliary_model(guesses.victims(), train, n_items=n_items, k=k)
    return {
        "cda": float(overlap_fractions(true, guesses.communities).mean()),
        "cda_random": random_bound(k, len(train) - 1),
        **score_membership(guesses, train, n_sampled=N_SAMPLED, seed=0),
        "auxiliary_cda": model,
        "auxiliary_mia_auc": of_model,
    }


def vector_leakage(guesses: VectorGuesses, true: F32, split: Split, *, k: int) -> dict[str, Any]:
    """Return the figures of an attack on uploaded vectors, by rule and by name.

    Parameters
    ----------
    guesses : VectorGuesses
    true : ndarray of float32, shape (n_users, d)
        The true vector of each user, clipped and without noise.
    split : Split
        The truth.
    k : int
        Size of communities.

    Returns
    -------
    dict of str to dict of str to float
        For ``nearest`` and ``likeliest``, and for ``random`` guesses. ``reidentified``: how often, of users who have
        uploaded twice or more, the latest vector finds the one before. ``own_first``: how often the latest vector of a
        user is found by the vector of the user as it is; ``own_rank``: the share of others that comes before it.
        ``cda``: the share of the `k` users most similar to an adversary that its query finds. ``..._of_means``: the
        same among the means of all that each user has uploaded. ``exact``: among the vectors as they are.
    """
    users, latest, means = guesses.adversaries, guesses.latest, guesses.means
    communities = jaccard_communities(split.train, users, n_items=split.n_items, k=k)
    parts = [
        guesses.reidentified,
        true_vector_ranks(true, latest, users),
        suffix_names(true_vector_ranks(true, means, users), "of_means"),
        community_accuracies(guesses.queries, latest, users, communities),
        suffix_names(community_accuracies(guesses.queries, means, users, communities), "of_means"),
    ]
    exact = community_accuracies(guesses.queries, true, users, communities)["nearest"]
    return {how: {key: value for part in parts for key, value in part[how].items()} for how in HOW} | {
        "random": {
            "reidentified": 1 / max(len(known_users(guesses.before)), 1),
            "own_first": 1 / max(len(known_users(latest)), 1),
            "own_rank": 0.5,
            "cda": random_bound(k, split.n_users - 1),
        },
        "exact": exact,
    }


def true_vectors(model: SequenceModel, layout: Layout, version: F32, split: TrainingData, own: F32) -> F32:
    """Return the vector of each user by a version, before clipping and noise, shape (n_users, d).

    Parameters
    ----------
    model : SequenceModel
    layout : Layout
    version : ndarray of float32, shape (n_columns,)
    split : TrainingData
    own : ndarray of float32, shape (n_users, user_width)
        Present rows of users, for models that have them.
    """
    feed = model.make_feed(split)
    histories = [feed.history(user) for user in range(split.n_users)]
    return compute_user_vectors(model, layout, version, histories, own)


def true_vector_ranks(true: F32, uploads: F32, users: I64) -> Found:
    """Return how often a user's vector finds the uploaded one, and the share of others that come before it.

    Parameters
    ----------
    true, uploads : ndarray of float32, shape (n_users, d)
        The latter NaN if nothing was uploaded.
    users : ndarray of int64, shape (n,)
        Users to look for, ascending; those who uploaded nothing are left out.
    """
    uploaders = known_users(uploads)
    users = np.intersect1d(users, uploaders)
    position = np.searchsorted(uploaders, users)

    def before_own(distances: F64, rows: slice) -> F64:
        own = np.take_along_axis(distances, position[rows, None], axis=1)
        ties = (distances == own).sum(axis=1) - 1
        ranks = (distances < own).sum(axis=1) + ties / 2
        return np.stack([chance_of_first(distances, own), ranks], axis=1)

    judged = judge_distances(true[users], uploads[uploaders], before_own)
    others = max(len(uploaders) - 1, 1)
    return {
        how: {"own_first": mean(judged[how][:, 0]), "own_rank": mean(judged[how][:, 1] / others)}
        for how in HOW
    }


def community_accuracies(queries: F32, uploads: F32, users: I64, communities: Communities) -> Found:
    """Return the mean share of communities that is found (CDA).

    Parameters
    ----------
    queries : ndarray of float32, shape (n, d)
        The query of each adversary.
    uploads : ndarray of float32, shape (n_users, d)
        NaN if nothing was uploaded.
    users : ndarray of int64, shape (n,)
        The adversaries.
    communities : Communities
        The communities of these users.
    """

    def judge(distances: F64, rows: slice) -> F64:
        distances[np.arange(len(distances)), users[rows]] = np.nan  # no user is similar to itself
        scores, true = -distances, communities.select_range(rows.start, rows.stop)
        return accuracies(scores, guess_top_victims(scores, true.k), true)

    judged = judge_distances(queries, uploads, judge)
    return {how: {"cda": mean(judged[how])} for how in HOW}


def suffix_names(found: Found, what: str) -> Found:
    """Return the figures under names with a suffix."""
    return {how: {f"{name}_{what}": value for name, value in each.items()} for how, each in found.items()}


def score_membership(
    guesses: ContributionGuesses, train: Ragged, *, n_sampled: int, seed: int
) -> dict[str, float]:
    """Return the accuracy of the guesses at users' items.

    Parameters
    ----------
    guesses : ContributionGuesses
    train : Ragged of int32, one row a user
    n_sampled : int
        Number of training items for which the evidence is computed.
    seed : int

    Returns
    -------
    dict of str to float
        ``mia_precision``, ``mia_recall`` and ``mia_f1`` of the guess that users have the items that they contribute;
        ``mia_auc`` of the posterior that a user has an item: the probability that an item of a user ranks above one
        that the same user does not have; ``mia_auc_popularity``: the same for the number of other users that have each
        item, the AUC of users who contribute nothing.
    """
    sets, popularity = guesses.sets, guesses.popularity
    n_items = len(popularity)
    kept = len(np.intersect1d(_pairs(train, n_items), _pairs(sets, n_items)))
    users, members, others = sampled_pairs(train, n_items, n_sampled, seed)
    of_others = popularity[members] - 1, popularity[others]
    score = guesses.evidence(np.tile(users, 2), np.concatenate([members, others]), np.concatenate(of_others))
    return {
        "mia_precision": kept / len(sets.values),
        "mia_recall": kept / len(train.values),
        "mia_f1": 2 * kept / (len(sets.values) + len(train.values)),
        "mia_auc": paired_auc(score[: len(users)], score[len(users) :]),
        "mia_auc_popularity": paired_auc(*of_others),
    }


def score_auxiliary_model(
    victims: Iterable[VictimBlock], train: Ragged, *, n_items: int, k: int, n_sampled: int = N_SAMPLED
) -> tuple[float, float]:
    """Return the accuracy of guesses by a model that has a row for each user.

    Parameters
    ----------
    victims : iterable of VictimBlock
    train : Ragged of int32, one row a user
    n_items, k : int
        The latter: size of communities.
    n_sampled : int
        As in :func:`score_membership`.

    Returns
    -------
    float
        Mean share of a user's K most similar users among the K guessed; on ties, its expectation over random orders.
        The guess at a user's community is the users with the highest relevance (CDA).
    float
        How often an item of a user has a higher score for the user than one that the user does not have.
    """
    n_users, (users, *sides) = len(train), sampled_pairs(train, n_items, n_sampled, 0)
    found = np.zeros((2, len(users)))
    true, best = jaccard_communities(train, n_items=n_items, k=k), _Best(n_users, k)
    owners, relevance = true.row_of_each_value, np.zeros(len(true.values))
    for block in victims:
        first, last = int(block.users[0]), int(block.users[-1])
        here = np.isin(users, block.users)
        found[:, here] = [block.scores[users[here] - first, items[here]] for items in sides]
        listed = (true.values >= first) & (true.values <= last)
        relevance[listed] = block.relevance[owners[listed], true.values[listed] - first]
        best.add(block.relevance)
    accuracy = accuracies_from_member_scores(relevance, best.guess(), true)
    return float(accuracy.mean()), paired_auc(*found)


class _Best:
    """The k highest scores for each user so far, and the number of others that tie with the lowest of them."""

    def __init__(self, n_users: int, k: int) -> None:
        self._k = k
        self._scores = np.full((n_users, k), -np.inf, np.float32)
        self._left_out = np.zeros(n_users, np.int64)

    def add(self, more: F32) -> None:
        """Add the scores of some more users, shape (n_users, n_more)."""
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
    return np.asarray(sets.row_of_each_value * n_items + sets.values, np.int64)


def sampled_pairs(train: Ragged, n_items: int, number: int, seed: int) -> tuple[I64, I64, I64]:
    """Return users, a random item that each has, and one that it does not have."""
    draw = generator(seed, "contribution-leak")
    chosen = draw.choice(len(train.values), min(number, len(train.values)), replace=False)
    users: I64 = train.row_of_each_value[chosen]
    ranks = draw.integers(n_items - train.sizes[users])
    others = [_not_in(train[user], int(rank)) for user, rank in zip(users, ranks, strict=True)]
    return users, train.values[chosen].astype(np.int64), np.array(others, np.int64)


def _not_in(items: I64, rank: int) -> int:
    """Return the id of this rank among those that are not in ascending `items`."""
    return rank + int(np.searchsorted(items - np.arange(len(items)), rank, side="right"))


def paired_auc(members: F64 | I64, others: F64 | I64) -> float:
    """Return how often an item of a user ranks above the item next to it; ties count half."""
    return float(np.mean(members > others) + np.mean(members == others) / 2)
