"""Kernels of whole models by their compiled gradient (:meth:`gossiprec.models.base.Model.gradient`).

They train. Scores are torch's, so attacks on such models are those of the batched executor.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.gradient_loops import (
    DrawnSequences,
    SequenceInputs,
    specialise_batches,
    specialise_sequences,
)
from gossiprec.models.base.kernel_interface import (
    NO_CONTEXT,
    AdversaryQueries,
    ModelKernels,
    ScoreQuery,
    TaskColumns,
    VictimModels,
    has_own_gradient,
)
from gossiprec.models.base.parameter_blocks import BlockRole, Layout
from gossiprec.models.base.template_formula import NO_CONSTANTS, FormulaInputs
from gossiprec.models.feeds import ListFeed, PointwiseFeed, SequenceFeed


class GradientKernels(ModelKernels):
    """Kernels of models that learn from labelled items or lists: SGD and Adam, terms of the loss, float32 rows."""

    all_users = True
    scores: ClassVar[bool] = False
    apart = frozenset({"with_terms"})

    def __init__(self, work: Any) -> None:
        super().__init__(work)
        self._gradient = work.model.gradient()
        self._reads_lists = work.model.feed is not PointwiseFeed
        specialised = specialise_sequences if self._reads_lists else specialise_batches
        self._loops = specialised(self._gradient.fill, tuple(work.node_settings.terms))

    @classmethod
    def missing_part(cls, model: Any) -> str | None:
        """Return the part of a model, its samples or formula, without a compiled gradient, or None."""
        if not has_own_gradient(model):
            return "a formula of its own"
        if model.constants:
            return f"constants {', '.join(model.constants)}"
        known = model.feed in (PointwiseFeed, ListFeed, SequenceFeed)
        return None if known else f"samples from {model.feed.__name__}"

    @classmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the storage if rows are not float32, DP-SGD, or private weights, or None."""
        if storage != "float32":
            return f"{storage} (executor.storage)"
        if "private" in ways:
            return "dp-sgd"
        private = layout.blocks_of_role(BlockRole.PRIVATE)
        return f"the private block {private[0].name!r}" if private else None

    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave."""
        columns = TaskColumns.of(program, update_numbers)
        self._loops.run_tasks(tasks, columns, *self.training_inputs(), None, self._inputs(columns, tasks))

    def train_in_way(self, way: str, program: Any, tasks: I64) -> None:
        """Run local updates with terms."""
        columns = TaskColumns.of(program)
        self._loops.run_term_tasks(
            tasks, columns, *self.training_inputs(), None, self._inputs(columns, tasks)
        )

    def _inputs(self, columns: TaskColumns, tasks: I64) -> FormulaInputs | SequenceInputs:
        return self._list_inputs(columns, tasks) if self._reads_lists else self._batch_inputs()

    def _batch_inputs(self) -> FormulaInputs:
        n_items = self.sizes.n_items
        most = min(n_items, self.work.training.batch_size or n_items)
        room = 2 * most * (len(self.item_dims) + 1) + self._gradient.room
        gradient, strengths = self._gradient, self.work.node_settings.strengths
        seed = np.uint64(self.work.seed)
        return FormulaInputs(
            room, gradient.shape, gradient.summed, strengths, seed, NO_CONTEXT, NO_CONSTANTS, (), ()
        )

    def _list_inputs(self, columns: TaskColumns, tasks: I64) -> SequenceInputs:
        """Return the inputs of tasks that train, with their lists."""
        work, settings = self.work, self.work.training
        some = tasks[(columns.update[tasks] >= 0) & ~columns.refused[tasks]]
        nodes, updates = columns.node[some].astype(np.int64), columns.update[some].astype(np.int64)
        numbers = np.zeros_like(updates) if settings.negatives_drawn == "once" else updates
        drawn = work.feed.samples_of_some(nodes, numbers, negatives=settings.negatives, seed=work.seed)
        keep = [
            self._draws(node, update, step, samples)
            for node, update, samples in zip(nodes.tolist(), updates.tolist(), drawn, strict=True)
            for step in range(settings.local_epochs if len(samples["items"]) else 0)
        ]
        everything = getattr(work.model, "needs_all_items", False)
        return SequenceInputs(
            some,
            np.zeros(1, np.int64),
            DrawnSequences.of(drawn, keep, len(self.item_dims)),
            everything,
            np.arange(self.sizes.n_items if everything else 0, dtype=np.int32)[None],
            np.empty(self._gradient.room, np.float32),
            self._gradient.shape,
            work.node_settings.strengths,
            np.uint64(work.seed),
        )

    def _draws(self, node: int, update: int, step: int, samples: Any) -> F32:
        """Return the model's factors of the inputs of a step; empty without draws."""
        _, of_samples = self.work.draw_for_step(node, update, step, samples)
        found: F32 = (
            of_samples["keep"][0] if "keep" in of_samples else np.zeros((0, len(self.item_dims)), np.float32)
        )
        return found

    def predict_scores(self, query: ScoreQuery) -> F32:
        """Refuse: torch scores."""
        raise NotImplementedError(f"{type(self.work.model).__name__} is scored by torch")

    def rank(self, victims: VictimModels, queries: AdversaryQueries, latest: F32) -> None:
        """Refuse: torch scores."""
        raise NotImplementedError(f"{type(self.work.model).__name__} is scored by torch")
