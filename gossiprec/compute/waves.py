"""The runner of plans: waves of independent tasks on several threads; a model that is not finite ends the run."""

from __future__ import annotations

import functools
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.program import ExecutionPlan, PoolDeliveries, Program, Written
from gossiprec.compute.plan.tape import RECEIVING, Behaviour, Op, TapeEvent, TapeSegment
from gossiprec.compute.store import UpdateRows
from gossiprec.compute.update_noise import RunTasks, run_with_noise
from gossiprec.models.base.kernel_interface import BoundKernel
from gossiprec.native.numba_support import is_plain


class NotFiniteError(ScenarioError):
    """A local update gave a model with NaN or infinite values.

    Parameters
    ----------
    node, update : int
        The node, and the number of the update among the node's, from 0.
    epochs : int
        Passes of a local update over the node's samples.
    time : float, optional
        Virtual time of the update.
    """

    def __init__(self, node: int, update: int, epochs: int, time: float | None = None) -> None:
        at = "" if time is None else f" at time {time:.6g}"
        super().__init__(
            f"node {node}: local update {update}{at} produced a model with NaN or infinite values after "
            f"epoch {(update + 1) * epochs}; lower training.learning_rate or the noise of a policy"
        )
        self.node, self.update, self.epochs, self.time = node, update, epochs, time

    def __reduce__(self) -> tuple[type[NotFiniteError], tuple[int, int, int, float | None]]:
        """Return the class and the arguments by which another process rebuilds the error."""
        return type(self), (self.node, self.update, self.epochs, self.time)

    def with_time(self, time: float) -> NotFiniteError:
        """Return the same error with the virtual time of the update."""
        return NotFiniteError(self.node, self.update, self.epochs, time)


class FiniteCheck:
    """The check of every model once, right after a local update has written it.

    Averages of finite models are finite, and the output of policies, poisoners and servers is checked on its own.

    Parameters
    ----------
    executor : Executor
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._found: list[I64] = []

    def check_tasks(self, program: Program, tasks: I64) -> None:
        """Check the models that some tasks have trained, unless the executor found them finite.

        May be called from several threads at once.
        """
        known = program.finite[tasks]
        if not known.all():
            trained = tasks[~known]
            finite = self._executor.are_finite(
                program.target[trained].astype(np.int64), program.node[trained]
            )
            if not finite.all():
                self._found.append(trained[~finite])

    def raise_first_fault(self, program: Program) -> None:
        """Raise an error if a checked model is not finite, for the first such task of the program.

        Raises
        ------
        NotFiniteError
        """
        if self._found:
            task = int(np.concatenate(self._found).min())
            epochs = self._executor.work.training.local_epochs
            raise NotFiniteError(int(program.node[task]), int(program.update[task]), epochs)


def update_times(segment: TapeSegment, node: int, behaviour: Behaviour, *, inline: bool) -> F64:
    """Return the virtual times at which a node may have trained in a segment of tape, ascending.

    Parameters
    ----------
    segment : TapeSegment
    node : int
    behaviour : Behaviour
        The behaviour of the node.
    inline : bool
        Whether a message arrives the moment it is sent, and has no event of its own.
    """
    own, parts = segment.node == node, [np.zeros(0)]
    if Op.TRAIN in behaviour.on_wake:
        parts.append(segment.time[own & (segment.kind == TapeEvent.WAKE)])
    if Op.TRAIN in behaviour.on_any_receive:
        received = segment.time[own & (segment.slots >= RECEIVING)]
        parts.append(segment.sent_at[segment.receiver == node] if inline else received)
    return np.sort(np.concatenate(parts))


NOTHING = range(0)
"""The empty range, for no pool deliveries."""


def pool_deliveries_in_wave(plan: ExecutionPlan, wave: int) -> range:
    """Return the range of a wave's pool deliveries."""
    return range(plan.pool_delivery_offsets[wave], plan.pool_delivery_offsets[wave + 1])


