"""The coordinator of FedCL: it keeps the vector that each user uploaded last, and clusters these vectors.

References
----------
The FedCL paper (specification, section 6), which clusters the vectors of a round's 16 users into 25 clusters. Here the
last vectors of all users are kept and clustered: first as soon as there are as many vectors as clusters, then after
as many new ones as there were before, at the latest after as many as there are clients: once per epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.federated.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.federated.user_vectors import vector_dim
from gossiprec.federated.vector_clustering import Method, cluster_vectors
from gossiprec.rules.servers.base import ClientAnswers, Extras, RoundContext


class VectorBank(CoordinatorHook):
    """Store of the vector that each user uploaded last, with their clusters.

    Parameters
    ----------
    known : CoordinatorContext
    number : int
        Number of clusters; with 0 none are made.
    method : {'ward', 'kmeans'}
    answered : int
        Number of items in the answer to a client.
    """

    checkpointed = ("latest", "counts", "centroids", "sizes", "at", "times")

    def __init__(self, known: CoordinatorContext, number: int, method: Method, *, answered: int) -> None:
        shape = known.n_clients, vector_dim(known.layout)
        self._number, self._method = number, method
        self._latest: F32 = np.full(shape, np.nan, np.float32)
        self._counts = np.zeros(known.n_clients, np.int64)
        self._centroids: F32 = np.zeros((0, shape[1]), np.float32)
        self._sizes = np.zeros(0, np.int64)
        self._at = self._times = 0
        self.extra_bytes = self.answer_bytes = 4 * answered
        self.stands_for = frozenset({"centroids"} if number else ())

    @property
    def latest(self) -> F32:
        """The vector that each client uploaded last, NaN if there is none, shape (n_clients, d)."""
        return self._latest

    @property
    def counts(self) -> I64:
        """Number of vectors of each client, shape (n_clients,)."""
        return self._counts

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version, and the centroids that answer a client, if there are clusters."""
        if answers.users is not None:
            sent = np.isfinite(answers.users).all(axis=1)
            for client, vector in zip(answers.clients[sent].tolist(), answers.users[sent], strict=True):
                self._latest[client] = vector  # a client may have answered twice
                self._counts[client] += 1
        if not self._number:
            return version, {}
        if self._is_due():
            self._cluster(round)
        return version, {"centroids": self._centroids}

    def _is_due(self) -> bool:
        if not self._times:
            return int(np.count_nonzero(self._counts)) >= self._number
        return int(self._counts.sum()) - self._at >= min(self._at, len(self._counts))

    def _cluster(self, round: RoundContext) -> None:
        rows = self._latest[self._counts > 0]
        self._centroids, self._sizes = cluster_vectors(
            rows, self._number, self._method, round.generator("clustering")
        )
        self._at, self._times = int(self._counts.sum()), self._times + 1

    def report(self) -> dict[str, Any]:
        """Return the number of clusterings, the sizes of the last clusters, and the number of users in none."""
        clustered = int(self._sizes.sum())
        return {
            "times": self._times,
            "sizes": self._sizes.tolist(),
            "unknown": len(self._counts) - clustered,
        }

    def uploads(self) -> dict[str, Any]:
        """Return the mean and the largest number of vectors that the coordinator received per user."""
        return {"received_mean": float(self._counts.mean()), "received_max": int(self._counts.max())}
