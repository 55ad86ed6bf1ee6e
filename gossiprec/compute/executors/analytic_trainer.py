"""What trainers of clients by written-out gradients share: calls of a size, and what comes back from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.client_trainer import ClientTrainer, TrainingTask
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.client_step_kernels import ClientResults, ClientScratch
from gossiprec.numerics.buffer_pool import BufferPool

AT_ONCE = 2**20
"""Numbers in the rows that the clients of one call give back, about: some MB, and little waiting where a wave ends."""


class AnalyticTrainer(ClientTrainer):
    """Trains some clients of one version in one call, compiled; items are worked out once each, and nothing is padded.

    No client's bytes depend on another. Batches, and what policies do to training, are not for it.
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
        """Yield each lesson with its update; some of one version are trained in one call."""
        width = self.work.layout.item_width
        for all_ in self.by_what_was_sent(lessons):
            ends = np.cumsum(self._own_touched(all_)) * width // AT_ONCE
            for numbers in np.split(np.arange(len(all_)), np.flatnonzero(np.diff(ends)) + 1):
                yield from self._train([all_[k] for k in numbers])

    @abstractmethod
    def _train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield some lessons with their updates, from one version, with the same beside it."""

    def _own_touched(self, lessons: Sequence[TrainingTask]) -> I64:
        """Return how many items each can touch at most by its own samples."""
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        samples = self.work.feed.positives.sizes[nodes] * (1 + self.work.training.negatives)
        return np.minimum(samples, self.work.layout.n_items)

    def _parts(self, version: F32) -> tuple[F32, F32]:
        """Return the item table and the shared weights of a version."""
        layout = self.work.layout
        tables, shared = np.split(version, [layout.n_items * layout.item_width])
        return tables.reshape(layout.n_items, -1), shared

    def _room(self, touched_at_most: I64) -> ClientResults:
        """Return where results go of clients that touch so many items at most."""
        layout, n = self.work.layout, len(touched_at_most)
        places = np.zeros(n + 1, np.int64)
        np.cumsum(np.minimum(touched_at_most, layout.n_items), out=places[1:])
        most = int(places[-1])
        touched, *parts = self._memory.empty((most,), (most, layout.item_width), (n, layout.n_shared))
        return ClientResults(places, np.zeros(n, np.int64), touched.view(np.int32), *parts)

    def _workplace(self, found: ClientResults) -> ClientScratch:
        """Return where clients are trained whose results go there."""
        layout, most = self.work.layout, int(np.diff(found.places).max(initial=0))
        n_own = self.store.own.shape[1] + layout.n_shared
        return ClientScratch(*self._scratch.empty((4, n_own), (4, layout.item_width * most)))

    @staticmethod
    def _updates(
        lessons: Sequence[TrainingTask], version: F32, found: ClientResults
    ) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield the lessons with views of what has been found: copies would cost as much as a small client's step."""
        begins = zip(lessons, found.places.tolist(), found.n_touched.tolist(), found.weights, strict=False)
        for lesson, at, many, weights in begins:
            some = slice(at, at + many)
            yield lesson, Update(version, found.touched[some], found.rows[some], weights)