class DeliveryHook(Protocol):
    """A hook that reads delivered versions and must not change them; several threads may call it at once."""

    reads_merges: bool = True
    reads_pools: bool = True
    """Whether :meth:`observe` and :meth:`observe_pools` can have something to read."""

    def bind_merges(self, rows: F32, program: Program) -> BoundKernel | None:
        """Return a kernel that does all of :meth:`observe`, and its arguments after the tasks, or None."""
        return None

    def bind_pools(self, rows: F32, pool_deliveries: PoolDeliveries) -> BoundKernel | None:
        """Return a kernel that does all of :meth:`observe_pools`, and its arguments after the range, or None."""
        return None

    def count_seconds(self, seconds: float) -> None:
        """Count the time that a bound kernel took."""

    def select_tasks(self, program: Program, tasks: I64) -> I64:
        """Return the tasks of which the hook reads the merges, by default all."""
        return tasks

    @abstractmethod
    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """Read the versions that `tasks` are about to merge: each receiver's messages in order of arrival."""

    @abstractmethod
    def observe_pools(self, rows: F32, pool_deliveries: PoolDeliveries, first: int, last: int) -> None:
        """Read pool deliveries ``first .. last - 1``. May run at the same time as :meth:`observe`."""


class WaveStep(Protocol):
    """A step on some tasks of a wave before the executor runs them; several threads may call it at once."""

    def prepare(self, program: Program, tasks: I64) -> Written:
        """Write target rows of some tasks, and return which: the program continues from these."""


@dataclass(frozen=True)
class WaveOptions:
    """The options of a runner of waves.

    Attributes
    ----------
    threads : ThreadPool
        Used if the executor allows it; results do not depend on its size.
    wave_size : int or None
        The largest number of tasks passed to the executor at once, or None for all; results do not depend on it.
    steps : sequence of WaveStep
        Run in this order, after the hooks have read the versions to be merged.
    check : FiniteCheck, optional
        Ends the run at the end of a wave in which a trained model is not finite.
    """

    threads: ThreadPool
    wave_size: int | None
    steps: Sequence[WaveStep] = ()
    check: FiniteCheck | None = None


LEAST_TASKS, LEAST_WAVES = 2048, 16
"""A plan of fewer tasks or waves is not worth the compiled loop over waves."""


