"""Carrying out a plan: wave after wave, the independent tasks of a wave on several threads."""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.finite import FiniteCheck
from gossiprec.compute.plan.program import ExecutionPlan, PoolDeliveries, Program
from gossiprec.compute.store.base import UpdateRows
from gossiprec.compute.thread_pool import ThreadPool

NOTHING = range(0)
"""No sightings."""


def sightings_in_wave(plan: ExecutionPlan, wave: int) -> range:
    """Return the sightings of a wave."""
    return range(plan.sighting_offsets[wave], plan.sighting_offsets[wave + 1])


class DeliveryHook(ABC):
    """Sees delivered versions while they exist; must not change them. Called from several threads at once."""

    def watched(self, program: Program, tasks: I64) -> I64:
        """Return those of some tasks whose merges it looks at: all, unless it says otherwise."""
        return tasks

    @abstractmethod
    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """See what `tasks` are about to merge: each receiver's messages in their order of arrival."""

    @abstractmethod
    def sight(self, rows: F32, sightings: PoolDeliveries, first: int, last: int) -> None:
        """See sightings number first .. last - 1, for pools of receivers; while others :meth:`observe`."""


class TaskPreprocessor(Protocol):
    """What is done to some tasks of a wave before the executor runs them. Called from several threads at once."""

    def prepare(self, program: Program, tasks: I64) -> None:
        """Change the rows or the program so that the executor goes on from there."""


@dataclass(frozen=True)
class WaveOptions:
    """The way in which waves are carried out.

    Attributes
    ----------
    threads : ThreadPool
        Used if the executor allows it; results do not depend on its size.
    wave_size : int or None
        The largest number of tasks handed to the executor at once; results do not depend on it.
    steps : sequence of TaskPreprocessor
        In this order, after the watchers have seen what is to be merged.
    check : FiniteCheck, optional
        Ends the run at the end of a wave in which a model became something else than numbers.
    """

    threads: ThreadPool
    wave_size: int | None
    steps: Sequence[TaskPreprocessor] = ()
    check: FiniteCheck | None = None


class WaveRunner:
    """Runs plans.

    Parameters
    ----------
    executor : Executor
    watchers : sequence of Watcher
    options : WaveOptions

    Attributes
    ----------
    bookkeeping_seconds : float
        Time in which the calling thread neither computed nor waited for computations.
    """

    def __init__(self, executor: Executor, watchers: Sequence[DeliveryHook], options: WaveOptions) -> None:
        self._steps, self._check = options.steps, options.check
        self._executor = executor
        self._watchers = watchers
        self._threads = options.threads if executor.parallel else ThreadPool(1)
        self._width = 1 if executor.divides else self._threads.size
        self._wave_size = options.wave_size
        self.bookkeeping_seconds = 0.0
        self._busy = 0.0

    def run(self, plan: ExecutionPlan) -> None:
        """Carry out a plan."""
        begin = time.perf_counter()
        self._busy = 0.0
        self._executor.store.note(plan.program)
        for wave in range(len(plan.task_offsets) - 1):
            tasks = plan.order[plan.task_offsets[wave] : plan.task_offsets[wave + 1]]
            self._compute(plan, tasks, sightings_in_wave(plan, wave))
        self.bookkeeping_seconds += time.perf_counter() - begin - self._busy

    def _compute(self, plan: ExecutionPlan, tasks: I64, seen: range) -> None:
        """Run independent tasks, and let the watchers see sightings beside them: no row is written that is shown."""
        if seen and (self._executor.divides or not len(tasks)):
            self._in_parallel(functools.partial(self._sight, plan, seen), self._threads.size)
            seen = NOTHING
        for chunk in self._chunks(tasks):
            parts = self._threads.size if seen else min(len(chunk), self._width)
            self._in_parallel(functools.partial(self._share, plan, seen, chunk), parts)
            seen = NOTHING
        if self._check is not None:
            self._check.refuse(plan.program)

    def _share(self, plan: ExecutionPlan, seen: range, tasks: I64, part: int) -> None:
        """Do one thread's share of both, in one call: each call of another thread begins late."""
        self._sight(plan, seen, part)
        self._run(plan.program, tasks, part)

    def _chunks(self, tasks: I64) -> Iterator[I64]:
        size = self._wave_size or max(len(tasks), 1)
        return (tasks[low : low + size] for low in range(0, len(tasks), size))

    def _run(self, program: Program, tasks: I64, part: int) -> None:
        """Run one thread's share. Tasks come costliest first; dealing them out to and fro balances the shares."""
        parts = self._width
        cycle = np.arange(len(tasks)) % (2 * parts)
        mine = tasks[np.minimum(cycle, 2 * parts - 1 - cycle) == part]
        if len(mine):
            for watcher in self._watchers:
                seen = watcher.watched(program, mine)
                if len(seen):
                    watcher.observe(self._executor.store.delivered(program, seen), program, seen)
            for step in self._steps:
                step.prepare(program, mine)
            self._executor.run(program, mine)
            if self._check is not None:
                self._check.note(program, mine)

    def _sight(self, plan: ExecutionPlan, seen: range, part: int) -> None:
        share = self._threads.share(len(seen), part)
        if share:
            first, last = seen.start + share.start, seen.start + share.stop
            for shown in self._executor.store.shown(plan.sightings, first, last):
                for watcher in self._watchers:
                    watcher.sight(*shown)

    def _in_parallel(self, job: Callable[[int], None], most: int) -> None:
        """Have the first parts of a job done, so many at most: all others have nothing to do."""
        begin = time.perf_counter()
        self._threads.run(job, most)
        self._busy += time.perf_counter() - begin
