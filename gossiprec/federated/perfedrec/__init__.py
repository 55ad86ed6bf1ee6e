"""PerFedRec and PerFedRec++: clusters of clients, a model for each, and a personal mix of models for every client.

References
----------
The PerFedRec++ paper and its published code (specification, section 5): pre-training at the coordinator, K-means of
the users' rows, clients chosen by cluster (``protocol.choose: proportional``), pseudo items, and a personal model of
local, cluster and global one. Without pre-training it is PerFedRec, and without clusters the FedGNN of its tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import registry_name
from gossiprec.data.training_data import TrainingData
from gossiprec.federated import (
    RECOMMENDERS,
    ClientContext,
    CoordinatorContext,
    CoordinatorHook,
    PersonalModels,
    Recommender,
)
from gossiprec.federated.perfedrec.coordinator import ClusterModels, ClusterOptions, PretrainingOptions
from gossiprec.federated.user_vectors import add_pseudo_items
from gossiprec.federated.vector_clustering import MODULES
from gossiprec.models.base import BlockRole, Layout
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers import Extras

if TYPE_CHECKING:
    from collections.abc import Sequence


class FedGNNOptions(Options):
    """Options of the clients' samples and uploads."""

    pseudo_items: float = Field(default=0.1, ge=0, le=1)
    """fraction of a client's pairs with items that it has not taken"""
    pseudo_from: Literal["others", "all"] = "others"
    """source of pseudo items and their negatives; others: items that the user has not taken; all: all items,
    including the items of the user, as in the published code"""
    user_rows: Literal["own", "averaged"] = "own"
    """own: a client keeps its user row, which moves by the whole step; averaged: the coordinator keeps the rows,
    sends each client its own row and aggregates the returned rows like item rows, with the server of the
    protocol, so that a row moves by its client's fraction of the answers (published code)"""
    table_noise: float = Field(default=0.0, ge=0)
    """lambda: to each item value the coordinator adds the mean of one Laplace variable per answer, as in the
    published code; with policy ldp the clients add noise"""


class PerFedRecOptions(FedGNNOptions):
    """Options of PerFedRec."""

    clusters: ClusterOptions = ClusterOptions()
    """of clients"""
    cluster_models: Literal["own", "round", "none"] = "own"
    """own: a cluster's model continues from its previous state, by the deltas of its members; round: it is the mean
    of what its members made of the last version; none: no cluster models, as in the published code"""
    local_share: float = Field(default=1 / 3, ge=0, le=1)
    """weight of the client's own model in its mix"""
    cluster_share: float = Field(default=1 / 3, ge=0, le=1)
    """weight of the cluster model; the rest is the weight of the global model"""
    row_noise: float = Field(default=0.0, ge=0)
    """scale of the Laplace noise on each value of an uploaded user row"""

    @model_validator(mode="after")
    def _whole(self) -> PerFedRecOptions:
        if self.local_share + self.cluster_share > 1.0 + 1e-9:
            raise ValueError(
                f"found local_share {self.local_share:.4g} and cluster_share {self.cluster_share:.4g}, together more "
                "than 1; lower one of them"
            )
        return self


class PerFedRecPlusOptions(PerFedRecOptions):
    """Options of PerFedRec++."""

    pretraining: PretrainingOptions = PretrainingOptions()
    """at the coordinator"""
    pretraining_layers: int = Field(default=2, ge=1, le=LARGEST)
    """L: number of propagation layers of its views"""


@RECOMMENDERS.register("fedgnn")
class FedGNN(Recommender):
    """Learning from the client's own graph with some pseudo items: the FedGNN of PerFedRec++'s tables."""

    Options = FedGNNOptions
    options: FedGNNOptions
    adds_to_loss = False

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse pseudo items if a client learns from single items."""
        if self.options.pseudo_items and "negatives" not in self.model.feed.item_columns:
            raise ScenarioError(
                f"recommender.pseudo_items: found {self.options.pseudo_items}, but "
                f"{registry_name(self.model)} does not learn from pairs that could be replaced; set it to 0, "
                "or choose lightgcn, or mf with loss bpr"
            )
        if self._averages_rows and (
            layout.blocks_of_role(BlockRole.PRIVATE) or not layout.blocks_of_role(BlockRole.USER)
        ):
            raise ScenarioError(
                f"recommender.user_rows: found averaged, but {registry_name(self.model)} has no user rows "
                "that could be sent and averaged; set it to own, or choose lightgcn, or mf with loss bpr"
            )

    @property
    def _averages_rows(self) -> bool:
        return self.options.user_rows == "averaged"

    def user_upload_width(self, layout: Layout) -> int:
        """Return the width of users' rows if the coordinator averages them, or 0."""
        return layout.user_width if self._averages_rows else 0

    def transform_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the pairs with some of them replaced by pseudo items."""
        options, n_items = self.options, client.layout.n_items
        return add_pseudo_items(
            drawn, n_items=n_items, share=options.pseudo_items, draw=draw, positives=client.positives,
            among=options.pseudo_from,
        )  # fmt: skip

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook | None:
        """Return the coordinator's part, which adds noise if the options request it."""
        return self._cluster_models(context, None, models="none")

    def _cluster_models(
        self, context: CoordinatorContext, clusters: ClusterOptions | None, **options: Any
    ) -> ClusterModels:
        noise, averages_rows = self.options.table_noise, self._averages_rows
        return ClusterModels(context, clusters, table_noise=noise, averages_rows=averages_rows, **options)


