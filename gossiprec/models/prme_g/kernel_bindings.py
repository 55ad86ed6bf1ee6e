"""Bindings of the compiled PRME-G kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.geodesy import distances_km
from gossiprec.models.base.kernel_interface import (
    NO_CONTEXT,
    AdversaryQueries,
    ModelKernels,
    ScoreQuery,
    VictimModels,
    flat_view,
)
from gossiprec.models.prme_g import kernels, observer_kernels, performance_kernels

_NOWHERE = np.zeros((0, 3), np.float32)


class PRMEGKernels(ModelKernels):
    """Kernels for gradient descent, optionally with a drift penalty; rows in either storage."""

    ranks_open = scores_performance = True
    all_users = True
    score_kept, fit_user = observer_kernels.score_kept_rows, observer_kernels.fit_user

    @classmethod
    def lacks(cls, training: Any, storage: str, ways: frozenset[str]) -> str | None:
        """Return the optimizer if it is not SGD, or DP-SGD, or None."""
        if training.optimizer != "sgd":
            return f"{training.optimizer!r} (training.optimizer; only 'sgd' has kernels)"
        return "dp-sgd" if "private" in ways else None

    def run(self, program: Any, tasks: I64, update: I32) -> None:
        """Run `tasks` of one wave."""
        work, training, options = self.work, self.work.training, self.work.model.options
        feed = work.feed
        kernels.run_tasks(
            tasks, program.node, program.source, program.target, update, program.merge_offsets,
            program.merge_row, program.merge_keep, program.merge_message, flat_view(work.arena.rows),
            work.layout.row_size, work.arena.steps, feed.moves.offsets, feed.moves.values, feed.previous, feed.member,
            work.model.constants["places"], work.layout.n_items, work.layout.n_users, training.negatives,
            training.negatives_drawn == "once", training.batch_size or 0, training.local_epochs, training.learning_rate,
            options.alpha, options.l2, options.loss_reduction == "mean", np.uint64(work.seed), self.dims,
            program.refused,
            work.node_settings.drift_penalty,
        )  # fmt: skip

    def score_performance(self, program: Any, tasks: I64) -> None:
        """Compute the weights of merges by performance."""
        work = self.work
        if work.candidates is None:
            return
        performance_kernels.appraise_tasks(
            tasks, program.node, program.source, program.merge_offsets, program.merge_row, program.merge_keep,
            program.found, program.refused, flat_view(work.arena.rows), work.layout.row_size, work.candidates.offsets,
            work.candidates.values, work.layout.n_items, work.layout.n_users, self.dims,
        )  # fmt: skip

    def scores(self, query: ScoreQuery) -> F32:
        """Return ``-D``."""
        out = np.empty(len(query.items), np.float32)
        kernels.score_items(
            flat_view(np.ascontiguousarray(query.rows)), query.rows.shape[1], query.row, query.user, query.offsets,
            query.items, query.contexts.get("previous", NO_CONTEXT), (query.constants or {}).get("places", _NOWHERE),
            query.layout.n_users, self.work.model.options.alpha, self.dims, out,
        )  # fmt: skip
        return out

    def query_weights(self, items: I32, contexts: I32) -> F32:
        """Return the weights of the two distances in D for all queries, shape (n, 2)."""
        places, alpha = self.work.model.constants["places"], np.float32(self.work.model.options.alpha)
        known = contexts >= 0
        weights = np.zeros((len(items), 2), np.float32)
        weights[:, 0] = 1.0
        travel = np.sqrt(
            np.sqrt(np.float32(1.0) + distances_km(places[items[known]], places[contexts[known]]))
        )
        weights[known, 0] = travel * alpha
        weights[known, 1] = travel * (np.float32(1.0) - alpha)
        return weights

    def fit_recipe(self, feed: Any) -> tuple[Any, ...]:
        """Return the previous items, the coordinates of items, and the options of the loss."""
        options = self.work.model.options
        places, mean = self.work.model.constants["places"], options.loss_reduction == "mean"
        return feed.previous, places, np.float32(options.alpha), float(options.l2), mean

    def rank(self, victims: VictimModels, asked: AdversaryQueries, latest: F32) -> None:
        """Rank victims by every adversary's moves, whether or not they withhold their user row."""
        layout = self.work.layout
        observer_kernels.rank_victims(
            flat_view(victims.rows), layout.row_size, victims.row, victims.ids, victims.hides, victims.users,
            asked.offsets, asked.items, asked.contexts, asked.n_targets, asked.weights, asked.rules, latest,
            layout.n_items, layout.n_users, self.dims,
        )  # fmt: skip
