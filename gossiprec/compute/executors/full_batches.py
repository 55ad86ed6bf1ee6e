"""Client training by a written-out gradient: compiled, item by item, by any number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F32, I64
from gossiprec.compute.executors.base import Workload
from gossiprec.compute.executors.client_trainer import ClientTrainer, Lesson
from gossiprec.compute.store.updates import Update, UpdateStore
from gossiprec.compute.train.full_batch_kernels import Data, Results, trainer
from gossiprec.feeds.base import Columns
from gossiprec.ragged import Ragged
from gossiprec.recommenders.base import AnalyticTerm
from gossiprec.recommenders.kernels import nothing
from gossiprec.servers.base import Extras

AT_ONCE = 2**20
"""Numbers in the rows that the clients of one call give back, about: some MB, and little waiting where a wave ends."""
_NOTHING = np.zeros((1, 1), np.float32)


class FullBatches(ClientTrainer):
    """Trains a user's row, the items it touches and the shared weights by the model's :class:`AnalyticGradient`.

    Items are worked out once each, whatever the number of their samples, and nothing is padded: no client's bytes
    depend on another. Batches, and what policies do to training, are not for it.
    """

    name = "fused"
    parallel = True

    def __init__(self, work: Workload, store: UpdateStore) -> None:
        super().__init__(work, store)
        gradient = work.model.analytic_gradient()
        assert gradient is not None, "see assembly.clients"
        term = None if work.recommender is None else work.recommender.analytic_term(gradient)
        self._gradient = gradient
        self._term = term or AnalyticTerm(nothing.add, np.zeros(0))
        self._train_clients = trainer(gradient.fill, self._term.add)
        training = work.training
        self._rates = np.array(
            [
                training.learning_rate, training.beta1, training.beta2, training.epsilon,
                training.uploads_gradients,
            ]
        )  # fmt: skip

    def warm_up(self) -> None:
        """Compile."""
        _, of_step, of_samples = self._drawn([Lesson(0, 0, 0, 0)], {})
        extra = _NOTHING if self._term.extra is None else self.store.own[:1]
        self._call([], [], self.store.version(0), extra, of_step, of_samples)

    def train(self, lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Update]]:
        """Yield each lesson with its update; some of one version are trained in one call."""
        width = self.work.layout.item_width
        for all_ in self.by_what_was_sent(lessons):
            extras = self.store.extras(all_[0].sent)
            extra = _NOTHING if self._term.extra is None else extras[self._term.extra]
            ends = np.cumsum(self._own_touched(all_)) * width // AT_ONCE
            for numbers in np.split(np.arange(len(all_)), np.flatnonzero(np.diff(ends)) + 1):
                some = [all_[k] for k in numbers]
                more, *drawn = self._drawn(some, extras)
                yield from self._call(some, more, self.store.version(some[0].target), extra, *drawn)

    def _own_touched(self, lessons: Sequence[Lesson]) -> I64:
        """Return how many items each can touch at most by its own samples."""
        nodes = np.array([lesson.node for lesson in lessons], np.int64)
        samples = self.work.feed.positives.sizes[nodes] * (1 + self.work.training.negatives)
        return np.minimum(samples, self.work.layout.n_items)

    def _drawn(
        self, lessons: Sequence[Lesson], extras: Extras
    ) -> tuple[list[Columns], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return what clients learn from besides, what the recommender draws for each step, and for each positive."""
        term, training, work = self._term, self.work.training, replace(self.work, extras=extras)
        more = [self.more_samples(lesson) for lesson in lessons] if extras else []
        if term.of_step is None and term.of_samples is None:
            return more, _NOTHING, _NOTHING
        of_step, of_samples = [], []
        for lesson in lessons:
            n = len(work.feed.positives[lesson.node]) * (1 + training.negatives)
            unknown = {"items": np.zeros(n, np.int32)}
            for step in range(training.local_epochs):
                one, beside = work.draws(lesson.node, lesson.update, step, unknown)
                of_step.append(_NOTHING[0] if term.of_step is None else one.get(term.of_step, _NOTHING[0]))
                of_samples.append(
                    _NOTHING[:0]
                    if term.of_samples is None
                    else beside[term.of_samples][:: 1 + training.negatives]
                )
        return more, np.stack(of_step), np.concatenate(of_samples)

    def _call(
        self, lessons: Sequence[Lesson], more: Sequence[Columns], version: F32, extra: npt.NDArray[Any],
        of_step: npt.NDArray[Any], of_samples: npt.NDArray[Any],
    ) -> list[tuple[Lesson, Update]]:  # fmt: skip
        """Return some lessons with their updates, from one version."""
        store, layout, training, gradient = self.store, self.work.layout, self.work.training, self._gradient
        feed, n = self.work.feed, len(lessons)
        tables, shared = np.split(version, [layout.n_items * layout.item_width])
        clients = [(lesson.node, training.draw_of(lesson.update)) for lesson in lessons]
        items = Ragged.from_parts([each["items"] for each in more]) if any(more) else _no_items(n)
        labels = np.concatenate([np.zeros(0, np.float32), *(each["labels"] for each in more if each)])
        data = Data(
            feed.positives.offsets, feed.positives.values, feed.member, items.offsets, items.values, labels
        )
        places = np.zeros(n + 1, np.int64)
        np.cumsum(np.minimum(self._own_touched(lessons) + items.sizes, layout.n_items), out=places[1:])
        found = Results(
            places, np.zeros(n, np.int64), np.empty(places[-1], np.int32),
            np.empty((places[-1], layout.item_width), np.float32), np.empty((n, len(shared)), np.float32),
        )  # fmt: skip
        self._train_clients(
            tables.reshape(layout.n_items, -1), shared, np.array(clients, np.int64).reshape(n, 2), store.steps,
            store.own, store.first, store.second, data, training.negatives, training.local_epochs,
            np.uint64(self.work.seed), self._rates, gradient.shape, np.empty(gradient.room, np.float32),
            self._term.numbers, extra, of_step, of_samples, found,
        )  # fmt: skip
        begins = zip(lessons, places.tolist(), found.n_touched.tolist(), found.weights, strict=False)
        return [
            (
                lesson,
                Update(
                    version, found.touched[at : at + many].copy(), found.rows[at : at + many].copy(), weights
                ),
            )
            for lesson, at, many, weights in begins
        ]


def _no_items(n: int) -> Ragged:
    """Return `n` empty lists."""
    return Ragged.from_sizes(np.zeros(n, np.int64), np.zeros(0, np.int32))
