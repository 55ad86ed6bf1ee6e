"""A model's formula without anybody's data: what an attack computes with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gossiprec.arrays import F32
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.feeds.base import Feed
from gossiprec.models.base.kernel_interface import ModelKernels


class Scorer:
    """Scores rows that it is given, and trains models from data that it is given, as the run's executor would.

    Parameters
    ----------
    executor : Executor
        Of the run: its kind and device, the model, its layout and the training settings are taken over, nothing else.

    Attributes
    ----------
    model, layout, training
        Public: every node knows them.
    storage : str
        In which rows are kept.
    """

    def __init__(self, executor: Executor) -> None:
        work = executor.work
        self.model, self.layout, self.training = work.model, work.layout, work.training
        self.storage = work.arena.rows.dtype.name
        self._kind, self._device = executor.kind, executor.device
        nobody = work.feed.only(np.zeros(0, np.int64))
        self._work = replace(
            work,
            feed=nobody,
            arena=self._arena(work),
            node_settings=NodeSettings.none(1),
            candidates=None,
            recommender=None,  # what that draws and is sent belongs to clients
        )
        self._executor = self._kind(self._work, self._device)

    @property
    def kernels(self) -> ModelKernels | None:
        """The model's compiled form, if the run uses it."""
        return getattr(self._executor, "kernels", None)

    @property
    def plain(self) -> bool:
        """Whether the run is too small for anything compiled."""
        return self._executor.name == "reference"

    @property
    def scores(self) -> Callable[..., F32]:
        """What returns predicted scores, as :meth:`gossiprec.compute.executors.base.Executor.scores`."""
        return self._executor.scores

    def trained(self, feed: Feed, start: F32, *, updates: int, seed: int, as_uploaded: bool = False) -> F32:
        """Return a model trained as a node would train it.

        Parameters
        ----------
        feed : Feed
            Of node 0 alone.
        start : ndarray of float32, shape (>= size,)
            First version, in the layout of a node that holds its own user row alone.
        updates : int
            Local updates.
        seed : int
            Of negatives and orders.
        as_uploaded : bool
            Where clients upload raw gradients: by plain descent, which leaves the user's row another.

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
            program = Program.updates(np.zeros(1, np.int32), np.array([update], np.int32))
            executor.run(program, np.zeros(1, np.int64))
        trained: F32 = arena.rows[0]
        return trained

    @staticmethod
    def _arena(work: ExecutorContext) -> Arena:
        return Arena(work.layout, n_nodes=1, capacity=1, moments=work.training.optimizer == "adam")
