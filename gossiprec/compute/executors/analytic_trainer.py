"""The trainer of clients by analytic gradients, compiled: one trainer for three kinds of samples."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.compute import client_kernels as kernels
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.executors.clients import ClientTrainer, TrainingTask
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.store import ScoringView
from gossiprec.compute.store.update import Update, UpdateBatch
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.federated import AnalyticTerm, client_gradient, term_kernels
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.servers import Extras

AT_ONCE = 2**21
"""Approximate numbers in the rows that one call returns: a few MB, so that threads wait little at a wave's end."""
_NOTHING = np.zeros((1, 1), np.float32)
_NO_ITEMS = np.zeros(0, np.int32)


class AnalyticTrainer(ClientTrainer):
    """A trainer that runs several clients of one version in one compiled call, without padding.

    No client's bytes depend on another client. Policies that change training are not supported. A
    subclass adds a kind of samples.
    """

    name = "fused"
    parallel = True
    _train_clients: Any

    def __init__(self, work: ExecutorContext, store: UpdateStore, gradient: CompiledGradient) -> None:
        super().__init__(work, store)
        self._gradient = gradient
        self._memory, self._scratch = BufferPool(), BufferPool()
        self.use_training(work.training)

    def use_training(self, training: TrainingSettings) -> None:
        """Train with other numbers."""
        super().use_training(training)
        rates = [training.learning_rate, training.beta1, training.beta2, training.epsilon]
        self._rates = np.array([*rates, training.uploads_gradients])

    def warm_up(self) -> None:
        """Compile the kernel by a call without clients."""
        self._train([])

    def train(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield each task with its update; several tasks of one version are trained in one call."""
        width = self.work.layout.item_width
        for all_ in self.group_by_version(tasks):
            ends = np.cumsum(self._own_touched(_nodes(all_))) * width // AT_ONCE
            for numbers in np.split(np.arange(len(all_)), np.flatnonzero(np.diff(ends)) + 1):
                yield from self._train([all_[k] for k in numbers])

    def _own_touched(self, nodes: I64) -> I64:
        """Return the largest number of items that each client can touch by its own samples."""
        samples = self.work.feed.positives.sizes[nodes] * (1 + self.work.training.negatives)
        return np.minimum(samples, self.work.layout.n_items)

    def _train(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Train tasks of one version with the same extras; return an iterator over the tasks with their updates."""
        version, (samples, touched) = self.store.version(_target(tasks)), self._samples(tasks)
        found = self._room(touched)
        self._call(version, _nodes(tasks), samples, found)
        return self._updates(tasks, version, found)

    @abstractmethod
    def _samples(self, tasks: Sequence[TrainingTask]) -> tuple[Any, I64]:
        """Return the samples of tasks for the kernel, and the most items that each task can touch."""

    def _call(self, version: F32, nodes: I64, samples: Any, found: kernels.ClientResults) -> None:
        """Call the kernel, in all threads if the trainer divides the tasks itself."""
        store, layout = self.store, self.work.layout
        tables, shared = np.split(version, [layout.n_items * layout.item_width])
        sent = kernels.Version(tables.reshape(layout.n_items, -1), shared)
        rows = kernels.ClientRows(store.own, store.first, store.second, store.steps)
        parts = store.threads.size if self.threads_internally else 1
        most = int(np.diff(found.places).max(initial=0))
        core = store.own.shape[1] + layout.n_shared
        sizes = (4, core), (4, layout.item_width * most), (self._gradient.room,)

        def train(part: int) -> None:
            rule = kernels.ClientRule(
                self.work.training.local_epochs, self._rates, self._gradient.shape, part, parts
            )
            scratch = kernels.ClientScratch(*self._scratch.empty(*sizes))
            self._train_clients(sent, nodes, rows, samples, rule, found, scratch)

        if self.threads_internally:
            store.threads.run(train)
        else:
            train(0)

    def _room(self, touched_at_most: I64) -> kernels.ClientResults:
        """Return room for the results of clients, given the most items that each can touch."""
        layout, n = self.work.layout, len(touched_at_most)
        places = np.zeros(n + 1, np.int64)
        np.cumsum(np.minimum(touched_at_most, layout.n_items), out=places[1:])
        most = int(places[-1])
        touched, *parts = self._memory.empty((most,), (most, layout.item_width), (n, layout.n_shared))
        return kernels.ClientResults(places, np.zeros(n, np.int64), touched.view(np.int32), *parts)

    @staticmethod
    def _updates(
        tasks: Sequence[TrainingTask], version: F32, found: kernels.ClientResults
    ) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield the tasks with views of the results: copies would cost as much as a small client's step."""
        begins = found.places[:-1]
        batch = UpdateBatch(
            version, begins, begins + found.n_touched, found.touched, found.rows, found.weights
        )
        places = zip(tasks, batch.begins.tolist(), batch.ends.tolist(), found.weights, strict=False)
        for number, (task, begin, end, weights) in enumerate(places):
            items, rows = found.touched[begin:end], found.rows[begin:end]
            yield task, Update(version, items, rows, weights, None, batch, number)

    def _drawn(self, tasks: Sequence[TrainingTask]) -> list[Columns]:
        """Return each client's samples, drawn for all clients at once; the recommender may change them."""
        if not tasks:
            return []
        nodes, training, work = _nodes(tasks), self.work.training, self.work
        updates = np.array([training.negatives_update(task.update) for task in tasks], np.int64)
        drawn = work.feed.samples_of_some(nodes, updates, negatives=training.negatives, seed=work.seed)
        return [self.transformed_samples(task, columns) for task, columns in zip(tasks, drawn, strict=True)]


class LabelledTrainer(AnalyticTrainer):
    """The trainer on labelled items: user row, touched items and shared weights."""

    def __init__(self, work: ExecutorContext, store: UpdateStore, gradient: CompiledGradient) -> None:
        super().__init__(work, store, gradient)
        term = None if work.recommender is None else work.recommender.analytic_term(gradient)
        self._term = term or AnalyticTerm(term_kernels.add_nothing, np.zeros(0))
        self._train_clients = kernels.specialise_clients(
            kernels.train_labelled, fill_stub=gradient.fill, add_stub=self._term.add
        )

    def warm_up(self) -> None:
        """Compile the kernels."""
        super().warm_up()
        if self._gradient.score_all_items is not None:
            none, layout = np.zeros((0, 1), np.float32), self.work.layout
            version = np.split(self.store.version(_target([])), [layout.n_items * layout.item_width])
            self._gradient.score_all_items(
                none, version[1], version[0].reshape(layout.n_items, -1), none, self._gradient.shape
            )

    def score_all_items(self, models: ScoringView, threads: ThreadPool) -> F32 | None:
        """Return the scores of all items by one version, or None; a user's bytes do not depend on others."""
        kernel, layout = self._gradient.score_all_items, models.layout
        if kernel is None or not models.together:
            return None
        row = models.rows[0]
        users = row[layout.users].reshape(layout.n_users, -1)[models.user]
        tables = row[layout.items].reshape(layout.n_items, -1)
        found = np.empty((len(users), layout.n_items), np.float32)

        def score_some(part: int) -> None:
            some = threads.part_range(len(users), part)
            each = slice(some.start, some.stop)
            kernel(users[each], row[layout.shared], tables, found[each], self._gradient.shape)

        threads.run(score_some)
        return found

    def _samples(self, tasks: Sequence[TrainingTask]) -> tuple[kernels.LabelledSamples, I64]:
        training, gradient, feed = self.work.training, self._gradient, self.work.feed
        extras = self.store.extras(tasks[0].sent) if tasks else {}
        more = [self.extra_samples(task) for task in tasks] if extras else []
        items = [each["items"] for each in more] if any(more) else [_NO_ITEMS] * len(tasks)
        offsets = np.cumsum([0, *map(len, items)])
        labels = np.concatenate([np.zeros(0, np.float32), *(each["labels"] for each in more if each)])
        data = kernels.LabelledSamples(
            np.array([training.negatives_update(task.update) for task in tasks], np.int64),
            np.array([task.update * training.local_epochs for task in tasks], np.int64),
            training.batch_size or 0, training.negatives, np.uint64(self.work.seed), feed.positives.offsets,
            feed.positives.values, feed.member, offsets, np.concatenate([_NO_ITEMS, *items]), labels,
            gradient.summed, self._term_arguments(tasks, extras),
        )  # fmt: skip
        return data, self._own_touched(_nodes(tasks)) + np.diff(offsets)

    def _term_arguments(self, tasks: Sequence[TrainingTask], extras: Extras) -> kernels.TermArguments:
        """Return the recommender's numbers, its extra, and its draws for each step and for each positive."""
        term, training, work = self._term, self.work.training, replace(self.work, extras=extras)
        extra = _NOTHING
        if term.extra is not None:
            extra = extras[term.extra] if tasks else self.store.own[:1]
            if extra.ndim > 2:
                extra = extra.reshape(len(extra), math.prod(extra.shape[1:]))  # -1 needs a row
        if term.of_step is None and term.of_samples is None:
            return kernels.TermArguments(term.numbers, extra, _NOTHING, _NOTHING)
        of_step, of_samples, width = [], [], 1 + training.negatives
        for task in tasks or [TrainingTask(0, 0, 0, 0)]:  # the types of the draws decide what is compiled
            unknown = {"items": np.zeros(len(work.feed.positives[task.node]) * width, np.int32)}
            for step in range(training.local_epochs):
                one, each = work.draw_for_step(task.node, task.update, step, unknown)
                of_step.append(_NOTHING[0] if term.of_step is None else one.get(term.of_step, _NOTHING[0]))
                of_samples.append(_NOTHING[:0] if term.of_samples is None else each[term.of_samples][::width])
        return kernels.TermArguments(term.numbers, extra, np.stack(of_step), np.concatenate(of_samples))


class PairTrainer(AnalyticTrainer):
    """The trainer on pairs: user row, items of the pairs and shared weights.

    The recommender may change the feed's pairs, but must not add to the loss.
    """

    def __init__(self, work: ExecutorContext, store: UpdateStore, gradient: CompiledGradient) -> None:
        super().__init__(work, store, gradient)
        self._train_clients = kernels.specialise_clients(kernels.train_pairs, fill_stub=gradient.fill)

    def _samples(self, tasks: Sequence[TrainingTask]) -> tuple[kernels.PairSamples, I64]:
        drawn = self._drawn(tasks)
        liked, others = (_joined(drawn, name) for name in ("items", "negatives"))
        return kernels.PairSamples(liked.offsets, liked.values, others.values), 2 * liked.sizes


class SequenceTrainer(AnalyticTrainer):
    """The trainer on sequences or lists: user row, items of the sequence and shared weights.

    The recommender may change the feed's sequences, but must not add to the loss. One thread draws for all clients,
    and all threads train: drawing takes longer, and threads would wait for each other's interpreter.
    """

    threads_internally: ClassVar[bool] = True

    def __init__(self, work: ExecutorContext, store: UpdateStore, gradient: CompiledGradient) -> None:
        super().__init__(work, store, gradient)
        self._train_clients = kernels.specialise_clients(kernels.train_sequences, fill_stub=gradient.fill)

    def _own_touched(self, nodes: I64) -> I64:
        """Return the approximate number of items that each client touches; recommenders may add some."""
        return self.work.feed.positives.sizes[nodes] + self.work.training.negatives

    def _samples(self, tasks: Sequence[TrainingTask]) -> tuple[kernels.SequenceSamples, I64]:
        drawn = self._drawn(tasks)
        keep = [np.zeros((0, self.work.layout.item_width), np.float32)]
        for task, samples in zip(tasks, drawn, strict=True):
            for step in range(self.work.training.local_epochs if len(samples["items"]) else 0):
                _, of_samples = self.work.draw_for_step(task.node, task.update, step, samples)
                keep += [of_samples["keep"][0]] if "keep" in of_samples else []
        wanted, others = (_joined(drawn, name) for name in ("items", "negatives"))
        previous = np.full(len(wanted.values), -1, np.int32)
        if "previous" in self.work.feed.item_columns:
            previous = _joined(drawn, "previous").values
        negatives = [columns["negatives"] for columns in drawn]
        rows = np.array([part.shape[1] if part.ndim == 3 else 1 for part in negatives], np.int64)
        sequences = kernels.SequenceSamples(
            wanted.offsets,
            previous,
            wanted.values,
            others.offsets,
            others.values,
            rows,
            np.concatenate(keep),
        )
        return sequences, 2 * wanted.sizes + others.sizes


def make_analytic_trainer(work: ExecutorContext, store: UpdateStore) -> AnalyticTrainer:
    """Return the trainer for the gradient and the samples of the model."""
    gradient, feed = client_gradient(work.model), work.model.feed
    assert gradient is not None, "the mode of client updates checks it"
    kind = (
        LabelledTrainer if feed is PointwiseFeed else PairTrainer if feed is PairwiseFeed else SequenceTrainer
    )
    return kind(work, store, gradient)


def _target(tasks: Sequence[TrainingTask]) -> int:
    """Return the handle of the version from which all tasks start, or of the common version."""
    return tasks[0].target if tasks else 0


def _nodes(tasks: Sequence[TrainingTask]) -> I64:
    return np.array([task.node for task in tasks], np.int64)


def _joined(drawn: Sequence[Columns], name: str) -> Ragged:
    """Return a column of all clients, client after client."""
    parts = [columns[name].ravel() for columns in drawn]
    return Ragged.from_sizes(
        np.array([len(part) for part in parts], np.int64), np.concatenate([_NO_ITEMS, *parts])
    )
