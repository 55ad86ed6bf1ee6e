"""Client training with the executors of whole models, on small models that hold only the touched rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.executors.clients import ClientTrainer, TrainingTask
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import PredrawnFeed, PredrawnSamples
from gossiprec.rules.servers import Extras

NARROWEST = 16
"""Item rows of the smallest models; each larger size is half as large again."""
AT_ONCE = 2**21
"""Numbers in the small models that are trained together."""

_Drawn: TypeAlias = tuple[TrainingTask, PredrawnSamples]


class SubmodelTrainer(ClientTrainer):
    """The trainer of small models ``[user | touched items | shared | private]``, several at once.

    The size of a small model depends only on its own samples.

    Parameters
    ----------
    work : ExecutorContext
    store : UpdateStore
    executor : type of Executor
        Reference or batched.
    device : str
    """

    def __init__(
        self, work: ExecutorContext, store: UpdateStore, executor: type[Executor], device: str
    ) -> None:
        super().__init__(work, store)
        self.name = executor.name
        self._executor, self._device = executor, device

    def train(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield each task with its update; tasks of equal size and version are trained together."""
        groups: dict[tuple[int, int], list[_Drawn]] = defaultdict(list)
        for group, of_one in enumerate(self.group_by_version(tasks)):
            for task in of_one:
                touched = self._touched(task)
                groups[_room(len(touched.items), self.work.layout.n_items), group].append((task, touched))
        for (room, _), some in sorted(groups.items(), key=lambda item: item[0]):
            small = replace(self.work.layout, n_items=room)
            extras = self.store.extras(some[0][0].sent)
            size = max(1, AT_ONCE // small.row_size)
            for low in range(0, len(some), size):
                yield from self._train(small, some[low : low + size], extras)

    def _touched(self, task: TrainingTask) -> PredrawnSamples:
        work, training = self.work, self.work.training
        return PredrawnSamples.of(
            work.feed,
            task.node,
            update=training.negatives_update(task.update),
            negatives=training.negatives,
            seed=work.seed,
            changed=lambda drawn: self.transformed_samples(task, drawn),
        )

    def _train(
        self, small: Layout, drawn: Sequence[_Drawn], extras: Extras
    ) -> Iterator[tuple[TrainingTask, Update]]:
        store, work = self.store, self.work
        nodes = np.array([task.node for task, _ in drawn], np.int64)
        updates = np.array([task.update for task, _ in drawn], np.int32)
        arena = self._small_models(small, nodes, drawn)
        touched = {task.node: samples for task, samples in drawn}
        feed = PredrawnFeed(work.feed, touched, small.n_items)
        executor = self._executor(
            replace(work, layout=small, feed=feed, arena=arena, extras=extras), self._device
        )
        executor.run(Program.of_updates(nodes.astype(np.int32), updates), np.arange(len(nodes)))
        executor.work = work  # it and torch's transforms refer to each other: free the small models now
        own = store.own_columns(small)
        store.own[nodes] = arena.rows[:, own]
        if work.training.uploads_gradients and len(store.first):
            self._take_gradient_steps(arena, nodes, drawn)
        for moments, kept in self._moments(arena):
            kept[nodes] = moments[np.ix_(arena.moment_rows(nodes), own)]
        for row, (task, samples) in zip(arena.rows, drawn, strict=True):
            items = samples.items
            rows = row[small.items].reshape(small.n_items, -1)[: len(items)].copy()
            yield task, Update(store.version(task.target), items, rows, row[small.shared].copy())

    def _small_models(self, small: Layout, nodes: I64, drawn: Sequence[_Drawn]) -> Arena:
        """Return an arena of small models, one per node: its own part, and the touched rows of its version."""
        store, layout = self.store, self.work.layout
        arena = Arena(
            small,
            n_nodes=store.n_nodes,
            capacity=len(nodes),
            moments=len(store.first) > 0,
            owners=np.sort(nodes),
        )
        arena.fresh_moments, arena.steps = True, store.steps
        own, end = store.own_columns(small), layout.n_items * layout.item_width
        arena.rows[:, own] = store.own[nodes]
        for row, (task, samples) in zip(arena.rows, drawn, strict=True):
            version, items = store.version(task.target), samples.items
            tables = version[:end].reshape(layout.n_items, -1)
            row[small.items].reshape(small.n_items, -1)[: len(items)] = tables[items]
            row[small.shared] = version[end:]
        for of_models, kept in self._moments(arena):
            of_models[np.ix_(arena.moment_rows(nodes), own)] = kept[nodes]
        return arena

    def _take_gradient_steps(self, arena: Arena, nodes: I64, drawn: Sequence[_Drawn]) -> None:
        """Set items and shared weights to one gradient-descent step: Adam's first moment gives the gradient."""
        training, merged = self.work.training, arena.layout.merged
        slopes = arena.first[arena.moment_rows(nodes), merged] / np.float32(1.0 - training.beta1)
        before = self._small_models(arena.layout, nodes, drawn).rows
        arena.rows[:, merged] = before[:, merged] - np.float32(training.learning_rate) * slopes

    def _moments(self, arena: Arena) -> list[tuple[F32, F32]]:
        store = self.store
        return [(arena.first, store.first), (arena.second, store.second)] if len(store.first) else []


def _room(n_touched: int, n_items: int) -> int:
    """Return the number of item rows of a small model that touches `n_touched` items."""
    room = NARROWEST
    while room < n_touched:
        room += room // 2
    return min(room, n_items)
