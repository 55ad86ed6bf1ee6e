"""FedCL: clients also use semi-hard negatives, which the coordinator finds by their noisy vectors.

References
----------
The FedCL paper (specification, section 6).

Notes
-----
In the paper a client uploads its perturbed vector, is sent semi-hard negatives, and trains. That exchange is
simulated on the client's side: with the version it has the centroids by which the coordinator would answer. The
traffic, item numbers down and the vector up, is counted; the delay of the exchange is not simulated, and no
network can drop it. The vector reaches the coordinator with the update.

The paper clusters the vectors of a round's 16 users into 25 clusters. Here the
last vectors of all users are kept and clustered: first as soon as there are as many vectors as clusters, then after
as many new ones as there were before, at the latest after as many as there are clients: once per epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST
from gossiprec.data.training_data import TrainingData
from gossiprec.federated import RECOMMENDERS, ClientContext, CoordinatorContext, CoordinatorHook
from gossiprec.federated.fed_softmax import NONE, FedSoftmax, FedSoftmaxOptions, mask_known, sample_items
from gossiprec.federated.fedcl.candidates import (
    ClusterCandidates,
    score_by_vector,
    score_by_vectors,
    top_item_ids,
)
from gossiprec.federated.user_vectors import (
    add_laplace_noise,
    clip_l1,
    compute_user_vectors,
    item_table,
    laplace_scale,
    vector_dim,
)
from gossiprec.federated.vector_clustering import (
    MODULES,
    Method,
    cluster_vectors,
    nearest_centroid,
    ward_clusters,
)
from gossiprec.models.base import Layout
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext


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

    def __init__(self, context: CoordinatorContext, number: int, method: Method, *, answered: int) -> None:
        shape = context.n_clients, vector_dim(context.layout)
        self._number, self._method = number, method
        self._latest: F32 = np.full(shape, np.nan, np.float32)
        self._counts = np.zeros(context.n_clients, np.int64)
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
    def vector_counts(self) -> I64:
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

    def upload_report(self) -> dict[str, Any]:
        """Return the mean and the largest number of vectors that the coordinator received per user."""
        return {"received_mean": float(self._counts.mean()), "received_max": int(self._counts.max())}


class FedCLOptions(FedSoftmaxOptions):
    """Options of FedCL."""

    semi_hard: int = Field(default=20, ge=0, le=LARGEST)
    """T, number of semi-hard negatives per local update; 0: ablation without uploads of user vectors"""
    semi_hard_share: float = Field(default=0.25, gt=0, le=1)
    """R: fraction of the items, the best of the cluster, to sample them from"""
    hard: bool = False
    """use the T best items of the cluster instead of sampling them (ablation)"""
    clusters: int = Field(default=25, ge=1, le=LARGEST)
    """number of clusters of the users that have uploaded a vector"""
    clustering: Literal["ward", "kmeans", "none"] = "ward"
    """clustering method; none: the vector of each user is its centroid"""
    clip: float = Field(default=1.0, gt=0)
    """delta, L1 norm to which vectors are scaled down"""
    epsilon: float | None = 4.0
    """privacy budget of each uploaded vector: Laplace noise of scale 2 delta / epsilon on its values; null: no noise
"""
    leaks: int | None = Field(default=None, ge=1, le=LARGEST)
    """community size for which the summary reports what uploaded vectors reveal; null: no such report"""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the clustering imports late."""
        return MODULES if self.clustering == "kmeans" else ()

    @model_validator(mode="after")
    def _noise_is_there(self) -> FedCLOptions:
        if self.epsilon is not None:
            laplace_scale(self.clip, self.epsilon)
        return self


