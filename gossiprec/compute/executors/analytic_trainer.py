"""The base class of trainers with analytic gradients: it groups clients into calls and unpacks the results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.client_trainer import ClientTrainer, TrainingTask
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.client_step_kernels import ClientResults, ClientRows, ClientScratch, Version
from gossiprec.numerics.buffer_pool import BufferPool

AT_ONCE = 2**20
"""Approximate numbers in the rows that one call returns: a few MB, so that threads wait little at a wave's end."""


class AnalyticTrainer(ClientTrainer):
    """A trainer that runs several clients of one version in one compiled call, without padding.

    No client's bytes depend on another client. Batches, and policies that change training, are not supported.
    """

    name = "fused"
    parallel = True

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        super().__init__(work, store)
        training, self._memory, self._scratch = work.training, BufferPool(), BufferPool()
        self._rates = np.array(
            [
                training.learning_rate, training.beta1, training.beta2, training.epsilon,
                training.uploads_gradients,
            ]
        )  # fmt: skip

    def train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield each task with its update; several tasks of one version are trained in one call."""
        width = self.work.layout.item_width
        for all_ in self.by_what_was_sent(lessons):
            ends = np.cumsum(self._own_touched(all_)) * width // AT_ONCE
            for numbers in np.split(np.arange(len(all_)), np.flatnonzero(np.diff(ends)) + 1):
                yield from self._train([all_[k] for k in numbers])

    @abstractmethod
    def _train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield some tasks with their updates; all start from one version with the same extras."""

    def _own_touched(self, lessons: Sequence[TrainingTask]) -> I64:
        """Return the largest number of items that each client can touch by its own samples."""
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        samples = self.work.feed.positives.sizes[nodes] * (1 + self.work.training.negatives)
        return np.minimum(samples, self.work.layout.n_items)

    @property
    def _rows(self) -> ClientRows:
        """The store's rows and optimizer steps of all nodes."""
        store = self.store
        return ClientRows(store.own, store.first, store.second, store.steps)

    def _parts(self, version: F32) -> Version:
        """Return the item table and the shared weights of a version."""
        layout = self.work.layout
        tables, shared = np.split(version, [layout.n_items * layout.item_width])
        return Version(tables.reshape(layout.n_items, -1), shared)

    def _room(self, touched_at_most: I64) -> ClientResults:
        """Return room for the results of clients, given the most items that each can touch."""
        layout, n = self.work.layout, len(touched_at_most)
        places = np.zeros(n + 1, np.int64)
        np.cumsum(np.minimum(touched_at_most, layout.n_items), out=places[1:])
        most = int(places[-1])
        touched, *parts = self._memory.empty((most,), (most, layout.item_width), (n, layout.n_shared))
        return ClientResults(places, np.zeros(n, np.int64), touched.view(np.int32), *parts)

    def _workplace(self, found: ClientResults) -> ClientScratch:
        """Return the working arrays for clients with the given results."""
        layout, most = self.work.layout, int(np.diff(found.places).max(initial=0))
        n_own = self.store.own.shape[1] + layout.n_shared
        return ClientScratch(*self._scratch.empty((4, n_own), (4, layout.item_width * most)))

    @staticmethod
    def _updates(
        lessons: Sequence[TrainingTask], version: F32, found: ClientResults
    ) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield the tasks with views of the results: copies would cost as much as a small client's step."""
        begins = zip(lessons, found.places.tolist(), found.n_touched.tolist(), found.weights, strict=False)
        for lesson, at, many, weights in begins:
            some = slice(at, at + many)
            yield lesson, Update(version, found.touched[some], found.rows[some], weights)
