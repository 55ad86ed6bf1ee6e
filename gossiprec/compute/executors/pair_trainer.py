"""Client training by an analytic gradient of pairs, drawn for many clients at once and compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.compute.executors.analytic_trainer import AnalyticTrainer
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.client_trainer import TrainingTask
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.pair_batch_kernels import PairRule, PairSamples, specialise_pair
from gossiprec.models.feeds.base import Columns


class PairTrainer(AnalyticTrainer):
    """The trainer of models with a :class:`PairGradient`: user row, items of the pairs and shared weights.

    The recommender may change the feed's pairs, but must not add to the loss.
    """

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        super().__init__(work, store)
        gradient = work.model.pair_gradient()
        assert gradient is not None, "see assembly.clients"
        self._numbers, self._train_clients = gradient.numbers, specialise_pair(gradient.fill)

    def warm_up(self) -> None:
        """Compile the kernel by a call without clients."""
        self._call([], [], 0)

    def _train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        return self._call(lessons, self._drawn(lessons), lessons[0].target)

    def _drawn(self, lessons: Sequence[TrainingTask]) -> list[Columns]:
        """Return each client's pairs."""
        training, work = self.work.training, self.work
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        updates = np.array([training.draw_of(lesson.update) for lesson in lessons], np.int64)
        drawn = work.feed.samples_of_some(nodes, updates, negatives=training.negatives, seed=work.seed)
        return [self.changed(lesson, columns) for lesson, columns in zip(lessons, drawn, strict=True)]

    def _call(
        self, lessons: Sequence[TrainingTask], drawn: Sequence[Columns], target: int
    ) -> Iterator[tuple[TrainingTask, Update]]:
        """Train tasks of the version under a handle; return an iterator over the tasks with their updates."""
        version = self.store.version(target)
        sizes = np.array([len(columns["items"]) for columns in drawn], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        liked, others = (
            np.concatenate([np.zeros(0, np.int32), *(columns[name] for columns in drawn)])
            for name in ("items", "negatives")
        )
        found = self._room(2 * sizes)
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        self._train_clients(
            self._parts(version), nodes, self._rows, PairSamples(offsets, liked, others),
            PairRule(self.work.training.local_epochs, self._rates, self._numbers), found, self._workplace(found),
        )  # fmt: skip
        return self._updates(lessons, version, found)
