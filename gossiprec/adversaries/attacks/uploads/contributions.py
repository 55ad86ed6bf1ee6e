"""Attacks on contributed items, and on the auxiliary model that the coordinator has trained on them.

The coordinator holds the contributed sets, knows the mechanism that perturbs items and how popular items are, and has
trained the model itself. To rank users it compares their sets with each other, or scores an accomplice's training
items with its model.

References
----------
arXiv:2306.08929 for the communities and their accuracy; the PDC-FRS paper for the mechanism.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.adversaries.attacks.uploads import UPLOAD_ATTACKS, UploadAttack, UploadAttackOptions
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.ragged import Ragged
from gossiprec.federated.pdc_frs.contribution import ReleasedSets
from gossiprec.federated.user_vectors import set_mean_matrix
from gossiprec.measures.communities import Communities, jaccard_communities

BATCH_USERS = 512
"""Number of users of which the scores are processed together."""
LOWEST = np.finfo(np.float32).min
"""The relevance of a user with scores that are not numbers: below all others."""

Scores = Callable[[], Iterable[F32]]
"""A function that yields each user's scores of all items, shape (n_items,), user after user."""


@dataclass(frozen=True)
class VictimBlock:
    """The auxiliary model's scores and relevance of some consecutive users.

    Attributes
    ----------
    users : ndarray of int64, shape (n,)
    scores : ndarray of float32, shape (n, n_items)
        Standardised per user; scores that are all equal are 0.
    relevance : ndarray of float32, shape (n_adversaries, n)
        Mean standardised score of each adversary's targets; -inf for the adversary itself.
    """

    users: I64
    scores: F32
    relevance: F32


@dataclass(frozen=True)
class ContributionGuesses:
    """The coordinator's guesses from contributed sets and from its auxiliary model.

    Attributes
    ----------
    The guess at each user's training items: the user's contribution.
    communities : Communities
        For each user, the users with the most similar contributed sets.
    popularity : ndarray of int64, shape (n_items,)
        The prior of how many users have each item.
    evidence : callable
        Users and items, shape (n,) each -> the evidence that each user has the item, shape (n,).
    victims : callable
        Yields the users block by block, as the auxiliary model scores them.
    """

    sets: Ragged
    communities: Communities
    popularity: I64
    evidence: Callable[[I64, I64], F64]
    victims: Callable[[], Iterator[VictimBlock]]


@UPLOAD_ATTACKS.register("contributions")
class Contributions(UploadAttack):
    """The attack of a coordinator that collects perturbed training items and trains a model on them."""

    section = "contribution"
    options: UploadAttackOptions

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return "contributions-coordinator"

    def observe(self, seen: Observations) -> None:
        """Ignore updates: the attacked data arrived before the first of them."""

    def state(self, now: float) -> dict[str, Any]:
        """Return no state: the coordinator's checkpoint has its model, and contributions are reproduced exactly."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore nothing: the attack has no state."""

    def upload_guesses(self) -> ContributionGuesses:
        """Return the guesses from the sets and from the present auxiliary model."""
        known, size = self.context.knowledge, self.options.community_size
        released, n_items = known.released, len(known.popularity)
        return ContributionGuesses(
            sets=released.sets,
            communities=jaccard_communities(released.sets, n_items=n_items, k=size),
            popularity=known.popularity,
            evidence=functools.partial(membership_evidence, released, known.popularity),
            victims=functools.partial(self._victims, known.scores, n_items),
        )

    def _victims(self, scores: Scores, n_items: int) -> Iterator[VictimBlock]:
        users = np.arange(self.context.n_users)
        feed = self.context.feed_of_nodes(users)
        targets = Ragged.from_parts([feed.positives[user] for user in users.tolist()])
        return victim_blocks(scores, targets, n_items)


def victim_blocks(scores: Scores, targets: Ragged, n_items: int) -> Iterator[VictimBlock]:
    """Yield the users of a model block by block.

    Parameters
    ----------
    scores : callable
    targets : Ragged of int32, one row an adversary
        The items of each user as an adversary, which uses only its own.
    n_items : int
    """
    weights, first = set_mean_matrix(targets, n_items), 0
    for block in _blocks(scores()):
        flat: Bools = (block == block[:, :1]).all(axis=1)  # exactly, or rounding would count as knowledge
        block -= block.mean(axis=1, keepdims=True)
        block /= np.maximum(block.std(axis=1, keepdims=True), 1e-12)
        block[flat] = 0.0
        users = np.arange(first, first + len(block))
        relevance = np.nan_to_num(
            (weights @ block.T).astype(np.float32), nan=float(LOWEST), neginf=float(LOWEST)
        )
        relevance[users, np.arange(len(users))] = -np.inf  # no user is similar to itself
        yield VictimBlock(users, block, relevance)
        first += len(block)


def _blocks(rows: Iterable[F32]) -> Iterator[F32]:
    """Yield rows in blocks."""
    rest = iter(rows)
    while some := list(itertools.islice(rest, BATCH_USERS)):
        yield np.stack(some)


def membership_evidence(released: ReleasedSets, popularity: I64, users: I64, items: I64) -> F64:
    """Return minus the log of the probability that no item of a user's contribution comes from an item, shape (n,).

    If users have items independently, in proportion ``p`` to their popularity, a contributed ``o`` comes from ``i``
    with probability ``p_i prob(i becomes o) / sum_v p_v prob(v becomes o)``. The score grows as the posterior does.
    """
    prior = popularity / popularity.sum()
    known = np.flatnonzero(prior)
    seen = np.zeros(len(prior))
    for part, _, chances in released.mechanism.blocks(known):
        seen += prior[known[part]] @ chances
    requested, which = np.unique(items, return_inverse=True)
    pairs_of = Ragged.from_pairs(which, np.arange(len(items)), len(requested))
    score = np.empty(len(users))
    for part, _, chances in released.mechanism.blocks(requested):
        came = np.divide(
            chances * prior[requested[part], None], seen, out=np.zeros_like(chances), where=seen > 0
        )
        with np.errstate(divide="ignore"):  # infinite evidence: it came from nowhere else
            absent = np.log1p(-np.minimum(came, 1))
        for k, row in zip(range(part.start, part.stop), absent, strict=True):
            for pair in pairs_of[k]:
                score[pair] = -row[released.sets[users[pair]]].sum()
    return score
