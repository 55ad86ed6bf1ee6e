"""Intrinsics for kernels in several threads at once: shared numbers, waiting, and kernels called by their addresses."""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def address_of(run: Any, arguments: tuple[Any, ...], leading: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    """Return the address of a kernel's machine code for leading arguments of some types, and the other arguments."""
    kinds = tuple(run.typeof_pyval(each) for each in (*leading, *arguments))
    run.compile(kinds)  # unless it is compiled
    compiled = run.overloads[kinds]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name), arguments


def _seconds(context: Any, builder: Any) -> Any:
    """Return the monotonic clock in nanoseconds."""
    word = ir.IntType(64)
    place = cgutils.alloca_once(builder, ir.ArrayType(word, 2))
    kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), place.type])
    clock = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
    builder.call(clock, [ir.IntType(32)(getattr(time, "CLOCK_MONOTONIC", 1)), place])
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
    """Add 1 to a number that other threads change; return its former value."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], args)
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")

    return types.int64(numbers, types.int64), generate


@intrinsic
def set_once(typing, numbers, place, value):
    """Set a number that other threads change, unless it is no longer 0; return its former value."""

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
