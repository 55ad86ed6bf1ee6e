"""Bindings of the compiled GMF kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.kernel_interface import AdversaryQueries, ModelKernels, ScoreQuery, VictimModels
from gossiprec.models.gmf import dp_sgd_kernels, drift_penalty_kernels, kernels, observer_kernels


class GMFKernels(ModelKernels):
    """Kernels for Adam and SGD, optionally with a drift penalty or noise; float32 rows."""

    merges_by_performance = True
    apart = frozenset({"anchored", "private"})
    all_users = True
    score_kept, fit_user = observer_kernels.score_kept_rows, observer_kernels.fit_user

    def __init__(self, work: Any) -> None:
        super().__init__(work)
        judged = work.candidates
        self._lists = (None, None) if judged is None else (judged.offsets, judged.values)

    @classmethod
    def lacks(cls, training: Any, storage: str, ways: frozenset[str]) -> str | None:
        """Return the storage if rows are not float32."""
        return None if storage == "float32" else f"{storage} (executor.storage)"

    def run(self, program: Any, tasks: I64, update: I32) -> None:
        """Run `tasks` of one wave: all merges, including those by performance, and plain local updates."""
        kernels.run_tasks(
            tasks, program.node, program.source, program.target, update, program.merge_offsets, program.merge_row,
            program.merge_keep, *self._data(), *self._lists, program.found, program.refused,
        )  # fmt: skip

    def train_apart(self, way: str, program: Any, tasks: I64) -> None:
        """Run local updates with a drift penalty, or with clipped samples and noise."""
        settings = self.work.node_settings
        common = (tasks, program.node, program.target, program.update, *self._data(), settings.drift_penalty)
        if way == "private":
            dp_sgd_kernels.train_tasks(*common, settings.clip_norm, settings.noise_multiplier)
        else:
            drift_penalty_kernels.train_tasks(*common)

    def _data(self) -> tuple[Any, ...]:
        work, training, arena = self.work, self.work.training, self.work.arena
        positives = work.feed.positives
        return (
            arena.rows, arena.first, arena.second, arena.steps,
            positives.offsets, positives.values, work.feed.member, work.layout.n_items, work.layout.n_users,
            training.negatives, work.model.options.summed, training.negatives_drawn == "once",
            training.batch_size or 0, training.local_epochs,
            training.optimizer == "adam", training.learning_rate, training.beta1, training.beta2, training.epsilon,
            np.uint64(work.seed), self.dims,
        )  # fmt: skip

    def scores(self, query: ScoreQuery) -> F32:
        """Return logits."""
        out = np.empty(len(query.items), np.float32)
        kernels.score_items(
            query.rows, query.row, query.user, query.offsets, query.items, query.layout.n_items,
            query.layout.n_users, self.dims, out,
        )  # fmt: skip
        return out

    def fit_recipe(self, feed: Any) -> tuple[Any, ...]:
        """Return whether the loss is the sum over samples."""
        return (self.work.model.options.summed,)

    def rank(self, victims: VictimModels, asked: AdversaryQueries, latest: F32) -> None:
        """Rank victims that withhold their user row."""
        layout = self.work.layout
        observer_kernels.rank_hidden_victims(
            victims.rows, victims.row, victims.ids, victims.users, victims.shared_of, asked.offsets, asked.items,
            asked.n_targets, asked.rules, asked.thresholds, latest, layout.n_items, layout.n_users, self.dims,
        )  # fmt: skip

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items."""
        layout, out = self.work.layout, np.empty((len(victims.row), len(items)), np.float32)
        observer_kernels.hidden_victim_entropies(
            victims.rows, victims.row, victims.users[a], victims.shared_of[a : a + 1], items, layout.n_items,
            layout.n_users, self.dims, out,
        )  # fmt: skip
        return out
