"""Client training by an analytic gradient of sequences, drawn for many clients at once and compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.analytic_trainer import AnalyticTrainer
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.client_trainer import TrainingTask
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.sequence_batch_kernels import SequenceRule, SequenceSamples, specialise_sequence
from gossiprec.models.feeds.base import Columns


class SequenceTrainer(AnalyticTrainer):
    """The trainer of models with a :class:`SequenceGradient`: items of the sequence and shared weights.

    The recommender may change the feed's sequences, but must not add to the loss. One
    thread draws for all clients, and all threads train: drawing takes longer, and threads would wait for each other's
    interpreter.
    """

    divides = True

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        super().__init__(work, store)
        gradient = work.model.sequence_gradient()
        assert gradient is not None, "see assembly.clients"
        self._shape, self._train_clients = gradient.shape, specialise_sequence(gradient.fill)

    def warm_up(self) -> None:
        """Compile the kernel by a call without clients."""
        self._call([], [], self._no_places(), 0)

    def _train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        drawn = self._drawn(lessons)
        keep = [self._no_places()]
        for lesson, samples in zip(lessons, drawn, strict=True):
            for step in range(self.work.training.local_epochs if len(samples["items"]) else 0):
                _, beside = self.work.draws(lesson.node, lesson.update, step, samples)
                keep += [beside[name][0] for name in ("keep",) if name in beside]
        return self._call(lessons, drawn, np.concatenate(keep), lessons[0].target)

    def _drawn(self, lessons: Sequence[TrainingTask]) -> list[Columns]:
        """Return each client's sequence."""
        training, work = self.work.training, self.work
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        updates = np.array([training.draw_of(lesson.update) for lesson in lessons], np.int64)
        drawn = work.feed.samples_of_some(nodes, updates, negatives=training.negatives, seed=work.seed)
        return [self.changed(lesson, columns) for lesson, columns in zip(lessons, drawn, strict=True)]

    def _own_touched(self, lessons: Sequence[TrainingTask]) -> I64:
        """Return the approximate number of items that each client touches; recommenders may add some."""
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        most: I64 = self.work.feed.positives.sizes[nodes] + self.work.training.negatives
        return most

    def _no_places(self) -> F32:
        return np.zeros((0, self.work.layout.item_width), np.float32)

    def _call(
        self, lessons: Sequence[TrainingTask], drawn: Sequence[Columns], keep: F32, target: int
    ) -> Iterator[tuple[TrainingTask, Update]]:
        """Train tasks of the version under a handle; return an iterator over the tasks with their updates."""
        store, version = self.store, self.store.version(target)
        previous, wanted, others = (
            Ragged.from_parts([np.zeros(0, np.int32), *(columns[name].ravel() for columns in drawn)])
            for name in ("previous", "items", "negatives")
        )
        found = self._room(2 * wanted.sizes[1:] + others.sizes[1:])
        rows = [
            part.shape[1] if part.ndim == 3 else 1 for part in (columns["negatives"] for columns in drawn)
        ]
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        sequences = SequenceSamples(
            wanted.offsets[1:], previous.values, wanted.values, others.offsets[1:], others.values,
            np.array(rows, np.int64), keep,
        )  # fmt: skip

        epochs = self.work.training.local_epochs

        def train(part: int) -> None:
            self._train_clients(
                self._parts(version), nodes, self._rows, sequences,
                SequenceRule(epochs, self._rates, self._shape, part, store.threads.size), found,
                self._workplace(found),
            )  # fmt: skip

        store.threads.run(train)
        return self._updates(lessons, version, found)
