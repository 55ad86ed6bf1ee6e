"""The compiled executor behind the common interface."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from gossiprec.compute.appraisal import Candidates
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.base import F32, I32, I64, Executor, Workload
from gossiprec.compute.executors.fused import gmf, gmf_anchored, gmf_private, prme_calls
from gossiprec.compute.program import Program
from gossiprec.compute.training import TrainingSettings
from gossiprec.compute.treatment import Kind, Treatment
from gossiprec.errors import ScenarioError
from gossiprec.models.base import Layout, Model
from gossiprec.models.gmf import GMF
from gossiprec.models.prme_g import PRMEG

KERNELS: dict[type[Model], ModuleType] = {GMF: gmf, PRMEG: prme_calls}
TREATED: dict[type[Model], dict[Kind, ModuleType]] = {
    GMF: {Kind.ANCHORED: gmf_anchored, Kind.PRIVATE: gmf_private}
}
"""Kernels for the nodes that policies treat."""


@EXECUTORS.register("fused")
class FusedExecutor(Executor):
    """Compiled loops; exact to float32 rounding; any number of threads."""

    name = "fused"
    parallel = True

    def __init__(self, work: Workload, device: str = "auto") -> None:
        super().__init__(work, device)
        lacking = self.lacks(work.model, work.training, work.arena.rows.dtype.name, work.treatment)
        if lacking:
            raise ScenarioError(
                f"executor.name: 'fused' has no kernels for {lacking}; use 'batched' or 'auto'"
            )
        self._kinds = work.treatment.kinds
        self._treated = [kind for kind in (Kind.ANCHORED, Kind.PRIVATE) if (self._kinds == kind).any()]
        if device == "cuda":
            raise ScenarioError("executor.device: 'fused' computes on the CPU; use 'batched' for cuda")
        self._kernels = KERNELS[type(work.model)]
        self._dims = (0,) * work.layout.user_width
        none = Candidates(np.zeros(work.arena.n_nodes + 1, np.int64), np.zeros((0, 1), np.int32))
        candidates = work.candidates or none
        self._lists = (candidates.offsets, candidates.items)
        self._masked: tuple[Program, I32] = (Program.empty(), np.zeros(0, np.int32))

    @classmethod
    def lacks(
        cls, model: Model, training: TrainingSettings, storage: str, treatment: Treatment
    ) -> str | None:
        """Return what there are no kernels for, or None."""
        name = type(model).__name__
        if type(model) not in KERNELS:
            return name
        if isinstance(model, GMF) and storage != "float32":
            return f"{name} in {storage} (executor.storage)"
        if isinstance(model, PRMEG) and training.optimizer != "sgd":
            return f"{name} under {training.optimizer!r} (training.optimizer; there are for 'sgd')"
        if isinstance(model, PRMEG) and (treatment.kinds == Kind.PRIVATE).any():
            return f"{name} under dp-sgd"
        return None

    def warm_up(self) -> None:
        """Compile the kernels, or load what an earlier run compiled."""
        none = np.zeros(0, np.int64)
        self.run(Program.empty(), none)
        self.scores(
            self.work.layout, self.work.arena.rows, none, none, np.zeros(1, np.int64), np.zeros(0, np.int32)
        )

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: all merges and plain local updates, then those of treated nodes."""
        work, training, arena = self.work, self.work.training, self.work.arena
        if isinstance(work.model, PRMEG):
            self.appraise(program, tasks)
            return prme_calls.run(work, program, tasks)
        positives = work.data.positives
        data = (
            arena.rows, arena.first, arena.second, arena.steps,
            positives.offsets, positives.values, work.data.member, work.layout.n_items, work.layout.n_users,
            training.negatives, training.batch_size or 0, training.local_epochs, training.optimizer == "adam",
            training.learning_rate, training.beta1, training.beta2, training.epsilon,
            np.uint64(work.seed), self._dims,
        )  # fmt: skip
        self._kernels.run_tasks(
            tasks, program.node, program.source, program.target, self._plain_updates(program),
            program.merge_offsets, program.merge_row, program.merge_keep, *data,
            *self._lists, program.found, program.refused,
        )  # fmt: skip
        treatment = work.treatment
        for kind in self._treated:
            trains = (program.update[tasks] >= 0) & ~program.refused[tasks]
            some = tasks[trains & (self._kinds[program.node[tasks]] == kind)]
            private = (treatment.clip_norm, treatment.noise_multiplier) if kind == Kind.PRIVATE else ()
            TREATED[type(work.model)][kind].train_tasks(
                some, program.node, program.target, program.update, *data, treatment.drift_penalty, *private
            )
        return None

    def _plain_updates(self, program: Program) -> I32:
        """Return the program's updates with those of treated nodes left out; threads may compute them twice."""
        if not self._treated:
            return program.update
        known, updates = self._masked
        if known is not program:
            updates = np.where(self._kinds[program.node] == Kind.PLAIN, program.update, np.int32(-1))
            self._masked = (program, updates)
        return updates

    def scores(
        self,
        layout: Layout,
        rows: F32,
        row: I64,
        user: I64,
        offsets: I64,
        items: I32,
        contexts: I32 | None = None,
        places: F32 | None = None,
    ) -> F32:
        """Return predicted scores (see the base class)."""
        if isinstance(self.work.model, PRMEG):
            return prme_calls.scores(self.work, layout, rows, row, user, offsets, items, contexts, places)
        out = np.empty(len(items), np.float32)
        self._kernels.score_items(
            rows, row, user, offsets, items, layout.n_items, layout.n_users, self._dims, out
        )
        return out
