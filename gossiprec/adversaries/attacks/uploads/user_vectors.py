"""Attacks on noisy vectors that clients upload about their users: re-identification and similar users.

The coordinator searches the uploaded vectors for a given vector by two rules. ``nearest`` takes the one with the
smallest L1 distance. ``likeliest`` subtracts from this distance the distance to the mean of all uploaded vectors. Under
Laplace noise the difference is, up to a factor, the logarithm of how much likelier an uploaded vector is for the given
user than for an average one. If noise is larger than the difference between users, this rule finds far more, because
the distance of a vector to any other is then mostly its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import AttackContext
from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.adversaries.attacks.uploads import UPLOAD_ATTACKS, UploadAttack, UploadAttackOptions
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.federated.user_vectors import (
    clip_l1,
    compute_user_vectors,
    item_table,
    set_mean_matrix,
    vector_dim,
)
from gossiprec.models.base import BlockRole
from gossiprec.models.base.sequence_model import SequenceModel

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
class VectorGuesses:
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
    """

    latest: F32
    before: F32
    means: F32
    adversaries: I64
    queries: F32
    reidentified: Found


@UPLOAD_ATTACKS.register("user-vectors")
class UserVectors(UploadAttack):
    """The attack of a coordinator to which clients upload noisy vectors of their users."""

    section = "told_vectors"
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
        return VectorGuesses(
            self._latest, self._before, means, adversaries, self._queries(adversaries),
            reidentification_rates(self._latest, self._before, seed),
        )  # fmt: skip

    def _queries(self, adversaries: I64) -> F32:
        layout, model = self.context.scorer.layout, self.context.scorer.model
        version = self.context.models_of_nodes(self.nodes)[0, layout.merged]
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
