"""Client training by a written-out gradient: one client after the other, each in matrix products of its own size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gossiprec.arrays import F32, I32, U8
from gossiprec.compute.executors.base import Workload
from gossiprec.compute.executors.client_trainer import ClientTrainer, Lesson
from gossiprec.compute.executors.tensors import one_torch_thread, tables_of
from gossiprec.compute.store.updates import Update, UpdateStore
from gossiprec.compute.train.full_batch_kernels import draw_items, step_adam

VALUES, SLOPES, FIRST, SECOND = range(4)


class FullBatches(ClientTrainer):
    """Trains a user's row, the items it touches and the shared weights by the model's :class:`AnalyticGradient`.

    Items are worked out once each, whatever the number of their samples, and nothing is padded: no client's bytes
    depend on another. Losses of recommenders, batches, and what policies do to training are not for it.
    """

    name = "fused"

    def __init__(self, work: Workload, store: UpdateStore) -> None:
        super().__init__(work, store)
        self._room = _Room(work)

    def warm_up(self) -> None:
        """Compile what is compiled."""
        room = _Room(self.work)
        room.draw(np.zeros(1, np.int32), np.zeros(1, np.uint8), (0, 0, 0, 0))
        room.step_adam(self.work, 0, 0)

    def train(self, lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Update]]:
        """Yield each lesson with its update."""
        with torch.no_grad(), one_torch_thread():
            for lesson in lessons:
                yield lesson, self._update(lesson)

    def _update(self, lesson: Lesson) -> Update:
        work, store, node, room = self.work, self.store, lesson.node, self._room
        training, positives = work.training, work.feed.positives[node]
        version = store.version(lesson.target)
        drawn = training.draw_of(lesson.update), training.negatives, work.seed
        n = room.draw(positives, work.feed.member[node], (node, *drawn)) if len(positives) else 0
        room.begin(version, store.own[node], n)
        if n:
            moments = [part[node] for part in (store.first, store.second) if len(part)]
            room.recall(moments)
            for step in range(training.local_epochs):
                room.fill()
                if training.optimizer == "adam":
                    room.step_adam(work, int(store.steps[node]) + step, step)
                else:
                    room.step_sgd(training.learning_rate)
            store.steps[node] += training.local_epochs
            store.own[node] = room.user
            room.remember(moments)
        return room.update(version)


class _Room:
    """What clients are computed in, one after the other: as large as the longest so far.

    Of the parameters, their slopes and both moments there are: the user's row and the shared weights in one array, and
    the items' rows in another.
    """

    def __init__(self, work: Workload) -> None:
        kind = work.model.analytic_gradient()
        assert kind is not None, "see assembly.clients"
        self._gradient = kind(work.model)
        self._layout = work.layout
        self._core_layout = replace(work.layout, n_items=0)
        self._cores = [torch.zeros(self._core_layout.size) for _ in range(4)]
        self._core = [core.numpy() for core in self._cores]
        self._tables = [tables_of(self._core_layout, self._cores[k]) for k in (VALUES, SLOPES)]
        self._counts = np.zeros(work.layout.n_items, np.int32)
        self._drawn = np.zeros(0, np.int32)
        self._touched: I32 = np.zeros(0, np.int32)
        self._items: list[Tensor] = [torch.zeros(0, work.layout.item_width)] * 4
        self._n = 0

    @property
    def user(self) -> F32:
        """The user's row."""
        return self._core[VALUES][self._core_layout.users]

    def draw(self, positives: I32, member: U8, about: tuple[int, int, int, int]) -> int:
        """Draw the samples of (node, update, negatives, seed); return how many items are in them."""
        node, update, negatives, seed = about
        n_samples = len(positives) * (1 + negatives)
        if len(self._drawn) < n_samples:
            self._drawn, self._touched = (np.empty(n_samples, np.int32) for _ in range(2))
            self._samples, self._labels = (torch.empty(n_samples) for _ in range(2))
            self._items = [torch.empty(n_samples, self._layout.item_width) for _ in range(4)]
        found: int = draw_items(
            positives, member, node, update, negatives, np.uint64(seed), self._drawn, self._counts, self._touched,
            self._samples.numpy(), self._labels.numpy(),
        )  # fmt: skip
        return found

    def begin(self, version: F32, user: F32, n: int) -> None:
        """Take over a user's row, and what it touches of a version."""
        end, self._n = self._layout.items.stop - self._layout.items.start, n
        core, layout = self._core, self._core_layout
        core[VALUES][layout.users], core[VALUES][layout.shared] = user, version[end:]
        rows = self._items[VALUES].numpy()[:n]
        np.take(version[:end].reshape(self._layout.n_items, -1), self._touched[:n], axis=0, out=rows)
        self._p, self._slopes = (
            self._layout.named(self._tables[k] | {"items": self._items[k][:n]}) for k in (VALUES, SLOPES)
        )

    def recall(self, moments: Sequence[F32]) -> None:
        """Take over the user's moments, if there are any; those of all else are zero."""
        for k, kept in zip((FIRST, SECOND), moments, strict=False):
            self._core[k][:] = 0
            self._items[k][: self._n] = 0
            self._core[k][self._core_layout.users] = kept

    def remember(self, moments: Sequence[F32]) -> None:
        """Keep the user's moments, if there are any."""
        for k, kept in zip((FIRST, SECOND), moments, strict=False):
            kept[:] = self._core[k][self._core_layout.users]

    def fill(self) -> None:
        """Work out the slopes."""
        self._gradient.fill(self._p, self._slopes, self._samples[: self._n], self._labels[: self._n])

    def step_sgd(self, rate: float) -> None:
        """Take a step of plain gradient descent."""
        self._cores[VALUES].sub_(self._cores[SLOPES], alpha=rate)
        self._items[VALUES][: self._n].sub_(self._items[SLOPES][: self._n], alpha=rate)

    def step_adam(self, work: Workload, taken: int, of_rest: int) -> None:
        """Take a step of Adam: the user's row has taken so many before, and all else so many."""
        training, end = work.training, self._core_layout.users.stop
        rates = training.learning_rate, training.beta1, training.beta2, training.epsilon
        step_adam(*(part[:end] for part in self._core), taken + 1, *rates)
        step_adam(*(part[end:] for part in self._core), of_rest + 1, *rates)
        step_adam(*(part[: self._n].view(-1).numpy() for part in self._items), of_rest + 1, *rates)

    def update(self, version: F32) -> Update:
        """Return what has become of the version."""
        shared, rows = self._core[VALUES][self._core_layout.shared], self._items[VALUES].numpy()
        return Update(version, self._touched[: self._n].copy(), rows[: self._n].copy(), shared.copy())
