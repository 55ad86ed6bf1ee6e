"""The executor of a coordinator that trains one model on all users' interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I64
from gossiprec.base.rng import generator
from gossiprec.compute.executors.base import Executor, ExecutorContext, TrainingExecutor
from gossiprec.compute.executors.tensors import (
    Tensors,
    constants_to_tensors,
    make_optimizer,
    table_views,
    to_tensor,
)
from gossiprec.compute.local_update import central_epochs
from gossiprec.compute.plan.program import Program
from gossiprec.models.base import Model
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread


class CentralExecutor(TrainingExecutor):
    """The executor that trains the coordinator's model; another executor scores it.

    Training takes one thread: torch's division of a sum among several may change the last bits.

    Parameters
    ----------
    work : ExecutorContext
        Its arena has one row, which all nodes share
        (:class:`gossiprec.compute.store.arena.SingleModelStore`).
    scoring : Executor
        Scores whole models.
    """

    name = "central"

    def __init__(self, work: ExecutorContext, scoring: Executor) -> None:
        super().__init__(work, scoring)
        self._graph = InteractionGraph.of(work.feed.positives, work.layout.n_items)
        self._encoded: tuple[int, F32] | None = None  # number of steps, and the encoded rows after them

    def warm_up(self) -> None:
        """Compile the scoring kernels, and encode the model through the graph."""
        self._scoring.warm_up()
        self._scored_rows(self.work.arena.rows)

    def run(self, program: Program, tasks: I64) -> None:
        """Run the updates among `tasks`."""
        for task in tasks[program.update[tasks] >= 0].tolist():
            with single_torch_thread():
                self._train(int(program.node[task]), int(program.update[task]))

    def _scored_rows(self, rows: F32) -> F32:
        """Return the rows to score; a graph model is encoded, once for each version."""
        model, arena = self.work.model, self.work.arena
        if rows is not arena.rows or not isinstance(model, GraphModel):
            return rows
        steps = int(arena.steps[0])
        if self._encoded is None or self._encoded[0] != steps:
            seen = rows.copy()
            tables = table_views(arena.layout, torch.from_numpy(seen[0]))
            with torch.no_grad(), single_torch_thread():
                found = model.encode(self._blocks(tables), self._graph)
                for name in ("users", "items"):
                    tables[name].copy_(found[name])
            self._encoded = steps, seen
        return self._encoded[1]

    def _solve(self) -> bool:
        """Move the model to the minimum, if that has a closed form; return whether it has."""
        work, arena = self.work, self.work.arena
        if type(work.model).solve is Model.solve:
            return False
        solved = work.model.solve(work.feed) if arena.steps[0] == 0 else None
        tables = table_views(work.layout, torch.from_numpy(arena.rows[0]))
        for name, rows in (solved or {}).items():
            tables[name].copy_(rows)
        arena.steps[0] += 1
        return True

    def _train(self, node: int, update: int) -> None:
        if self._solve():
            return
        work = self.work
        tables = {
            name: torch.nn.Parameter(table)
            for name, table in table_views(work.layout, torch.from_numpy(work.arena.rows[0])).items()
        }
        steps = dict.fromkeys(tables, work.arena.steps[0])
        optimizer = make_optimizer(work, tables, 0, steps, fused=True)
        for epoch, batches in central_epochs(work.feed, work.training, node, update, work.seed):
            loss = _Loss(work, self._graph, node, epoch)
            for batch in batches:
                optimizer.zero_grad()
                torch.autograd.backward(loss.of(self._blocks(tables), batch))
                optimizer.step()
                work.arena.steps[0] += 1

    def _blocks(self, tables: Mapping[str, Tensor]) -> Tensors:
        return self.work.layout.blocks_by_name(tables) | constants_to_tensors(self.work.model.constants)


class _Loss:
    """The loss of each step of an epoch, with its draws by (seed, node, epoch, step)."""

    def __init__(self, work: ExecutorContext, graph: InteractionGraph, node: int, epoch: int) -> None:
        self._work, self._graph = work, graph
        self._views: Sequence[InteractionGraph] = ()
        if isinstance(work.model, GraphModel):
            self._views = work.model.draw_views(graph, generator(work.seed, "graph-views", node, epoch))
        self._draw = generator(work.seed, "graph-steps", node, epoch)  # of models with and without a graph

    def of(self, p: Tensors, batch: Columns) -> Tensor:
        """Return the loss of a batch."""
        model = self._work.model
        if isinstance(model, GraphModel):
            p = dict(model.encode_step(p, self._graph, self._views, self._draw))
        if isinstance(model, SequenceModel):
            batch = model.without_padding(batch)
        batch = {**batch, **model.draws(batch, self._draw)}
        samples = {name: to_tensor(column) for name, column in batch.items()}
        return model.loss(p, {**samples, "weights": torch.ones(len(samples["user"]))})
