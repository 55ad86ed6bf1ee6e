"""The executor of a coordinator that trains one model on all users' interactions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import ThreadPoolLike
from gossiprec.base.rng import generator
from gossiprec.compute.executors.base import Executor, ExecutorContext, TrainingExecutor
from gossiprec.compute.executors.tensors import (
    Tensors,
    batch_items,
    constants_to_tensors,
    loss_of_terms,
    make_optimizer,
    table_views,
    to_tensor,
)
from gossiprec.compute.local_update import central_epochs
from gossiprec.compute.plan.program import Program
from gossiprec.models.base import Model
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.graph_product import add_rows
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread

VECTORS = 1024
"""Parts of a table begin at multiples of this number, whole vectors of any loop of torch."""


class CentralExecutor(TrainingExecutor):
    """The executor that trains the coordinator's model; another executor scores it.

    The products with the graph and the optimizer take all threads. Autograd takes one: torch's division of a sum among
    several may change the last bits.

    Parameters
    ----------
    work : ExecutorContext
        Its arena has one row, which all nodes share
        (:class:`gossiprec.compute.store.arena.SingleModelStore`).
    scoring : Executor
        Scores whole models.
    """

    name = "central"
    parallel = True
    threads_internally = True

    def __init__(self, work: ExecutorContext, scoring: Executor) -> None:
        super().__init__(work, scoring)
        self._encoded: tuple[int, F32] | None = None  # number of steps, and the encoded rows after them

    @functools.cached_property
    def _graph(self) -> InteractionGraph:
        return InteractionGraph.of(self.work.feed.positives, self.work.layout.n_items, self.store.threads)

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
        tables: Tensors = {
            name: torch.nn.Parameter(table)
            for name, table in table_views(work.layout, torch.from_numpy(work.arena.rows[0])).items()
        }
        optimizer = _DividedOptimizer(work, tables, self.store.threads)
        terms = work.node_settings.terms_of(node)
        start = tables["items"].detach().clone() if terms else tables["items"]
        for epoch, batches in central_epochs(work.feed, work.training, node, update, work.seed):
            loss = _Loss(work, self._graph, node, epoch)
            for batch in batches:
                if self._by_batch_rows is None:
                    optimizer.clear()
                    torch.autograd.backward(loss.of(self._blocks(tables), batch))
                else:
                    self._take_gradient(tables, self._by_batch_rows, batch)
                if terms:
                    touched = batch_items(work.feed, batch)
                    torch.autograd.backward(loss_of_terms(terms, tables["items"], start, touched))
                optimizer.step()
                work.arena.steps[0] += 1

    @functools.cached_property
    def _by_batch_rows(self) -> BatchRowGradient | None:
        model = self.work.model
        if not isinstance(model, GraphModel) or model.layers_of_batches is None:
            return None
        return BatchRowGradient(model, self._graph, model.layers_of_batches)

    def _take_gradient(self, tables: Tensors, of_rows: BatchRowGradient, batch: Columns) -> None:
        """Set the gradients of the tables, which follow each other in the row of the arena."""
        n_rows, size = self._graph.n_users + self._graph.n_items, self.work.layout.size
        row = of_rows.of(self.work.arena.rows[0, :size].reshape(n_rows, -1), batch).ravel()
        for name, slopes in table_views(self.work.layout, torch.from_numpy(row)).items():
            tables[name].grad = slopes

    def _blocks(self, tables: Mapping[str, Tensor]) -> Tensors:
        return self.work.layout.blocks_by_name(tables) | constants_to_tensors(self.work.model.constants)


class _DividedOptimizer:
    """The optimizer of all tables, of which each thread moves a part.

    It moves each number by itself. Parts begin at whole vectors, so that torch computes each number in the same way.
    """

    def __init__(self, work: ExecutorContext, tables: Tensors, threads: ThreadPoolLike) -> None:
        self._tables, self._threads, steps = tables, threads, dict.fromkeys(tables, work.arena.steps[0])
        self._parts = [
            {name: torch.nn.Parameter(self._cut(part, table.detach())) for name, table in tables.items()}
            for part in range(threads.size)
        ]
        self._optimizers = [
            make_optimizer(work, parameters, 0, steps, functools.partial(self._cut, part), fused=True)
            for part, parameters in enumerate(self._parts)
        ]

    def _cut(self, part: int, table: Tensor) -> Tensor:
        flat, size = table.reshape(-1), self._threads.size
        low, high = (len(flat) * end // size // VECTORS * VECTORS for end in (part, part + 1))
        return flat[low : high if part < size - 1 else len(flat)]

    def clear(self) -> None:
        """Forget the gradients."""
        for table in self._tables.values():
            table.grad = None

    def step(self) -> None:
        """Move all tables that have a gradient."""
        self._threads.run(self._step)

    def _step(self, part: int) -> None:
        with single_torch_thread():
            for name, parameter in self._parts[part].items():
                slopes = self._tables[name].grad
                parameter.grad = None if slopes is None else self._cut(part, slopes)
            self._optimizers[part].step()


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


class BatchRowGradient:
    """The gradient of models with :attr:`GraphModel.layers_of_batches`: autograd for a batch's rows, products for all.

    A step multiplies by the graph as often as autograd would. But the last layer is computed for the rows of the batch
    only, its slopes are zero elsewhere, and no other table of all rows is made. The bytes are those of autograd.

    Parameters
    ----------
    model : GraphModel
    graph : InteractionGraph
    n_layers : int
    """

    def __init__(self, model: GraphModel, graph: InteractionGraph, n_layers: int) -> None:
        self._model, self._graph, self._n_layers = model, graph, n_layers
        self._place = np.full(graph.n_users + graph.n_items, -1, np.int32)
        self._tables: list[F32] = []  # of each layer but the first and the last, and two of slopes

    def of(self, rows: F32, batch: Columns) -> F32:
        """Return the gradient of the loss of a batch by the rows of layer 0.

        Parameters
        ----------
        rows : ndarray of float32, shape (n_users + n_items, d)
            The rows of users, then of items.
        batch : Columns
            ``user``, ``items`` and ``negatives``, shape (n_samples,) each.

        Returns
        -------
        ndarray of float32, shape (n_users + n_items, d)
            The next call overwrites it.
        """
        n_samples, n_users, matrix = len(batch["user"]), self._graph.n_users, self._graph.matrix
        users, user = np.unique(batch["user"], return_inverse=True)
        items, item = np.unique(np.concatenate([batch["items"], batch["negatives"]]), return_inverse=True)
        touched = np.concatenate([users, items + n_users]).astype(np.int64)
        samples = {"user": user, "items": item[:n_samples], "negatives": item[n_samples:]}

        if not self._tables:
            self._tables = [np.empty_like(rows) for _ in range(self._n_layers + 1)]
        *tables, found, other = self._tables
        layers = [rows]
        for table in tables:
            layers.append(matrix.times(layers[-1], out=table))
        some = [*(layer.take(touched, axis=0) for layer in layers), matrix.times(layers[-1], touched)]
        own, of_layers = self._slopes(rows[touched], some, len(users), samples)

        self._place[touched] = np.arange(len(touched))
        slopes = of_layers.pop()
        matrix.times_few(self._place, np.zeros_like(own) if slopes is None else slopes, out=found)
        self._place[touched] = -1
        while of_layers:
            slopes = of_layers.pop()
            if slopes is not None:
                add_rows(found, touched, slopes)
            if of_layers:
                found, other = matrix.times(found, out=other), found
        add_rows(found, touched, own)
        return found

    def _slopes(
        self, own: F32, layers: list[F32], n_users: int, samples: dict[str, I64]
    ) -> tuple[F32, list[F32 | None]]:
        """Return the derivatives by the batch's rows that the loss reads directly, and by these rows of each layer."""
        model, none = self._model, np.zeros(0, np.int64)
        graph = InteractionGraph(n_users, len(own) - n_users, none, none)
        leaf, *leaves = (torch.from_numpy(each).requires_grad_() for each in (own, *layers))
        p = {"users": leaf[:n_users], "items": leaf[n_users:]}
        batch = {name: torch.from_numpy(column) for name, column in samples.items()}
        found = model.encode_rows(p, leaves, graph)
        loss = model.loss(found, {**batch, "weights": torch.ones(len(batch["user"]))})
        torch.autograd.backward(loss)
        own = np.zeros(tuple(leaf.shape), np.float32) if leaf.grad is None else leaf.grad.numpy()
        return own, [None if each.grad is None else each.grad.numpy() for each in leaves]
