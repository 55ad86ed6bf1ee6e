"""The interface of an executor, and the context that executors work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.local_update import (
    NodeSettings,
    TrainingSettings,
    local_batches,
    own_weight,
    performance_score,
)
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import ScoringView, Store
from gossiprec.compute.store.arena import Arena, Storage
from gossiprec.federated import Recommender, overrides_method
from gossiprec.measures.ranking import PADDING
from gossiprec.models.base import Model
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.kernel_interface import BoundKernel, ScoreQuery
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import Columns, Feed
from gossiprec.rules.servers import Extras

if TYPE_CHECKING:
    from torch import Tensor

MOST_STEPS = 2**24
"""Largest number of optimizer steps of one local update."""
STACK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}
"""Bytes of parameters that torch trains stacked; on a CPU they fit its caches, with gradients and moments."""


@dataclass(frozen=True)
class ExecutorContext:
    """The model, data, settings and arena that every executor works on; constant for a run."""

    model: Model
    layout: Layout
    training: TrainingSettings
    feed: Feed
    arena: Arena
    seed: int
    node_settings: NodeSettings
    candidates: Ragged | None = None
    """Validation candidates for merging by performance, or None if the protocol does not use it."""
    recommender: Recommender | None = None
    """The recommender, which adds its term to the model's loss."""
    extras: Extras = field(default_factory=dict)
    """The coordinator's extras of the version that is trained."""

    def encoded_model(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the parameters for the loss: encoded if clients keep no model and the model has a graph."""
        if self.arena.fresh_moments and isinstance(self.model, GraphModel):
            return self.model.encode_client(p, batch)
        return p

    def iter_step_inputs(self, node: int, update: int) -> Iterator[tuple[Columns, Columns]]:
        """Yield the samples and the other draws of each optimizer step of a local update."""
        batches = local_batches(self.feed, self.training, node, update, self.seed)
        for step, samples in enumerate(batches):
            of_step, of_samples = self.draw_for_step(node, update, step, samples)
            yield {**samples, **of_samples}, of_step

    def draw_for_step(self, node: int, update: int, step: int, samples: Columns) -> tuple[Columns, Columns]:
        """Return the draws for a step of a local update: those per step, and those per sample."""
        of_model: Columns = {}
        if type(self.model).draws is not Model.draws:  # a generator for nothing takes 10 us
            draw = generator(self.seed, "model", node, update * MOST_STEPS + step)
            of_model = self.model.draws(samples, draw)
        if self.recommender is None:
            return {}, of_model
        if not overrides_method(self.recommender, "draws"):
            return self.recommender.client_extras(node, self.extras), of_model
        draw = generator(self.seed, "recommender", node, update * MOST_STEPS + step)
        of_step, of_samples = self.recommender.draws(self.layout, samples, draw)
        return {**of_step, **self.recommender.client_extras(node, self.extras)}, {**of_model, **of_samples}


class Executor(ABC):
    """The interface of objects that run independent tasks on the arena and score items.

    Parameters
    ----------
    work : ExecutorContext
    device : str
        Device of torch: ``auto`` (CUDA if torch sees one), ``cpu`` or ``cuda``. Compiled kernels use the CPU.
    """

    name: ClassVar[str]
    """The name under which the executor is registered."""

    parallel: bool = False
    """Whether several threads may call :meth:`run` at once, on different tasks of one wave."""
    threads_internally: bool = False
    """Whether :meth:`run` uses several threads itself; it is then called with all tasks of a wave at once."""

    def __init__(self, work: ExecutorContext, device: str = "auto") -> None:
        self.work = work
        self.device = device

    @classmethod
    def make_arena(
        cls, layout: Layout, *, n_nodes: int, moments: bool, storage: Storage, divided: bool, device: str
    ) -> Arena:
        """Return the arena of a run; it is sparse if the run is `divided` among shards."""
        return Arena(
            layout, n_nodes=n_nodes, capacity=n_nodes, moments=moments, storage=storage, sparse=divided
        )

    @classmethod
    def missing_feature(
        cls,
        model: Model,
        training: TrainingSettings,
        storage: str,
        node_settings: NodeSettings,
        layout: Layout,
    ) -> str | None:
        """Return the unsupported feature that keeps the executor from running this model, or None."""
        return None

    @classmethod
    def missing_scores(cls, model: Model) -> str | None:
        """Return the part of the scores that the executor leaves to torch, or None."""
        return None

    @property
    def executor_class(self) -> type[Executor]:
        """The class that trains and scores single models, by which more executors of the kind can be made."""
        return type(self)

    @property
    def store(self) -> Store:
        """The store that owns the models: the arena, unless nodes keep no models."""
        return self.work.arena

    @property
    def update_bytes(self) -> dict[tuple[int, int], int] | None:
        """Size of each trained update by (node, number of the update), or None if nodes send versions."""
        return None

    def use_training(self, training: TrainingSettings) -> None:
        """Train with another learning rate and other constants of Adam from now on; other settings must stay."""
        self.work = replace(self.work, training=training)

    def warm_up(self) -> None:  # noqa: B027 (most executors have nothing to warm up)
        """Do slow one-time work before the first task; a compiled executor compiles."""

    def warm_up_scores(self) -> None:  # noqa: B027
        """Do the slow one-time work of scoring, for an executor that never trains."""

    def bind(self, program: Program) -> BoundKernel | None:
        """Return the kernel that does all of :meth:`run` for a program, and its arguments after the tasks, or None."""
        return None

    @abstractmethod
    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` (indices into the program) of one wave, in the given order."""

    def resolve_performance_weights(self, program: Program, tasks: I64) -> None:
        """Set the weights of merges by performance, and record the scores; then they are ordinary merges.

        Only the items of the receiver's lists are scored, in small models ``[own user | items | shared]``.
        """
        keep, offsets = program.merge_keep, program.merge_offsets
        merging = tasks[(np.diff(offsets) > 0)[tasks]]
        scored_tasks = merging[keep[offsets[merging]] < 0]
        if len(scored_tasks):
            rows = self.work.arena.rows_of_tasks(program, scored_tasks)
            for task in scored_tasks.tolist():
                self._resolve_weights_of(program, rows, task)

    def with_resolved_weights(self, program: Program, tasks: I64) -> Program:
        """Return the program with the final merge weights of these tasks, for hooks that run before the merge."""
        copy = replace(program, merge_keep=program.merge_keep.copy())
        self.resolve_performance_weights(copy, tasks)
        return copy

    def _resolve_weights_of(self, program: Program, rows: F32, task: int) -> None:
        work, node = self.work, int(program.node[task])
        assert work.candidates is not None
        lists = work.candidates[node]
        lists = lists[:, : np.count_nonzero(lists[:1] != PADDING)]  # a node's lists are of one length
        entries = range(program.merge_offsets[task], program.merge_offsets[task + 1])
        if not len(lists):
            program.merge_keep[entries.start : entries.stop] = 0.5
            return
        kept, places = np.unique(lists, return_inverse=True)
        small = replace(work.layout, n_items=len(kept), n_users=1)
        known = {name: values[kept] for name, values in work.model.constants.items()}
        items = np.tile(places.astype(np.int32).ravel(), 2)
        before = rows[program.source[task]]
        own = work.layout.extract_submodel(before, kept, node)
        own[small.private] = before[work.layout.private]
        for entry in entries:
            received = work.layout.extract_submodel(rows[program.merge_row[entry]], kept, node)
            if work.layout.n_users == 1:
                received[small.users] = own[small.users]
            received[small.private] = own[small.private]
            query = ScoreQuery(
                small, np.stack([own, received]), np.arange(2), np.zeros(2, np.int64),
                np.array([0, lists.size, 2 * lists.size]), items, constants=known,
            )  # fmt: skip
            scores = self.score(query)
            mine, theirs = (performance_score(part) for part in scores.reshape(2, *lists.shape))
            keep = own_weight(mine, theirs)
            own = received if keep == 0 else keep * own + (1 - keep) * received
            program.merge_keep[entry], program.found[entry] = keep, theirs
            program.refused[task] = mine + theirs == 0

    def are_finite(self, handles: I64, nodes: I32) -> Bools:
        """Return whether each model, with the part that its node keeps private, is finite, shape (n,)."""
        return self.store.are_finite(handles, nodes)

    @abstractmethod
    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores, shape (offsets[-1],); logits if the model predicts probabilities."""

    def constants_of(self, query: ScoreQuery) -> Mapping[str, F32]:
        """Return the model's constants for the items of a query."""
        return self.work.model.constants if query.constants is None else query.constants

    def score_all(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores of all items, shape (n_models, n_items), byte-identical for any number of threads."""
        n_items = models.layout.n_items
        found = np.empty((len(models.row), n_items), np.float32)

        def score_some(some: range) -> None:
            each = slice(some.start, some.stop)
            items = np.tile(np.arange(n_items, dtype=np.int32), len(some))
            offsets = np.arange(len(some) + 1, dtype=np.int64) * n_items
            wide = {name: column[each].repeat(n_items) for name, column in models.contexts.items()}
            about = (models.layout, models.rows, models.row[each], models.user[each])
            before = {name: column[each] for name, column in models.histories.items()}
            scores = self.score(ScoreQuery(*about, offsets, items, wide, None, models.together, before))
            found[each] = scores.reshape(len(some), n_items)

        if self.parallel:
            threads.run(lambda part: score_some(threads.part_range(len(found), part)))
        else:
            score_some(range(len(found)))
        return found


class TrainingExecutor(Executor):
    """An executor that only trains; another executor scores.

    Parameters
    ----------
    work : ExecutorContext
    scoring : Executor
        Scores whole models, and is the kind of executor that attacks use.
    """

    def __init__(self, work: ExecutorContext, scoring: Executor) -> None:
        super().__init__(work, scoring.device)
        self._scoring = scoring

    def use_training(self, training: TrainingSettings) -> None:
        """Train with other numbers; the executor that scores takes them, too."""
        super().use_training(training)
        self._scoring.use_training(training)

    @property
    def executor_class(self) -> type[Executor]:
        """The class of the executor that scores."""
        return self._scoring.executor_class

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""
        return self._scoring.score(replace(query, rows=self._scored_rows(query.rows)))

    def score_all(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores of all items."""
        return self._scoring.score_all(replace(models, rows=self._scored_rows(models.rows)), threads)

    def _scored_rows(self, rows: F32) -> F32:
        """Return the rows by which models score: the rows themselves."""
        return rows