class WaveRunner:
    """A runner of plans.

    Parameters
    ----------
    executor : Executor
    watchers : sequence of DeliveryHook
    options : WaveOptions

    Attributes
    ----------
    run_tasks : callable
        The function that runs tasks.
    bookkeeping_seconds : float
        Time in which the calling thread neither computed, compiled nor waited for computations.
    compiling_seconds : float
        Time in which the loop over waves was compiled.
    """

    def __init__(self, executor: Executor, watchers: Sequence[DeliveryHook], options: WaveOptions) -> None:
        self._steps, self._check = options.steps, options.check
        self._executor = executor
        self.run_tasks: RunTasks = run_with_noise(executor)
        self._readers = [each for each in watchers if each.reads_merges]
        self._sighting = [each for each in watchers if each.reads_pools]
        self._turns = np.zeros(0, np.int64)
        self._threads = options.threads if executor.parallel else ThreadPool(1)
        self._width = 1 if executor.threads_internally else self._threads.size
        self._wave_size = options.wave_size
        self.bookkeeping_seconds, self.compiling_seconds = 0.0, 0.0
        self._busy = 0.0

    def run(self, plan: ExecutionPlan) -> None:
        """Run all waves of a plan."""
        begin = time.perf_counter()
        self._busy = 0.0
        for wave in range(self._run_compiled(plan), len(plan.task_offsets) - 1):
            tasks = plan.order[plan.task_offsets[wave] : plan.task_offsets[wave + 1]]
            self._compute(plan, tasks, pool_deliveries_in_wave(plan, wave))
        self.bookkeeping_seconds += time.perf_counter() - begin - self._busy

    def _run_compiled(self, plan: ExecutionPlan) -> int:
        """Run waves in one compiled loop if everything in them is compiled; return how many."""
        if min(len(plan.order) // LEAST_TASKS, (len(plan.task_offsets) - 1) // LEAST_WAVES) < 1:
            return 0
        bound = self._bind(plan)
        if bound is None:
            return 0
        from gossiprec.compute.wave_kernels import Lanes
        from gossiprec.native.kernel_cache import KernelNotCachedError

        program, done, end = plan.program, 0, len(plan.task_offsets) - 1
        try:
            lanes = Lanes.of(plan, self._width, bound, checks=self._check is not None)
        except KernelNotCachedError:
            return 0
        self.compiling_seconds += lanes.compiling_seconds
        self._busy += lanes.compiling_seconds
        while done < end:
            begin = time.perf_counter()
            reached, seconds = lanes.run(self._threads, done)
            self._busy += time.perf_counter() - begin
            if reached == done:
                return done  # not all threads have come
            for hook, spent in zip([*self._sighting, *self._readers], seconds, strict=False):
                hook.count_seconds(spent)
            if self._check is not None:
                self._check.check_tasks(
                    program, plan.order[plan.task_offsets[reached - 1] : plan.task_offsets[reached]]
                )
                self._check.raise_first_fault(program)
            done = reached
        return done

    def _bind(self, plan: ExecutionPlan) -> tuple[tuple[BoundKernel, ...], ...] | None:
        """Return the kernels for pool deliveries, for merges and for tasks, or None if something is not compiled."""
        executor, program = self._executor, plan.program
        whole = executor.parallel and not executor.threads_internally and self._wave_size is None
        if not whole or self._steps or self.run_tasks != executor.run or is_plain() or os.name != "posix":
            return None
        rows = executor.work.arena.rows
        sights = [hook.bind_pools(rows, plan.pool_deliveries) for hook in self._sighting]
        reads = [hook.bind_merges(rows, program) for hook in self._readers]
        groups = sights, reads, [executor.bind(program)]
        found = tuple(tuple(each for each in group if each is not None) for group in groups)
        return found if list(map(len, found)) == list(map(len, groups)) else None

    def _compute(self, plan: ExecutionPlan, tasks: I64, seen: range) -> None:
        """Run independent tasks while the hooks read the wave's pool deliveries, of which no row is written."""
        if seen and (self._executor.threads_internally or not len(tasks)):
            self._in_parallel(functools.partial(self._sight, plan, seen), self._threads.size)
            seen = NOTHING
        for chunk in self._chunks(tasks):
            parts = self._threads.size if seen else min(len(chunk), self._width)
            self._in_parallel(functools.partial(self._share, plan, seen, chunk), parts)
            seen = NOTHING
        if self._check is not None:
            self._check.raise_first_fault(plan.program)

    def _share(self, plan: ExecutionPlan, seen: range, tasks: I64, part: int) -> None:
        """Run one thread's share of both in one call, for each call to another thread starts late."""
        self._sight(plan, seen, part)
        self._run(plan.program, tasks, part)

    def _chunks(self, tasks: I64) -> Iterator[I64]:
        size = self._wave_size or max(len(tasks), 1)
        return (tasks[low : low + size] for low in range(0, len(tasks), size))

    def _deal(self, tasks: I64, part: int) -> I64:
        """Return one thread's share of tasks; they come costliest first, and are dealt back and forth for balance."""
        parts, turns = self._width, self._turns
        if parts == 1:
            return tasks
        if len(turns) < len(tasks):
            cycle = np.arange(2 * len(tasks)) % (2 * parts)
            self._turns = turns = np.minimum(cycle, 2 * parts - 1 - cycle)
        return tasks[turns[: len(tasks)] == part]

    def _run(self, program: Program, tasks: I64, part: int) -> None:
        """Run one thread's share of tasks."""
        mine = self._deal(tasks, part)
        if len(mine):
            for watcher in self._readers:
                seen = watcher.select_tasks(program, mine)
                if len(seen):
                    watcher.observe(self._executor.store.rows_of_tasks(program, seen), program, seen)
            for step in self._steps:
                program.continue_from(step.prepare(program, mine))
            self.run_tasks(program, mine)
            if self._check is not None:
                self._check.check_tasks(program, mine)

    def _sight(self, plan: ExecutionPlan, seen: range, part: int) -> None:
        share = self._threads.part_range(len(seen), part)
        if share:
            first, last = seen.start + share.start, seen.start + share.stop
            for shown in self._executor.store.iter_pool_rows(plan.pool_deliveries, first, last):
                for watcher in self._sighting:
                    watcher.observe_pools(*shown)

    def _in_parallel(self, job: Callable[[int], None], most: int) -> None:
        """Run the first `most` parts of a job on the thread pool; the others are empty."""
        begin = time.perf_counter()
        self._threads.run(job, most)
        self._busy += time.perf_counter() - begin
