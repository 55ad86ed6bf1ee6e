"""Client training by a written-out gradient: one client after the other, each in matrix products of its own size."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from gossiprec.arrays import F32
from gossiprec.compute.executors.base import Workload
from gossiprec.compute.executors.client_trainer import ClientTrainer, Lesson
from gossiprec.compute.executors.tensors import tables_of
from gossiprec.compute.store.updates import Update, UpdateStore
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.feeds import PointwiseFeed
from gossiprec.feeds.touched import Touched
from gossiprec.models.base import Layout, Model
from gossiprec.models.base.analytic import AnalyticGradient
from gossiprec.recommenders.base import Recommender


class FullBatches(ClientTrainer):
    """Trains flat rows ``[user | touched items | shared]`` by a model's :class:`AnalyticGradient`.

    Rows are as long as the client's own lists: nothing is padded, and no client's bytes depend on another.
    """

    name = "fused"
    parallel = True  # torch lets go of the GIL

    def __init__(self, work: Workload, store: UpdateStore) -> None:
        super().__init__(work, store)
        self._of_thread = threading.local()

    @staticmethod
    def lacks(
        model: Model, training: TrainingSettings, settings: NodeSettings, recommender: Recommender | None
    ) -> str | None:
        """Return what it cannot train, in words for "has no written-out gradient for ...", or None."""
        if recommender is not None:
            return f"the losses that recommender {type(recommender).__name__} adds"
        if model.analytic_gradient() is None or model.feed is not PointwiseFeed:
            return type(model).__name__
        if training.batch_size is not None:
            return f"batches of {training.batch_size} (training.batch_size)"
        if (settings.kinds != Kind.PLAIN).any():
            return "training that policies change"
        return None

    def train(self, lessons: Sequence[Lesson]) -> Iterator[tuple[Lesson, Update]]:
        """Yield each lesson with its update."""
        with torch.no_grad():
            for lesson in lessons:
                yield lesson, self._update(lesson)

    def _update(self, lesson: Lesson) -> Update:
        store, layout, touched = self.store, self.work.layout, lesson.touched
        version, end = store.version(lesson.target), layout.n_items * layout.item_width
        small = _small(layout, len(touched.items))
        row = torch.empty(small.size)
        values: F32 = row.numpy()
        values[small.users] = store.own[lesson.node]
        np.take(
            version[:end].reshape(layout.n_items, -1),
            touched.items,
            axis=0,
            out=values[small.items].reshape(small.n_items, layout.item_width),
        )
        values[small.shared] = version[end:]
        if len(touched.items):
            self._descend(row, small, lesson)
            store.own[lesson.node] = values[small.users]
        rows = values[small.items].reshape(small.n_items, layout.item_width)
        return Update(version, touched.items, rows.copy(), values[small.shared].copy())

    def _descend(self, row: Tensor, small: Layout, lesson: Lesson) -> None:
        """Take the optimizer steps of a local update, in place."""
        training, store, slopes = self.work.training, self.store, torch.empty_like(row)
        adam_of = _Adam(row, slopes, small, training, store, lesson.node) if len(store.first) else None
        p, by_name = (small.named(tables_of(small, part)) for part in (row, slopes))
        samples, positives = _shares(lesson.touched)
        gradient = self._gradient_of_thread
        for _ in range(training.local_epochs):
            gradient.fill(p, by_name, samples, positives)
            if adam_of is None:
                row.sub_(slopes, alpha=training.learning_rate)
            else:
                adam_of.step()
        store.steps[lesson.node] += training.local_epochs
        if adam_of is not None:
            adam_of.keep(store, lesson.node)

    @property
    def _gradient_of_thread(self) -> AnalyticGradient:
        mine, kind = self._of_thread, self.work.model.analytic_gradient()
        if not hasattr(mine, "gradient"):
            assert kind is not None, "see lacks()"
            mine.gradient = kind(self.work.model)
        found: AnalyticGradient = mine.gradient
        return found


class _Adam:
    """Adam on a row: of the user's part, which has taken steps before, and of the rest, which has taken none."""

    def __init__(
        self, row: Tensor, slopes: Tensor, small: Layout, training: TrainingSettings, store: UpdateStore, node: int
    ) -> None:  # fmt: skip
        self._training, self._users = training, small.users
        self._first, self._second = (torch.zeros_like(row) for _ in range(2))
        for moments, kept in ((self._first, store.first), (self._second, store.second)):
            moments[small.users] = torch.from_numpy(kept[node])
        halves = (row, slopes, self._first, self._second)
        self._halves = [[part[small.users], part[small.users.stop :]] for part in halves]
        self._taken = [torch.tensor(float(store.steps[node])), torch.tensor(0.0)]

    def step(self) -> None:
        """Take one step."""
        training, (values, slopes, first, second) = self._training, self._halves
        adam(
            values, slopes, first, second, [], self._taken, lr=training.learning_rate, beta1=training.beta1,
            beta2=training.beta2, eps=training.epsilon, weight_decay=0.0, amsgrad=False, maximize=False, fused=True,
        )  # fmt: skip

    def keep(self, store: UpdateStore, node: int) -> None:
        """Keep the moments of the user's part."""
        store.first[node] = self._first[self._users].numpy()
        store.second[node] = self._second[self._users].numpy()


@functools.lru_cache(maxsize=4096)
def _small(layout: Layout, n_touched: int) -> Layout:
    return replace(layout, n_items=n_touched)


def _shares(touched: Touched) -> tuple[Tensor, Tensor]:
    """Return each touched item's share of the samples, and that of its positive ones."""
    place, labels = touched.samples["items"], touched.samples["labels"]
    samples = np.bincount(place, minlength=len(touched.items))
    positives = np.bincount(place, weights=labels, minlength=len(touched.items))
    shares = (torch.from_numpy((counts / len(place)).astype(np.float32)) for counts in (samples, positives))
    return next(shares), next(shares)