@RECOMMENDERS.register("perfedrec")
class PerFedRec(FedGNN):
    """FedGNN with clusters of clients, a model for each, and a mix of models for every client."""

    Options = PerFedRecOptions
    options: PerFedRecOptions
    modules = MODULES

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models without users' rows to cluster, or a mix without any models."""
        super().check(layout, full_batches=full_batches)
        if layout.blocks_of_role(BlockRole.PRIVATE):
            raise ScenarioError(
                f"recommender: {registry_name(self.model)} has private weights, which are not part of a "
                "version and cannot be mixed; choose lightgcn, mf, gmf or ncf"
            )
        if not layout.blocks_of_role(BlockRole.USER):
            raise ScenarioError(
                f"recommender: {registry_name(self.model)} has no user rows that could be clustered; choose "
                "lightgcn, mf, gmf or ncf"
            )

    def user_upload_width(self, layout: Layout) -> int:
        """Return the width of users' rows: they are clustered."""
        return layout.user_width

    def user_uploads(self, clients: Sequence[ClientContext]) -> F32:
        """Return the rows with noise."""
        rows, scale = super().user_uploads(clients), self.options.row_noise
        if not scale:
            return rows
        noise = [client.draw("told-row").laplace(0.0, scale, rows.shape[1]) for client in clients]
        return (rows + np.stack(noise)).astype(np.float32)

    def personal_models(self, clients: I64, version: F32, extras: Extras) -> PersonalModels | None:
        """Return the mix of the cluster's and the global model."""
        local, share = self.options.local_share, np.float32(self.options.cluster_share)
        if "cluster_models" not in extras:
            return PersonalModels(version[None], np.zeros(len(clients), np.int64), local) if local else None
        some, of = np.unique(extras["cluster_of"][clients], return_inverse=True)
        models = [
            version if k < 0 else version + share * (extras["cluster_models"][k] - version) for k in some
        ]
        return PersonalModels(np.array(models), of.ravel(), local)

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part, which clusters clients."""
        return self._cluster_models(context, self.options.clusters, models=self.options.cluster_models)

    def report(
        self, split: TrainingData, contribution: Any, hook: CoordinatorHook | None, own: F32
    ) -> dict[str, Any]:
        """Return the interactions revealed for pre-training, and the sizes of the last clusters."""
        assert isinstance(hook, ClusterModels)
        return hook.report()


@RECOMMENDERS.register("perfedrec-pp")
class PerFedRecPlus(PerFedRec):
    """PerFedRec with pre-training."""

    Options = PerFedRecPlusOptions
    options: PerFedRecPlusOptions

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models in which the rows of users and items differ in width."""
        super().check(layout, full_batches=full_batches)
        names = {
            block.name for role in (BlockRole.USER, BlockRole.ITEM) for block in layout.blocks_of_role(role)
        }
        if names != {"users", "items"} or layout.user_width != layout.item_width:
            raise ScenarioError(
                "recommender: pre-training requires one row per user and item, all of the same length, "
                f"which {registry_name(self.model)} does not have; choose lightgcn, mf, gmf or ncf"
            )

    def initial_contribution(self, split: TrainingData, seed: int) -> InteractionGraph | None:
        """Return the graph of all training interactions for pre-training, or None without pre-training."""
        return InteractionGraph.of(split.train, split.n_items) if self.options.pretraining.epochs else None

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part, which pre-trains and clusters."""
        options = self.options
        return self._cluster_models(
            context, options.clusters, models=options.cluster_models, pretraining=options.pretraining,
            layers=options.pretraining_layers,
        )  # fmt: skip
