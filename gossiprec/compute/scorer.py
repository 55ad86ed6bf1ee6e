"""The model's formula without any node's data, with which attacks compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.local_update import NodeSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.models.base.kernel_interface import ModelKernels, ScoreQuery
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import Feed


class ImitatedNodes:
    """Nodes that an attack imitates, with data of its choice.

    Parameters
    ----------
    executor : Executor
        Of these nodes alone, each with one row.
    nodes : ndarray of int64
    """

    def __init__(self, executor: Executor, nodes: I64) -> None:
        self._executor, self._nodes = executor, nodes

    @property
    def rows(self) -> F32:
        """The nodes' present versions, shape (n, row_size); they may be changed between updates."""
        return self._executor.work.arena.rows

    def train(self, update: int, threads: ThreadPool) -> None:
        """Run local update number `update` of every node."""
        n = len(self.rows)
        program = Program.of_updates(self._nodes.astype(np.int32), np.full(n, update, np.int32))
        if not self._executor.parallel:
            self._executor.run(program, np.arange(n))
            return
        threads.run(lambda part: self._executor.run(program, np.array(threads.part_range(n, part), np.int64)))


class Scorer:
    """A scorer and trainer of given rows and data that computes as the run's executor does.

    Parameters
    ----------
    executor : Executor
        The run's executor. Only its kind, device, model, layout and training settings are used.

    Attributes
    ----------
    model, layout, training
        Public information, which every node has.
    storage : str
        Number format of rows.
    """

    def __init__(self, executor: Executor) -> None:
        work = executor.work
        self.model, self.layout, self.training = work.model, work.layout, work.training
        self.storage = work.arena.rows.dtype.name
        self._kind, self._device = executor.executor_class, executor.device
        empty_feed = work.feed.restricted_to(np.zeros(0, np.int64))
        self._work = replace(
            work,
            feed=empty_feed,
            arena=self._arena(work),
            node_settings=NodeSettings.without_policies(1),
            candidates=None,
            recommender=None,  # its draws and extras belong to clients
        )
        self._executor = self._kind(self._work, self._device)

    @property
    def kernels(self) -> ModelKernels | None:
        """The model's compiled form, if the run uses it and it scores."""
        kernels = getattr(self._executor, "kernels", None)
        return kernels if kernels is not None and kernels.scores else None

    @property
    def is_plain(self) -> bool:
        """Whether the run is too small for compiled code."""
        return self._executor.name == "reference"

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores, shape (offsets[-1],); logits if the model predicts probabilities."""
        return self._executor.score(query)

    def train_like_node(
        self, feed: Feed, start: F32, *, updates: int, seed: int, as_uploaded: bool = False
    ) -> F32:
        """Return a model after local updates as a node runs them.

        Parameters
        ----------
        feed : Feed
            A feed of node 0 only.
        start : ndarray of float32, shape (>= size,)
            First version, in the layout of a node that holds only its own user row.
        updates : int
            Number of local updates.
        seed : int
            Seed of negatives and orders.
        as_uploaded : bool
            Whether to train by plain gradient descent if clients upload raw gradients; the user's row then differs.

        Returns
        -------
        ndarray of float32, shape (row_size,)
        """
        layout, training = replace(self.layout, n_users=1), self._work.training
        if as_uploaded and training.uploads_gradients:
            training = replace(training, optimizer="sgd")
        work = replace(self._work, layout=layout, training=training)
        arena = self._arena(work)
        arena.rows[0, : layout.size] = start[: layout.size]
        executor = self._kind(replace(work, feed=feed, arena=arena, seed=seed), "cpu")
        for update in range(updates):
            program = Program.of_updates(np.zeros(1, np.int32), np.array([update], np.int32))
            executor.run(program, np.zeros(1, np.int64))
        return arena.rows[0]

    def imitate_nodes(self, feed: Feed, layout: Layout, nodes: I64, rows: F32, seed: int) -> ImitatedNodes:
        """Return nodes with the data of a feed and first versions `rows`, that train as the run's nodes do.

        Parameters
        ----------
        feed : Feed
        layout : Layout
            Of a node that holds only its own user row; it may have fewer items than the run's.
        nodes : ndarray of int64, shape (n,)
            Numbers of the nodes in the feed, ascending. Draws of a node are functions of its number.
        rows : ndarray of float32, shape (n, row_size)
        seed : int
            Seed of negatives and orders.
        """
        n, adam = int(nodes[-1]) + 1, self._work.training.optimizer == "adam"
        arena = Arena(layout, n_nodes=n, capacity=len(nodes), moments=adam)
        arena.rows[:] = rows
        work = replace(
            self._work,
            layout=layout,
            feed=feed,
            arena=arena,
            seed=seed,
            node_settings=NodeSettings.without_policies(n),
        )
        return ImitatedNodes(self._kind(work, "cpu"), nodes)

    @staticmethod
    def _arena(work: ExecutorContext) -> Arena:
        return Arena(work.layout, n_nodes=1, capacity=1, moments=work.training.optimizer == "adam")
