"""Whole models: each node holds a model of its own, trains it, and sends versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.modes import MODES, MemoryInputs, RunMode, StoreMemory, TrainingOutline, require_kernels

if TYPE_CHECKING:
    from gossiprec.base.arrays import I64
    from gossiprec.compute.executors import Executor
    from gossiprec.emulation.assembly.components import RunComponents

SPARE_BYTES = 128 * 2**20
"""Bytes for waiting versions; with less than one spare row per four nodes, merging early costs too much."""
FEW_PRIVATE_EPOCHS = 300
"""The limit ``few_epochs`` of a mode under DP-SGD, for which the reference takes one sample after another."""


@MODES.register("whole-models")
class WholeModels(RunMode):
    """The mode in which each node holds its own model."""

    title = "whole models"
    nodes_hold_models = True

    def has_interaction_graph(self, model: type) -> bool:
        """Return False: a node has its own interactions only."""
        return False

    def training_executor(self, outline: TrainingOutline) -> str:
        """Return the name of the executor that trains and scores."""
        from gossiprec.compute.executors import EXECUTORS
        from gossiprec.compute.local_update import TrainingMode

        executor, settings = outline.scenario.executor, outline.settings
        if executor.portable:
            require_kernels(self.uncompiled_part(outline) or EXECUTORS["fused"].missing_scores(outline.model))
            return "fused"
        if executor.computing_executor != "auto":
            return executor.computing_executor
        if executor.device == "cuda":
            return "batched"
        private = (settings.training_modes == TrainingMode.PRIVATE).any()
        if outline.epochs < (FEW_PRIVATE_EPOCHS if private else self.few_epochs):
            return "reference"
        return "fused" if self.uncompiled_part(outline) is None else "batched"

    def uncompiled_part(self, outline: TrainingOutline) -> str | None:
        """Return the part of the training without kernels, or None."""
        from gossiprec.compute.executors import EXECUTORS

        kind, storage = EXECUTORS["fused"], outline.scenario.executor.storage
        return kind.missing_feature(
            outline.model, outline.training, storage, outline.settings, outline.layout
        )

    def make_executor(
        self, components: RunComponents, outline: TrainingOutline, *, divided: bool
    ) -> Executor:
        """Return a reference, batched or fused executor on an arena with a row for every node."""
        from gossiprec.compute.executors import EXECUTORS, ExecutorContext

        scenario, layout, training = components.scenario, components.layout, components.training
        device = scenario.executor.device
        kind = EXECUTORS[self.training_executor(outline)]
        arena = kind.make_arena(
            layout,
            n_nodes=components.protocol.n_nodes,
            moments=training.optimizer == "adam",
            storage=scenario.executor.storage,
            divided=divided,
            device=device,
        )
        candidates = components.validation_candidates()
        work = ExecutorContext(
            components.model, layout, training, components.feed, arena, scenario.seed, outline.settings, candidates
        )  # fmt: skip
        return kind(work, device)

    def memory(self, inputs: MemoryInputs) -> StoreMemory:
        """Return the memory of all nodes' models, of waiting versions, and of optimizer state."""
        n_nodes, row_bytes = inputs.protocol.n_nodes, inputs.row_bytes
        # two spare rows per node, fewer if rows are large
        spare = min(2 * n_nodes, max(n_nodes // 4, SPARE_BYTES // row_bytes))
        moments = 2 * n_nodes * 4 * inputs.layout.row_size if inputs.has_moments else 0
        needed = {"parameters": n_nodes * row_bytes, "versions in waiting": spare * row_bytes}
        needed["moments"] = moments
        waiting = inputs.waiting + 2 * (inputs.n_versions - 1)
        rewritten = 2 * inputs.n_rewritten  # the last push of each, and the version that it was trained from
        first = n_nodes if inputs.scenario.churn.model == "reset" else 0
        more = {"inboxes": waiting, "rewritten messages": rewritten, "first versions": first}
        needed |= {part: rows * row_bytes for part, rows in more.items() if rows}
        shards = inputs.scenario.executor.shards
        sizes = {part: size // shards for part, size in needed.items()}
        return StoreMemory(sizes, spare + waiting + rewritten)

    def write_first_models(
        self, components: RunComponents, executor: Executor, nodes: I64 | None = None
    ) -> None:
        """Write a row for each node, or two if first versions are kept because nodes may lose their model."""
        protocol, seed, arena = components.protocol, components.scenario.seed, executor.work.arena
        n_users, n_nodes = len(components.feed.positives), protocol.n_nodes
        own = np.arange(n_nodes) if nodes is None else nodes
        servers = own[own >= n_users]
        filled = np.union1d(own, 0) if len(servers) else own  # nodes without a user begin as the first user
        components.model.fill_rows(
            arena.rows[:n_users],
            components.layout,
            seed,
            common_start=protocol.common_start,
            nodes=filled[filled < n_users],
        )
        arena.rows[servers] = arena.rows[0]
        if components.scenario.churn.model == "reset":
            arena.rows[n_nodes + own] = arena.rows[own]
