"""Client training by an analytic full-batch gradient, compiled, in any number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.analytic_trainer import AnalyticTrainer
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.client_trainer import TrainingTask
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.full_batch_kernels import (
    ClientSamples,
    FullBatchRule,
    TermArguments,
    specialise_full_batch,
)
from gossiprec.federated.base import AnalyticTerm
from gossiprec.federated.kernels import terms
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers.base import Extras

_NOTHING = np.zeros((1, 1), np.float32)


class FullBatchTrainer(AnalyticTrainer):
    """The trainer of models with an :class:`AnalyticGradient`: user row, touched items and shared weights."""

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        super().__init__(work, store)
        gradient = work.model.analytic_gradient()
        assert gradient is not None, "see assembly.clients"
        term = None if work.recommender is None else work.recommender.analytic_term(gradient)
        self._gradient = gradient
        self._term = term or AnalyticTerm(terms.add_nothing, np.zeros(0))
        self._train_clients = specialise_full_batch(gradient.fill, self._term.add)

    def warm_up(self) -> None:
        """Compile the kernel by a call without clients."""
        _, of_step, of_samples = self._drawn([TrainingTask(0, 0, 0, 0)], {})
        extra = _NOTHING if self._term.extra is None else self.store.own[:1]
        self._call([], [], self.store.version(0), extra, of_step, of_samples)

    def _train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        extras = self.store.extras(lessons[0].sent)
        extra = _NOTHING if self._term.extra is None else extras[self._term.extra]
        more, *drawn = self._drawn(lessons, extras)
        return self._call(lessons, more, self.store.version(lessons[0].target), extra, *drawn)

    def _drawn(
        self, lessons: Sequence[TrainingTask], extras: Extras
    ) -> tuple[list[Columns], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return clients' extra samples, and the recommender's draws for each step and for each positive."""
        term, training, work = self._term, self.work.training, replace(self.work, extras=extras)
        more = [self.extra_samples(lesson) for lesson in lessons] if extras else []
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
        self, lessons: Sequence[TrainingTask], more: Sequence[Columns], version: F32, extra: npt.NDArray[Any],
        of_step: npt.NDArray[Any], of_samples: npt.NDArray[Any],
    ) -> Iterator[tuple[TrainingTask, Update]]:  # fmt: skip
        """Train some tasks of one version; return an iterator over the tasks with their updates."""
        training, gradient = self.work.training, self._gradient
        feed, n = self.work.feed, len(lessons)
        clients = [(lesson.node, training.draw_of(lesson.update)) for lesson in lessons]
        items = Ragged.from_parts([each["items"] for each in more]) if any(more) else _no_items(n)
        labels = np.concatenate([np.zeros(0, np.float32), *(each["labels"] for each in more if each)])
        data = ClientSamples(
            feed.positives.offsets, feed.positives.values, feed.member, items.offsets, items.values, labels
        )
        found = self._room(self._own_touched(lessons) + items.sizes)
        rule = FullBatchRule(
            training.negatives, training.local_epochs, np.uint64(self.work.seed), gradient.summed, self._rates,
            gradient.shape, np.empty(gradient.room, np.float32),
        )  # fmt: skip
        self._train_clients(
            self._parts(version), np.array(clients, np.int64).reshape(n, 2), self._rows, data, rule,
            TermArguments(self._term.numbers, extra, of_step, of_samples), found, self._workplace(found),
        )  # fmt: skip
        return self._updates(lessons, version, found)


def _no_items(n: int) -> Ragged:
    """Return `n` empty lists."""
    return Ragged.from_sizes(np.zeros(n, np.int64), np.zeros(0, np.int32))
