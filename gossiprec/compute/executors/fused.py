"""The compiled executor, which runs the kernels of the model: one loop per node, several nodes in parallel."""

from __future__ import annotations

import functools
import threading
from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.registry import registry_name
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.local_update import NodeSettings, TrainingMode, TrainingSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import ScoringView
from gossiprec.models.base import Layout, Model
from gossiprec.models.base.kernel_interface import BoundKernel, ScoreQuery
from gossiprec.numerics.flat_ops import finite_rows


@EXECUTORS.register("fused")
class FusedExecutor(Executor):
    """The executor of compiled loops, exact to float32 rounding, for any number of threads."""

    name = "fused"
    parallel = True

    def __init__(self, work: ExecutorContext, device: str = "auto") -> None:
        super().__init__(work, device)
        storage = work.arena.rows.dtype.name
        lacking = self.missing_feature(work.model, work.training, storage, work.node_settings, work.layout)
        kernels = work.model.kernels()
        if lacking or kernels is None:
            raise ScenarioError(
                f"executor.name: 'fused' has no kernels for {lacking}; use 'batched' or 'auto'"
            )
        if device == "cuda":
            raise ScenarioError("executor.device: 'fused' computes on the CPU; use 'batched' for cuda")
        self.kernels = kernels(work)
        self._kinds = work.node_settings.training_modes
        self._apart = [
            kind for kind in TrainingMode if kind.kernel_name in kernels.apart and (self._kinds == kind).any()
        ]
        self._masked: tuple[Program, I32] = (Program.empty(), np.zeros(0, np.int32))
        self._lock = threading.Lock()

    @classmethod
    def missing_feature(
        cls,
        model: Model,
        training: TrainingSettings,
        storage: str,
        node_settings: NodeSettings,
        layout: Layout,
    ) -> str | None:
        """Return the unsupported feature that keeps the model from running compiled, or None."""
        name, kernels = registry_name(model), model.kernels()
        if kernels is None:
            return name
        lacking = kernels.missing_part(model)
        lacking = lacking or kernels.missing_feature(training, storage, node_settings.kernel_names, layout)
        if layout.n_users > 1 and not kernels.all_users:
            lacking = lacking or "rows of all users (protocol.user_table 'averaged')"
        return lacking and f"{name} with {lacking}"

    @classmethod
    def missing_scores(cls, model: Model) -> str | None:
        """Return the scores of a model of which only the training is compiled, or None."""
        kernels = model.kernels()
        return None if kernels is not None and kernels.scores else f"the scores of {registry_name(model)}"

    def use_training(self, training: TrainingSettings) -> None:
        """Train with other numbers, by kernels that are bound to them."""
        super().use_training(training)
        self.kernels = type(self.kernels)(self.work)

    @functools.cached_property
    def _torch(self) -> Executor:
        """The executor that scores a model if its kernels only train."""
        return EXECUTORS["batched"](self.work, "cpu")

    def warm_up(self) -> None:
        """Compile the kernels, or load what an earlier run compiled."""
        none = np.zeros(0, np.int64)
        self.run(Program.empty(), none)
        self.are_finite(none, np.zeros(0, np.int32))
        if self.kernels.scores:
            self.warm_up_scores()

    def warm_up_scores(self) -> None:
        """Compile the scoring kernels."""
        none = np.zeros(0, np.int64)
        ends, items = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.score(ScoreQuery(self.work.layout, self.work.arena.rows, none, none, ends, items))

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: all merges and plain local updates, then the updates by other kernels."""
        if not self.kernels.merges_by_performance:
            self.resolve_performance_weights(program, tasks)
        self.kernels.merge_and_train(program, tasks, self._updates(program))
        for kind in self._apart:
            trains = (program.update[tasks] >= 0) & ~program.refused[tasks]
            some = tasks[trains & (self._kinds[program.node[tasks]] == kind)]
            self.kernels.train_in_way(kind.kernel_name, program, some)

    def bind(self, program: Program) -> BoundKernel | None:
        """Return the model's kernel if it does all, and nothing of the model or of the executor replaces it."""
        kernels = type(self.kernels)
        owner = next(kind for kind in kernels.__mro__ if "merge_and_train" in vars(kind))
        if self._apart or "bind" not in vars(owner) or type(self).run is not FusedExecutor.run:
            return None
        return self.kernels.bind(program, program.update) if kernels.merges_by_performance else None

    def resolve_performance_weights(self, program: Program, tasks: I64) -> None:
        """Set the weights of merges by performance, compiled if the model has kernels for it."""
        if self.kernels.scores_performance:
            self.kernels.score_performance(program, tasks)
        else:
            super().resolve_performance_weights(program, tasks)

    def are_finite(self, handles: I64, nodes: I32) -> Bools:
        """Return whether each model under a handle is finite, by a compiled loop."""
        return finite_rows(self.work.arena.rows, handles)

    def _updates(self, program: Program) -> I32:
        """Return the updates without those that other kernels run; several threads may compute them twice."""
        if not self._apart:
            return program.update
        known, updates = self._masked
        if known is not program:
            apart = np.isin(self._kinds[program.node], self._apart)
            updates = np.where(apart, np.int32(-1), program.update)
            self._masked = (program, updates)
        return updates

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""
        if self.kernels.scores:
            return self.kernels.predict_scores(replace(query, constants=self.constants_of(query)))
        with self._lock:  # torch's number of threads belongs to the process
            return self._torch.score(query)

    def score_all(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores of all items."""
        return (
            super().score_all(models, threads)
            if self.kernels.scores
            else self._torch.score_all(models, threads)
        )
