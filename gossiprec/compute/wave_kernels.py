"""The compiled loop over the waves of a plan: each thread runs its share of a wave and waits for the others.

Between two waves nothing is interpreted. A call of a kernel from Python takes 20 us in a loop of its own and 100
between two kernels, after which the cache has nothing of the interpreter; here a kernel is called by its address, with
arguments that are unpacked once per plan.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.plan.program import ExecutionPlan
from gossiprec.models.base.kernel_interface import BoundKernel
from gossiprec.native.jit import inline, kernel
from gossiprec.native.threads import address_of, call_each, count_one, look_at, nap, set_once

ARRIVED, BEGUN, STOP, FAILED, GATE = 0, 16, 32, 48, 64
"""Places in a gate, each in a line of the cache of its own, and its size: the number of arrivals at waves; whether the
threads have begun or given up; the wave after which they stop, plus 1; whether a kernel failed."""
YES, NO = 1, 2
POLLS, YIELDS, PATIENCE = 1000, 20, 20_000
"""Looks of a thread that waits until it lets others run between two looks; further looks after which it sleeps;
and looks after which it gives up, before the first wave."""
NAP_US = 50


@inline
def wait(looks):
    """Wait before the next look."""
    if looks >= POLLS:
        nap(np.int32(0 if looks < POLLS + YIELDS else NAP_US))


@inline
def begin(gate, parts):
    """Return whether all threads have come; they begin together, or none does."""
    if count_one(gate, ARRIVED) == parts - 1:
        set_once(gate, BEGUN, YES)
    looks = 0
    while look_at(gate, BEGUN) == 0:
        wait(looks)
        looks += 1
        if looks > PATIENCE:
            set_once(gate, BEGUN, NO)
    return look_at(gate, BEGUN) == YES


@inline
def wait_for_all(gate, arrivals):
    """Wait until all threads have come to the end of a wave."""
    count_one(gate, ARRIVED)
    looks = 0
    while look_at(gate, ARRIVED) < arrivals:
        wait(looks)
        looks += 1


class Shares(NamedTuple):
    """The tasks of waves, dealt among threads.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n_tasks,)
    task_offsets : ndarray of int64, shape (n_waves * parts + 1,)
        Thread t runs tasks ``task_offsets[w * parts + t]`` to the next offset in wave w.
    pool_delivery_offsets : ndarray of int64, shape (n_waves + 1,)
    finite : ndarray of bool, shape (n_tasks,)
        Of each task of the program.
    parts : int
        Number of threads.
    """

    tasks: I64
    task_offsets: I64
    pool_delivery_offsets: I64
    finite: Any
    parts: int


@kernel
def run_waves(shares, first, last, part, calls, gate, spent):
    """Run a thread's share of waves ``first .. last - 1``; return the wave after the last one that was run.

    Parameters
    ----------
    shares : Shares
    first, last, part : int
        Waves, and number of this thread.
    calls : tuple of three tuples
        Kernels to be called with a range of pool deliveries, with tasks before they run, and to run them.
    gate : ndarray of int64, shape (GATE,)
        Zeros, the same array for all threads.
    spent : ndarray of int64, shape (3, n)
        Nanoseconds of each kernel.
    """
    parts = shares.parts
    if not begin(gate, parts):
        return first
    for wave in range(first, last):
        low, seen = shares.pool_delivery_offsets[wave], shares.pool_delivery_offsets[wave + 1]
        low, high = low + (seen - low) * part // parts, low + (seen - low) * (part + 1) // parts
        ok = True
        if low < high:
            ok = call_each(calls[0], (low, high), spent[0])
        at = wave * parts + part
        tasks = shares.tasks[shares.task_offsets[at] : shares.task_offsets[at + 1]]
        if ok and len(tasks):
            ok = call_each(calls[1], (tasks,), spent[1]) and call_each(calls[2], (tasks,), spent[2])
        finite = True
        for task in tasks:
            finite &= shares.finite[task]
        if not ok:
            set_once(gate, FAILED, YES)
        if not (ok and finite):
            set_once(gate, STOP, wave + 1)
        wait_for_all(gate, parts * (wave - first + 2))
        if look_at(gate, STOP) == wave + 1:
            return wave + 1
    return last


MOST_TASKS = 8192
"""Number of tasks after which the threads return to the interpreter, which then hears of interrupts."""


class Lanes:
    """The waves of a plan, and the kernels that run them.

    Parameters
    ----------
    shares : Shares
    calls : tuple of tuples
        Addresses and arguments of the kernels, as for :func:`run_waves`.
    kernels : tuple
        What the addresses belong to, kept while they are in use.

    Attributes
    ----------
    compiling_seconds : float
        Time in which the loop was compiled, or loaded, for these kernels.
    """

    compiling_seconds = 0.0

    def __init__(self, shares: Shares, calls: tuple[Any, ...], kernels: tuple[Any, ...]) -> None:
        self._shares, self._calls, self._kernels = shares, calls, kernels

    @classmethod
    def of(
        cls, plan: ExecutionPlan, parts: int, bound: tuple[tuple[BoundKernel, ...], ...], *, checks: bool
    ) -> Lanes:
        """Deal a plan's tasks back and forth, for they come costliest first.

        Raises
        ------
        KernelNotCachedError
            If the loop is not compiled and must not be compiled here.
        """
        sizes, n_waves = np.diff(plan.task_offsets), len(plan.task_offsets) - 1
        cycle = (np.arange(len(plan.order)) - np.repeat(plan.task_offsets[:-1], sizes)) % (2 * parts)
        share = np.repeat(np.arange(n_waves), sizes) * parts + np.minimum(cycle, 2 * parts - 1 - cycle)
        order = np.argsort(share, kind="stable")
        finite = plan.program.finite if checks else np.ones(len(plan.program.node), np.bool_)
        offsets = np.searchsorted(share[order], np.arange(n_waves * parts + 1))
        shares = Shares(plan.order[order], offsets, plan.pool_delivery_offsets, finite, parts)
        leading = (0, 0), (shares.tasks,), (shares.tasks,)
        calls = tuple(
            tuple(address_of(*each, before) for each in group)
            for group, before in zip(bound, leading, strict=True)
        )
        lanes = cls(shares, calls, bound)
        begin = time.perf_counter()
        run_waves.compile(tuple(map(run_waves.typeof_pyval, lanes._arguments(0, 0, 0, *lanes._records()))))
        lanes.compiling_seconds = time.perf_counter() - begin
        return lanes

    def _records(self) -> tuple[I64, I64]:
        return np.zeros(GATE, np.int64), np.zeros(
            (self._shares.parts, 3, max(map(len, self._calls))), np.int64
        )

    def _arguments(self, first: int, last: int, part: int, gate: I64, spent: I64) -> tuple[Any, ...]:
        return self._shares, first, last, part, self._calls, gate, spent[part]

    def run(self, threads: ThreadPool, first: int) -> tuple[int, list[float]]:
        """Run waves from `first` on; return the wave after the last one that was run, and seconds of each kernel.

        Raises
        ------
        MemoryError
            If a kernel failed.
        """
        shares = self._shares
        parts, ends = shares.parts, shares.task_offsets[:: shares.parts]
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + MOST_TASKS, side="right")) - 1)
        reached = np.full(parts, first)
        gate, spent = self._records()

        def run_share(part: int) -> None:
            try:
                reached[part] = run_waves(*self._arguments(first, last, part, gate, spent))
            except BaseException:  # such as Ctrl-C before the call: the others need not wait
                if gate[BEGUN] == 0:
                    gate[BEGUN] = NO
                raise

        threads.run_together(run_share, parts)
        if gate[FAILED]:
            raise MemoryError("a compiled loop over tasks failed; expected memory for its working arrays")
        each = 1e-9 * spent.sum(axis=0)
        seconds = [
            float(row[k]) for row, group in zip(each, self._calls, strict=True) for k in range(len(group))
        ]
        return int(reached.min()), seconds
