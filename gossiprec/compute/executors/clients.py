"""Clients without a model of their own: they train the rows that they touch of the version that they were sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.base import Readable
from gossiprec.compute.store.updates import Update, UpdateStore
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.feeds.touched import Touched, TouchedFeed
from gossiprec.models.base.blocks import Layout
from gossiprec.models.base.kernels import Query

NARROWEST = 16
"""Rows for which the smallest models have room; each larger size is half as large again."""
AT_ONCE = 2**21
"""Numbers of small models that are trained together."""


class ClientExecutor(Executor):
    """Trains small models ``[user | touched items | shared | private]`` with executors of another kind.

    How much room a small model has follows from its own samples alone, so that bytes do not depend on who trains beside
    whom. A user's row and private weights keep their Adam moments; those of items and shared weights are new each time.

    Parameters
    ----------
    trainer : type of Executor
        Reference or batched.
    scoring : Executor
        Scores whole models, and is the kind that attacks compute with. What it works on holds no nodes' models.
    store : UpdateStore
    """

    def __init__(self, trainer: type[Executor], scoring: Executor, store: UpdateStore) -> None:
        super().__init__(scoring.work, scoring.device)
        self.name = trainer.name  # type: ignore[misc]
        self._trainer, self._scoring = trainer, scoring
        self.parallel = (
            trainer.name == "batched"
        )  # each call has a trainer of its own, and torch lets go of the GIL
        self._bytes: dict[tuple[int, int], int] = {}
        self._updates = store

    @property
    def kind(self) -> type[Executor]:
        """That which scores."""
        return self._scoring.kind

    @property
    def store(self) -> UpdateStore:
        """What owns versions and updates."""
        return self._updates

    def at_work(self) -> AbstractContextManager[None]:
        """Return a stretch in which torch uses one thread in each of ours."""
        from gossiprec.compute.executors.tensors import one_torch_thread

        return one_torch_thread()

    def warm_up(self) -> None:
        """Compile what scores."""
        self._scoring.warm_up()

    @property
    def update_bytes(self) -> dict[tuple[int, int], int]:
        """Sizes of the updates that were trained."""
        return self._bytes

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: all adopt what they were sent; then those train that do."""
        sent = self._adopt(program, tasks[program.push[tasks] < 0] if len(program.push) else tasks)
        alike: dict[tuple[int, int], list[tuple[int, Touched]]] = defaultdict(list)
        work = self.work
        for task in tasks[program.update[tasks] >= 0].tolist():
            touched = Touched.of(
                work.feed, int(program.node[task]), update=work.training.draw_of(int(program.update[task])),
                negatives=work.training.negatives, seed=work.seed,
            )  # fmt: skip
            alike[_room(len(touched.items), work.layout.n_items), sent[task]].append((task, touched))
        for (room, handle), lessons in sorted(alike.items()):
            small, extras = replace(work.layout, n_items=room), self._updates.extras(handle)
            size = max(1, AT_ONCE // small.row_size)
            for low in range(0, len(lessons), size):
                self._train(small, program, lessons[low : low + size], extras)

    def score(self, query: Query) -> F32:
        """Return predicted scores."""
        return self._scoring.score(query)

    def score_all(self, models: Readable, contexts: Mapping[str, I32], threads: ThreadPool) -> F32:
        """Return the scores of all items."""
        return self._scoring.score_all(models, contexts, threads)

    def _adopt(self, program: Program, tasks: I64) -> dict[int, int]:
        """Let each task's target be the version that it adopts last, or its source; return the handle of that."""
        sent = {}
        for task in tasks.tolist():
            entries = slice(program.merge_offsets[task], program.merge_offsets[task + 1])
            adopted = program.merge_row[entries][program.merge_keep[entries] == 0]
            from_ = int(adopted[-1]) if len(adopted) else int(program.source[task])
            self._updates.keep(int(program.target[task]), self._updates.version(from_))
            if program.update[task] < 0 and self._updates.extras(from_):  # it may be trained by another task
                self._updates.attach(int(program.target[task]), self._updates.extras(from_))
            sent[task] = from_
        return sent

    def _train(
        self, small: Layout, program: Program, lessons: list[tuple[int, Touched]], extras: Mapping[str, F32]
    ) -> None:
        """Train the small models of some tasks, and keep what becomes of them as updates."""
        store, work = self._updates, self.work
        tasks = np.array([task for task, _ in lessons])
        nodes, updates = program.node[tasks].astype(np.int64), program.update[tasks]
        targets = program.target[tasks].tolist()
        touched = [each for _, each in lessons]
        arena = self._small_models(small, nodes, targets, touched)
        feed = TouchedFeed(work.feed, dict(zip(nodes.tolist(), touched, strict=True)), small.n_items)
        trainer = self._trainer(
            replace(work, layout=small, feed=feed, arena=arena, extras=extras), self.device
        )
        trainer.run(Program.updates(program.node[tasks], updates), np.arange(len(tasks)))
        trainer.work = work  # it and torch's transforms refer to each other: let the small models go now
        own = store.own_columns(small)
        store.own[nodes] = arena.rows[:, own]
        for moments, kept in self._moments(arena):
            kept[nodes] = moments[np.ix_(arena.owned(nodes), own)]
        for k, (row, target) in enumerate(zip(arena.rows, targets, strict=True)):
            rows = row[small.items].reshape(small.n_items, -1)[: len(touched[k].items)].copy()
            update = Update(store.version(target), touched[k].items, rows, row[small.shared].copy())
            store.keep(target, update)
            self._bytes[int(nodes[k]), int(updates[k])] = update.size_bytes

    def _small_models(self, small: Layout, nodes: I64, targets: list[int], touched: list[Touched]) -> Arena:
        """Return an arena of small models, one for each node: its own part, and what it touches of its version."""
        store, layout = self._updates, self.work.layout
        moments = len(store.first) > 0
        arena = Arena(
            small,
            n_nodes=store.n_nodes,
            capacity=len(nodes),
            moments=moments,
            owners=np.sort(nodes),
            anew=True,
        )
        arena.steps = store.steps
        own, end = store.own_columns(small), layout.n_items * layout.item_width
        arena.rows[:, own] = store.own[nodes]
        for row, target, each in zip(arena.rows, targets, touched, strict=True):
            version = store.version(target)
            tables = version[:end].reshape(layout.n_items, -1)
            row[small.items].reshape(small.n_items, -1)[: len(each.items)] = tables[each.items]
            row[small.shared] = version[end:]
        for of_models, kept in self._moments(arena):
            of_models[np.ix_(arena.owned(nodes), own)] = kept[nodes]
        return arena

    def _moments(self, arena: Arena) -> list[tuple[F32, F32]]:
        store = self._updates
        return [(arena.first, store.first), (arena.second, store.second)] if len(store.first) else []


def _room(n_touched: int, n_items: int) -> int:
    """Return for how many rows a small model has room that touches so many."""
    room = NARROWEST
    while room < n_touched:
        room += room // 2
    return min(room, n_items)
