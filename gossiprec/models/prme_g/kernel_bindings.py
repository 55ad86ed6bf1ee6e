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
    Samples,
    ScoreQuery,
    Sizes,
    TaskColumns,
    TrainingRule,
    ValidationLists,
    Versions,
    VictimModels,
    flat_view,
)
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.task_kernels import specialise_tasks
from gossiprec.models.prme_g import kernels, observer_kernels

_NOWHERE = np.zeros((0, 3), np.float32)


class PRMEGKernels(ModelKernels):
    """Kernels for gradient descent, optionally with a drift penalty; rows in either storage."""

    ranks_open = scores_performance = True
    all_users = True
    score_kept, fit_user = observer_kernels.score_kept_rows, observer_kernels.fit_user

    @classmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the optimizer if it is not SGD, or DP-SGD, or None."""
        if training.optimizer != "sgd":
            return f"{training.optimizer!r} (training.optimizer; only 'sgd' has kernels)"
        return "dp-sgd" if "private" in ways else None

    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave."""
        work, feed, options = self.work, self.work.feed, self.work.model.options
        arena, seed = work.arena, np.uint64(work.seed)
        specialise_tasks(kernels.new_workspace, kernels.train_task, kernels.merge_task)(
            tasks,
            TaskColumns.of(program, update_numbers),
            Versions(flat_view(arena.rows), arena.first, arena.second, arena.steps),
            Samples(feed.moves.offsets, feed.moves.values, feed.member, seed),
            TrainingRule.of(work.training, summed=options.loss_reduction == "sum"),
            self.sizes,
            seed,
            kernels.MoveOptions(
                feed.previous, work.model.constants["places"], options.alpha, options.l2,
                work.node_settings.drift_penalty,
            ),
        )  # fmt: skip

    def score_performance(self, program: Any, tasks: I64) -> None:
        """Compute the weights of merges by performance."""
        work = self.work
        if work.candidates is None:
            return
        lists = ValidationLists(work.candidates.offsets, work.candidates.values)
        kernels.appraise_tasks(tasks, TaskColumns.of(program), flat_view(work.arena.rows), lists, self.sizes)

    def predict_scores(self, query: ScoreQuery) -> F32:
        """Return ``-D``."""
        out = np.empty(len(query.items), np.float32)
        rows = np.ascontiguousarray(query.rows)
        kernels.score_items(
            query.columns._replace(rows=flat_view(rows)), query.contexts.get("previous", NO_CONTEXT),
            Sizes.of(query.layout)._replace(width=rows.shape[1]), (query.constants or {}).get("places", _NOWHERE),
            self.work.model.options.alpha, out,
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

    def fit_recipe(self, feed: Any) -> observer_kernels.MoveRecipe:
        """Return the previous items, the coordinates of items, and the options of the loss."""
        options = self.work.model.options
        places, mean = self.work.model.constants["places"], options.loss_reduction == "mean"
        return observer_kernels.MoveRecipe(
            feed.previous, places, np.float32(options.alpha), float(options.l2), mean
        )

    def rank(self, victims: VictimModels, queries: AdversaryQueries, latest: F32) -> None:
        """Rank victims by every adversary's moves, whether or not they withhold their user row."""
        rows = flat_view(victims.rows)
        observer_kernels.rank_victims(victims._replace(rows=rows), queries, latest, self.sizes)
