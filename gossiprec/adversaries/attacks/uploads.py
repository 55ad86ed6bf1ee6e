"""Attacks by the coordinator on clients' uploads to a federated recommender other than updates."""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import UPLOAD_ATTACKS, Attack, AttackContext, ModelScorer, UploadGuesses
from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.federated.pdc_frs.contribution import ReleasedSets
from gossiprec.federated.user_vectors import (
    clip_l1,
    compute_user_vectors,
    item_table,
    set_mean_matrix,
    vector_dim,
)
from gossiprec.measures.communities import Communities, jaccard_communities
from gossiprec.models.base import BlockRole
from gossiprec.models.base.sequence_model import SequenceModel


class UploadAttackOptions(Options):
    """Options of an attack on uploads, which the recommender sets."""

    community_size: int = Field(ge=1, le=LARGEST)
    """K, number of users in a community"""


class UploadAttack(Attack):
    """An attack on uploads: its guesses are joined with the truth once, at the end of the run."""

    Options: ClassVar[type[Options]] = UploadAttackOptions

    @property
    def nodes(self) -> I64:
        """The coordinator, to which all clients upload; every user is its accomplice with its own data only."""
        return np.array([self.context.coordinator])

    @abstractmethod
    def upload_guesses(self) -> UploadGuesses:
        """Return the guesses, without the truth."""


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
class ContributionGuesses(UploadGuesses):
    """The coordinator's guesses from contributed sets and from its auxiliary model.

    Attributes
    ----------
    The guess at each user's training items: the user's contribution.
    communities : Communities
        For each user, the users with the most similar contributed sets.
    popularity : ndarray of int64, shape (n_items,)
        Number of users that have each item, which is public.
    evidence : callable
        Users, items and numbers of other users that have these, shape (n,) each -> the evidence that each user has
        the item, shape (n,).
    victims : callable
        Yields the users block by block, as the auxiliary model scores them.
    """

    section = "contribution"
    sets: Ragged
    communities: Communities
    popularity: I64
    evidence: Callable[[I64, I64, I64], F64]
    victims: Callable[[], Iterator[VictimBlock]]


@UPLOAD_ATTACKS.register("contributions")
class Contributions(UploadAttack):
    """The attack of a coordinator that collects perturbed training items and trains a model on them."""

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


def membership_evidence(
    released: ReleasedSets, popularity: I64, users: I64, items: I64, of_others: I64
) -> F64:
    """Return minus the log of the probability that no item of a user's contribution comes from an item, shape (n,).

    If users have items independently, in proportion ``p`` to their popularity and one, a contributed ``o`` comes from
    ``i`` with probability ``p_i prob(i becomes o) / sum_v p_v prob(v becomes o)``. The score grows as the posterior
    does. The one lets an item occur that no other user has.

    Parameters
    ----------
    released : ReleasedSets
    popularity : ndarray of int64, shape (n_items,)
        Number of users that have each item.
    users, items : ndarray of int64, shape (n,)
    of_others : ndarray of int64, shape (n,)
        Number of other users that have the item. The user itself is no part of ``p_i``, which would reveal it.
    """
    seen = np.zeros(len(popularity))
    for part, _, chances in released.mechanism.blocks(np.arange(len(popularity))):
        seen += (popularity[part] + 1.0) @ chances
    requested, which = np.unique(items, return_inverse=True)
    pairs_of = Ragged.from_pairs(which, np.arange(len(items)), len(requested))
    score = np.empty(len(users))
    for part, _, chances in released.mechanism.blocks(requested):
        came = np.divide(chances, seen, out=np.zeros_like(chances), where=seen > 0)
        for k, row in zip(range(part.start, part.stop), came, strict=True):
            for pair in pairs_of[k]:
                shares = np.minimum(row[released.sets[users[pair]]] * (of_others[pair] + 1.0), 1.0)
                with np.errstate(divide="ignore"):  # infinite evidence: it came from nowhere else
                    score[pair] = -np.log1p(-shares).sum()
    return score


MOST = 1000
"""Number of users that are searched for, drawn by the seed if there are more, among the vectors of all users."""
AT_ONCE = 64
"""Number of users per block, so that distances take little memory."""
HOW = ("nearest", "likeliest")
Found = dict[str, dict[str, float]]

_STATE = ("latest", "before", "total", "counts")
"""Arrays that change during a run."""


class UserVectorOptions(UploadAttackOptions):
    """Options of the attack."""

    clip: float
    """L1 norm to which clients scale their vectors down, which is public."""


@dataclass(frozen=True)
class VectorGuesses(UploadGuesses):
    """The vectors that the coordinator has received, and the queries that it makes with its accomplices.

    Attributes
    ----------
    latest, before, means : ndarray of float32, shape (n_users, d)
        The vector that each user uploaded last and the one before, and the mean of all; NaN if there is none.
    adversaries : ndarray of int64, shape (n,)
        Users, ascending.
    queries : ndarray of float32, shape (n, d)
        The vector of a user with each adversary's training items.
    reidentified : dict of str to dict of str to float
        By rule, how often the latest vector of a user finds the one before. The senders are known.
    scorer : ModelScorer
    version : ndarray of float32, shape (n_columns,)
        The coordinator's version, by which clients compute vectors.
    options : UserVectorOptions
    """

    section = "told_vectors"
    latest: F32
    before: F32
    means: F32
    adversaries: I64
    queries: F32
    reidentified: Found
    scorer: ModelScorer
    version: F32
    options: UserVectorOptions