@RECOMMENDERS.register("fedcl")
class FedCL(FedSoftmax):
    """Learning from local negatives and from items that similar users, found by noisy vectors, like best."""

    Options = FedCLOptions
    options: FedCLOptions
    uploads_before_training = True

    def __init__(self, options: Any, model: Any, *, negatives: int, learning_rate: float) -> None:
        super().__init__(options, model, negatives=negatives, learning_rate=learning_rate)
        self._lists = ClusterCandidates()

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse also fewer candidates than semi-hard negatives."""
        super().check(layout, full_batches=full_batches)
        options, number = self.options, self._n_candidates(layout)
        if number < options.semi_hard or options.semi_hard > layout.n_items:
            raise ScenarioError(
                f"recommender.semi_hard_share: found {options.semi_hard_share:g}, which leaves {number} of "
                f"{layout.n_items} items to draw {options.semi_hard} semi-hard negatives from; raise it, or lower "
                "semi_hard"
            )

    def warm_up(self, layout: Layout) -> None:
        """Compile the loops for users' vectors, their clusters and the clusters' best items."""
        clustering, rows = self.options.clustering, np.zeros((2, vector_dim(layout)), np.float32)
        if not self.options.semi_hard:
            return
        users, merged = np.zeros((1, layout.user_width), np.float32), layout.merged
        version = np.zeros(merged.stop - merged.start, np.float32)
        compute_user_vectors(self.model, layout, version, [np.zeros(1, np.int32)], users)
        top_item_ids(rows[0], 1)
        if clustering != "none":
            score_by_vectors(rows, rows)
        if clustering == "ward":
            ward_clusters(rows, 1)

    def initial_contribution(self, split: TrainingData, seed: int) -> None:
        """Refuse communities larger than the number of users; nothing is contributed."""
        leaks = self.options.leaks
        if leaks is not None and leaks >= split.n_users:
            raise ScenarioError(
                f"recommender.leaks: found {leaks}, but there are only {split.n_users - 1} other "
                "users; lower it"
            )

    def user_upload_width(self, layout: Layout) -> int:
        """Return the width of users' vectors, or 0 without semi-hard negatives."""
        return vector_dim(layout) if self.options.semi_hard else 0

    def user_uploads(self, clients: Sequence[ClientContext]) -> F32:
        """Return users' vectors by the version that they were sent, clipped and with noise."""
        first, options = clients[0], self.options
        histories = [client.history for client in clients]
        users = super().user_uploads(clients)
        vectors = compute_user_vectors(
            self.model, first.layout, first.version, histories, users, self.threads
        )
        clipped = clip_l1(vectors, options.clip)
        if options.epsilon is None:
            uploads = clipped.astype(np.float32)
        else:
            draws = [client.draw("told-vector") for client in clients]
            uploads = add_laplace_noise(clipped, laplace_scale(options.clip, options.epsilon), draws)
        self._compute_lists(first, uploads)
        return uploads

    def _compute_lists(self, first: ClientContext, uploads: F32) -> None:
        """Compute the candidates for semi-hard negatives, for all clients together."""
        layout, centroids = first.layout, self._centroids(first)
        if centroids is not None and self.options.clustering != "none":
            clusters = nearest_centroid(uploads, centroids).tolist()
            number = self._n_wanted(layout)
            self._lists.compute(layout, first.version, centroids, clusters, number, self.threads)

    @property
    def user_upload_epsilon(self) -> float | None:
        """The budget of each vector, or None without noise."""
        return self.options.epsilon

    @property
    def _n_negatives(self) -> int:
        return self.options.local_negatives + self.options.semi_hard

    def _semi_hard(self, client: ClientContext, draw: np.random.Generator) -> I32:
        number = self.options.semi_hard
        candidates = self._candidates(client) if client.user_upload is not None else None
        if candidates is None:
            return np.full(number, NONE, np.int32)
        return mask_known(sample_items(candidates, number, draw), client.positives)

    def _candidates(self, client: ClientContext) -> I32 | None:
        """Return the candidates for semi-hard negatives, or None before there are clusters."""
        layout, version, vector = client.layout, client.version, client.user_upload
        assert vector is not None
        number = self._n_wanted(layout)
        if self.options.clustering == "none":
            return top_item_ids(score_by_vector(vector, item_table(layout, version)), number)
        centroids = self._centroids(client)
        if centroids is None:
            return None
        cluster = int(nearest_centroid(vector[None], centroids)[0])
        return self._lists.best_items(layout, version, centroids, cluster, number)

    def _centroids(self, client: ClientContext) -> F32 | None:
        """Return the centroids that a client was sent, or None if there are no clusters yet."""
        found = client.extras.get("centroids")
        return found if found is not None and len(found) else None

    def _n_wanted(self, layout: Layout) -> int:
        """Return the number of a cluster's items to draw from."""
        return self.options.semi_hard if self.options.hard else self._n_candidates(layout)

    def _n_candidates(self, layout: Layout) -> int:
        return int(self.options.semi_hard_share * layout.n_items)

    @property
    def upload_attack(self) -> tuple[str, Mapping[str, Any]] | None:
        """The attack on uploaded vectors, if the option ``leaks`` requests it and vectors are uploaded."""
        size = self.options.leaks
        if size is None or not self.options.semi_hard:
            return None
        return "user-vectors", {"community_size": size, "clip": self.options.clip}

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook | None:
        """Return the coordinator's part, which keeps and clusters uploaded vectors; None if there are none."""
        options = self.options
        if not options.semi_hard:
            return None
        number = 0 if options.clustering == "none" else options.clusters
        if number > context.n_clients:
            raise ScenarioError(
                f"recommender.clusters: found {number}, but there are only {context.n_clients} clients; lower it"
            )
        method: Method = "kmeans" if options.clustering == "kmeans" else "ward"
        return VectorBank(context, number, method, answered=options.semi_hard)

    def report(
        self, split: TrainingData, contribution: Any, hook: CoordinatorHook | None, own: F32
    ) -> dict[str, Any]:
        """Return the clusterings of vectors, and the number of vectors that clients uploaded."""
        if hook is None:
            return {}
        assert isinstance(hook, VectorBank)
        uploads = {"epsilon": self.options.epsilon, "clip": self.options.clip, **hook.upload_report()}
        return {"clusters": hook.report(), "told_vectors": uploads}
