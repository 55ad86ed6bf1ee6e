"""The compiled loop over the waves of a plan: each thread runs its share of a wave and waits for the others.

Between two waves nothing is interpreted. A call of a kernel from Python takes 20 us in a loop of its own and 100
between two kernels, after which the cache has nothing of the interpreter; here a kernel is called by its address, with
arguments that are unpacked once per plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gossiprec.base.arrays import I64
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.plan.program import ExecutionPlan
from gossiprec.models.base.kernel_interface import BoundKernel
from gossiprec.native.jit import inline, kernel

ARRIVED, BEGUN, STOP, FAILED, GATE = 0, 16, 32, 48, 64
"""Places in a gate, each in a line of the cache of its own, and its size: the number of arrivals at waves; whether the
threads have begun or given up; the wave after which they stop, plus 1; whether a kernel failed."""
YES, NO = 1, 2
POLLS, YIELDS, PATIENCE = 1000, 20, 200_000
"""While a thread waits it looks so many times, then lets others run so many times, then sleeps between looks. Before
the first wave it gives up after so many looks."""
NAP_US = 50


def _seconds(context: Any, builder: Any) -> Any:
    """Return the monotonic clock in nanoseconds."""
    word = ir.IntType(64)
    place = cgutils.alloca_once(builder, ir.ArrayType(word, 2))
    kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), place.type])
    clock = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
    builder.call(clock, [ir.IntType(32)(1), place])
    seconds, rest = (builder.load(cgutils.gep(builder, place, 0, k)) for k in range(2))
    return builder.add(builder.mul(seconds, word(10**9)), rest)


@intrinsic
def call_each(typing, calls, leading, spent):
    """Call kernels by their addresses, each with the leading arguments and its own; add up their nanoseconds.

    Returns
    -------
    ok : bool
        Whether none failed; those after a failed one are not called.
    """

    def generate(context, builder, signature, args):
        of_calls, of_leading, of_spent = signature.args
        first = cgutils.unpack_tuple(builder, args[1], len(of_leading))
        ok = cgutils.alloca_once_value(builder, ir.IntType(1)(1))
        total = context.make_array(of_spent)(context, builder, args[2]).data
        for number, kind in enumerate(of_calls):
            address, own = cgutils.unpack_tuple(builder, builder.extract_value(args[0], number), 2)
            kinds = (*of_leading, *kind[1])
            with builder.if_then(builder.load(ok)):
                before = _seconds(context, builder)
                function = builder.inttoptr(
                    address, context.call_conv.get_function_type(types.none, kinds).as_pointer()
                )
                values = [*first, *cgutils.unpack_tuple(builder, own, len(kind[1]))]
                status, _ = context.call_conv.call_function(builder, function, types.none, kinds, values)
                builder.store(status.is_ok, ok)
                place = builder.gep(total, [ir.IntType(64)(number)])
                took = builder.sub(_seconds(context, builder), before)
                builder.store(builder.add(builder.load(place), took), place)
        return builder.load(ok)

    return types.boolean(calls, leading, spent), generate


def _place(context: Any, builder: Any, kind: Any, args: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, args[0]).data, [args[1]])


@intrinsic
def look_at(typing, numbers, place):
    """Return a number that other threads change."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature.args[0], args), "seq_cst", 8)

    return types.int64(numbers, types.int64), generate


@intrinsic
def count_one(typing, numbers, place):
    """Add 1 to a number that other threads change; return what it was."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], args)
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")

    return types.int64(numbers, types.int64), generate


@intrinsic
def set_once(typing, numbers, place, value):
    """Set a number that other threads change, unless it is no longer 0; return what it was."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], args)
        found = builder.cmpxchg(place, ir.IntType(64)(0), args[2], "seq_cst", "seq_cst")
        return builder.extract_value(found, 0)

    return types.int64(numbers, types.int64, types.int64), generate


@intrinsic
def nap(typing, microseconds):
    """Let other threads run: give up the processor, or sleep if the time is above 0."""

    def generate(context, builder, signature, args):
        word = ir.IntType(32)
        pause = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, []), "sched_yield")
        sleep = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word]), "usleep")
        with builder.if_else(builder.icmp_signed(">", args[0], word(0))) as (then, otherwise):
            with then:
                builder.call(sleep, [args[0]])
            with otherwise:
                builder.call(pause, [])
        return context.get_dummy_value()

    return types.none(types.int32), generate


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
    """

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
            tuple(_address(*each, before) for each in group)
            for group, before in zip(bound, leading, strict=True)
        )
        lanes = cls(shares, calls, bound)
        run_waves.compile(tuple(map(run_waves.typeof_pyval, lanes._arguments(0, 0, 0, *lanes._records()))))
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
            reached[part] = run_waves(*self._arguments(first, last, part, gate, spent))

        try:
            threads.run_together(run_share, parts)
        except BaseException:
            gate[BEGUN] = NO
            raise
        if gate[FAILED]:
            raise MemoryError("a compiled loop over tasks failed; expected memory for its working arrays")
        each = 1e-9 * spent.sum(axis=0)
        seconds = [
            float(row[k]) for row, group in zip(each, self._calls, strict=True) for k in range(len(group))
        ]
        return int(reached.min()), seconds


def _address(run: Any, arguments: tuple[Any, ...], leading: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    """Return the address of a kernel's machine code for leading arguments of some types, and the other arguments."""
    kinds = tuple(run.typeof_pyval(each) for each in (*leading, *arguments))
    run.compile(kinds)  # unless it is compiled
    compiled = run.overloads[kinds]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name), arguments
