"""Bindings of the compiled GMF kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.dp_sgd_kernels import PrivacySettings, specialise_private
from gossiprec.models.base.kernel_interface import (
    AdversaryQueries,
    BoundKernel,
    ModelKernels,
    ScoreQuery,
    Sizes,
    TaskColumns,
    ValidationLists,
    VictimModels,
)
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.task_kernels import specialise_tasks
from gossiprec.models.gmf import kernels, observer_kernels
from gossiprec.models.gmf.dp_sgd_kernels import add_clipped_gradients


class GMFKernels(ModelKernels):
    """Kernels for Adam and SGD, optionally with a drift penalty or noise; float32 rows."""

    merges_by_performance = True
    apart = frozenset({"anchored", "private"})
    all_users = True
    score_kept, fit_user = observer_kernels.score_kept_rows, observer_kernels.fit_user

    def __init__(self, work: Any) -> None:
        super().__init__(work)
        judged = work.candidates
        self._lists = None if judged is None else ValidationLists(judged.offsets, judged.values)
        self._bundled: tuple[Any, ...] = (None,) * 4

    @classmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the storage if rows are not float32."""
        return None if storage == "float32" else f"{storage} (executor.storage)"

    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave: all merges, including those by performance, and plain local updates."""
        run, arguments = self.bind(program, update_numbers)
        run(tasks, *arguments)

    def bind(self, program: Any, update_numbers: I32) -> BoundKernel:
        """Return the loop over tasks, and its arguments for a plan."""
        known, rows = self._bundled, self.work.arena.rows
        if known[0] is not program or known[1] is not update_numbers or known[2] is not rows:
            run = specialise_tasks(kernels.new_workspace, kernels.train_task, kernels.merge_task)
            arguments = TaskColumns.of(program, update_numbers), *self.training_inputs(), self._lists, None
            # a new plan; several threads may see it
            self._bundled = known = (program, update_numbers, rows, (run, arguments))
        return known[3]

    def train_in_way(self, way: str, program: Any, tasks: I64) -> None:
        """Run local updates with a drift penalty, or with clipped samples and noise."""
        settings = self.work.node_settings
        if way == "private":
            run = specialise_private(add_clipped_gradients)
            run(tasks, TaskColumns.of(program), *self.training_inputs(), PrivacySettings.of(settings), None)
            return
        run = specialise_tasks(kernels.new_anchored_workspace, kernels.train_anchored_task)
        penalty = kernels.DriftPenalty(settings.drift_penalty)
        run(tasks, TaskColumns.of(program), *self.training_inputs(), None, penalty)

    def predict_scores(self, query: ScoreQuery) -> F32:
        """Return logits."""
        out = np.empty(len(query.items), np.float32)
        kernels.score_items(
            query.rows, query.row, query.user, query.offsets, query.items, Sizes.of(query.layout), out,
        )  # fmt: skip
        return out

    def fit_recipe(self, feed: Any) -> observer_kernels.LossRecipe:
        """Return whether the loss is the sum over samples."""
        return observer_kernels.LossRecipe(self.work.model.options.summed)

    def rank(self, victims: VictimModels, queries: AdversaryQueries, latest: F32) -> None:
        """Rank victims that withhold their user row."""
        observer_kernels.rank_hidden_victims(victims, queries, latest, self.sizes)

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items."""
        out = np.empty((len(victims.row), len(items)), np.float32)
        observer_kernels.hidden_victim_entropies(victims, a, items, self.sizes, out)
        return out