@UPLOAD_ATTACKS.register("user-vectors")
class UserVectors(UploadAttack):
    """The attack of a coordinator to which clients upload noisy vectors of their users."""

    Options = UserVectorOptions
    options: UserVectorOptions

    def __init__(self, options: UserVectorOptions, context: AttackContext) -> None:
        super().__init__(options, context)
        shape = context.n_users, vector_dim(context.scorer.layout)
        self._latest: F32 = np.full(shape, np.nan, np.float32)
        self._before: F32 = np.full(shape, np.nan, np.float32)
        self._total: F32 = np.zeros(shape, np.float32)
        self._counts = np.zeros(context.n_users, np.int64)

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return "user-vectors-coordinator"

    @property
    def state_bytes(self) -> int:
        """Memory of the vectors."""
        return sum(getattr(self, f"_{name}").nbytes for name in _STATE)

    def state(self, now: float) -> dict[str, Any]:
        """Return the vectors received so far, and their number."""
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the vectors that :meth:`state` returned."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])

    def observe(self, seen: Observations) -> None:
        """Store the vectors that came with updates, in the order of their arrival."""
        uploads, senders = seen.user_uploads(), seen.senders
        came = np.isfinite(uploads).all(axis=1) & (senders < self.context.n_users)  # poisoners have no user
        for sender, vector in zip(senders[came].tolist(), uploads[came], strict=True):
            self._before[sender] = self._latest[sender]
            self._total[sender] += vector
            self._latest[sender] = vector
            self._counts[sender] += 1

    def upload_guesses(self) -> VectorGuesses:
        """Return the received vectors, and the adversaries' queries by the present version."""
        seed = self.context.seed
        with np.errstate(invalid="ignore"):
            means: F32 = (self._total / self._counts[:, None]).astype(np.float32)
        adversaries = sample_users(self.context.n_users, seed)
        rates = reidentification_rates(self._latest, self._before, seed)
        found = means, adversaries, self._queries(adversaries), rates
        of_run = self.context.scorer, self._version, self.options
        return VectorGuesses(self._latest, self._before, *found, *of_run)

    @property
    def _version(self) -> F32:
        return self.context.models_of_nodes(self.nodes)[0, self.context.scorer.layout.merged]

    def _queries(self, adversaries: I64) -> F32:
        layout, model, version = self.context.scorer.layout, self.context.scorer.model, self._version
        feed = self.context.feed_of_nodes(adversaries)
        if layout.blocks_of_role(BlockRole.USER):  # an adversary has no row of another user
            targets = Ragged.from_parts([feed.positives[user] for user in adversaries.tolist()])
            vectors = set_mean_matrix(targets, layout.n_items) @ item_table(layout, version)
        else:
            assert isinstance(model, SequenceModel)
            histories = [feed.history(user) for user in adversaries.tolist()]
            own = np.zeros((len(histories), 0), np.float32)
            vectors = compute_user_vectors(model, layout, version, histories, own)
        return clip_l1(vectors, self.options.clip).astype(np.float32)


def reidentification_rates(latest: F32, before: F32, seed: int) -> Found:
    """Return how often the latest vector of a user finds the one before.

    Parameters
    ----------
    latest, before : ndarray of float32, shape (n_users, d)
        NaN if there is none.
    seed : int
    """
    twice = known_users(before)
    some = sample_users(len(twice), seed)

    def right(distances: F64, rows: slice) -> F64:
        own = np.take_along_axis(distances, some[rows, None], axis=1)
        return chance_of_first(distances, own)

    hits = judge_distances(latest[twice[some]], before[twice], right)
    return {how: {"reidentified": mean(hits[how])} for how in HOW}


def chance_of_first(distances: F64, own: F64) -> F64:
    """Return the probability that each user's own vector is the nearest, ties broken at random, shape (n,)."""
    tied = np.count_nonzero(distances == own, axis=1)
    beaten = (distances < own).any(axis=1)
    found = np.divide(1.0, tied, out=np.zeros(len(tied)), where=(tied > 0) & ~beaten)
    return np.asarray(found, np.float64)


def judge_distances(queries: F32, uploads: F32, judge: Callable[[F64, slice], F64]) -> dict[str, F64]:
    """Return the results of `judge` on the distances of uploaded vectors to queries, by rule.

    Parameters
    ----------
    queries : ndarray of float32, shape (n_queries, d)
    uploads : ndarray of float32, shape (n_uploads, d)
        NaN if there is none.
    judge : callable
        Called with distances, shape (n, n_uploads), which it may change, and the slice of the queries; returns an
        array with a row for each query.
    """
    from scipy.spatial.distance import cdist

    exact = uploads.astype(np.float64)
    known = known_users(uploads)
    apart = np.abs(exact - exact[known].mean(axis=0)).sum(axis=1) if len(known) else 0.0
    none = judge(np.zeros((0, len(uploads))), slice(0, 0))
    found: dict[str, list[F64]] = {how: [none] for how in HOW}
    for low in range(0, len(queries), AT_ONCE):
        rows = slice(low, min(low + AT_ONCE, len(queries)))
        distances = cdist(queries[rows], exact, "cityblock")
        found["likeliest"].append(judge(distances - apart, rows))
        found["nearest"].append(judge(distances, rows))
    return {how: np.concatenate(parts) for how, parts in found.items()}


def known_users(uploads: F32) -> I64:
    """Return the users who have uploaded a vector."""
    return np.flatnonzero(np.isfinite(uploads).all(axis=1))


def mean(values: Any) -> float:
    """Return the mean, NaN if there is no value."""
    return float(np.mean(values)) if len(values) else float("nan")


def sample_users(n: int, seed: int) -> I64:
    """Return up to :data:`MOST` of `n` users, ascending."""
    if n <= MOST:
        return np.arange(n)
    return np.sort(generator(seed, "vector-leaks").choice(n, MOST, replace=False))
