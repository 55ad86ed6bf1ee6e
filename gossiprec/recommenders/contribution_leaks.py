"""What the coordinator learns of users from what they contribute: who is alike, and who has what.

Both attacks see the contributed sets, and know the mechanism and how popular items are; they are joined here with the
truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.measures.attack_accuracy import overlaps, random_bound
from gossiprec.measures.communities import jaccard_communities
from gossiprec.ragged import Ragged
from gossiprec.recommenders.contribution import Contribution
from gossiprec.rng import generator


@dataclass(frozen=True)
class CommunityLeak:
    """How well the most similar contributed sets tell who is alike.

    Attributes
    ----------
    accuracy : float
        Mean share of a user's K true likes among the K found; where sets tie, its expectation over random orders.
    random_bound : float
        Of a guess, K / (n_users - 1). Sets keep nearly their size, which alone finds more where users differ in it.
    """

    accuracy: float
    random_bound: float


@dataclass(frozen=True)
class MembershipLeak:
    """How well contributed sets tell who has what.

    Attributes
    ----------
    precision, recall, f1 : float
        Of the guess that users have what they contribute, over all users and items.
    auc : float
        Of the posterior that a user has an item: how often an item of a user ranks above one that the
        same user has not.
    prior_auc : float
        The same of the items' popularity alone, which tells that much of users who contribute nothing.
    """

    precision: float
    recall: float
    f1: float
    auc: float
    prior_auc: float


def measure_community_leakage(
    train: Ragged, contribution: Contribution, *, n_items: int, k: int
) -> CommunityLeak:
    """Take for each user's likes those with the most similar contributed sets (Jaccard).

    Parameters
    ----------
    train : Ragged of int32, one row a user
    contribution : Contribution
    n_items : int
    k : int
        Community size, at most n_users - 1.

    Raises
    ------
    ScenarioError
        If there are not so many others.

    References
    ----------
    arXiv:2306.08929 for the truth and the accuracy.
    """
    true, found = (jaccard_communities(sets, n_items=n_items, k=k) for sets in (train, contribution.sets))
    return CommunityLeak(float(overlaps(true, found).mean()), random_bound(k, len(train) - 1))


def measure_membership_leakage(
    train: Ragged, contribution: Contribution, *, popularity: I64, n_sampled: int = 20_000, seed: int
) -> MembershipLeak:
    """Guess who has what, by what was contributed and by the posterior.

    Parameters
    ----------
    train : Ragged of int32, one row a user
    contribution : Contribution
    popularity : ndarray of int64, shape (n_items,)
        How many users have each item: the coordinator's prior, which the papers count as public.
    n_sampled : int
        How many items of users the posterior is asked for, each beside an item that the same user does not have.
    seed : int
    """
    n_items = len(popularity)
    kept = len(np.intersect1d(_pairs(train, n_items), _pairs(contribution.sets, n_items)))
    users, members, others = sampled_pairs(train, n_items, n_sampled, seed)
    score = _evidence(contribution, popularity, np.tile(users, 2), np.concatenate([members, others]))
    return MembershipLeak(
        precision=kept / len(contribution.sets.values),
        recall=kept / len(train.values),
        f1=2 * kept / (len(contribution.sets.values) + len(train.values)),
        auc=paired_auc(score[: len(users)], score[len(users) :]),
        prior_auc=paired_auc(popularity[members], popularity[others]),
    )


def _pairs(sets: Ragged, n_items: int) -> I64:
    return np.asarray(sets.owners * n_items + sets.values, np.int64)


def sampled_pairs(train: Ragged, n_items: int, number: int, seed: int) -> tuple[I64, I64, I64]:
    """Return users, one of the items that each has, and one that it has not, at random."""
    draw = generator(seed, "contribution-leak")
    chosen = draw.choice(len(train.values), min(number, len(train.values)), replace=False)
    users: I64 = train.owners[chosen]
    ranks = draw.integers(n_items - train.sizes[users])
    others = [_not_in(train[user], int(rank)) for user, rank in zip(users, ranks, strict=True)]
    return users, train.values[chosen].astype(np.int64), np.array(others, np.int64)


def _not_in(items: I64, rank: int) -> int:
    """Return the id of this rank among those that are not in ascending `items`."""
    return rank + int(np.searchsorted(items - np.arange(len(items)), rank, side="right"))


def _evidence(contribution: Contribution, popularity: I64, users: I64, items: I64) -> F64:
    """Return minus the log of the probability that none of what a user contributed comes from an item, shape (n,).

    If users have items independently, in proportion ``p`` to their popularity, a contributed ``o`` comes from ``i``
    with probability ``p_i prob(i becomes o) / sum_v p_v prob(v becomes o)``. The score grows as the posterior does.
    """
    prior = popularity / popularity.sum()
    known = np.flatnonzero(prior)
    seen = np.zeros(len(prior))
    for part, _, chances in contribution.mechanism.blocks(known):
        seen += prior[known[part]] @ chances
    asked, which = np.unique(items, return_inverse=True)
    pairs_of = Ragged.from_pairs(which, np.arange(len(items)), len(asked))
    score = np.empty(len(users))
    for part, _, chances in contribution.mechanism.blocks(asked):
        came = np.divide(chances * prior[asked[part], None], seen, out=np.zeros_like(chances), where=seen > 0)
        with np.errstate(divide="ignore"):  # infinite evidence: it came from nowhere else
            absent = np.log1p(-np.minimum(came, 1))
        for k, row in zip(range(part.start, part.stop), absent, strict=True):
            for pair in pairs_of[k]:
                score[pair] = -row[contribution.sets[users[pair]]].sum()
    return score


def paired_auc(members: F64 | I64, others: F64 | I64) -> float:
    """Return how often an item of a user ranks above the one beside it, ties counted half."""
    return float(np.mean(members > others) + np.mean(members == others) / 2)
