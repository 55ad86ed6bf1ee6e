"""Rows kept in float16 inside kernels, which see them as uint16; the same code serves rows of float32.

Arithmetic is float32 throughout: a number is widened when read and rounded when written. x86 processors since 2012 and
all 64-bit ARM ones convert many at a time.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy import float32, uint64

from gossiprec.native.jit import copy_floats, inline
from gossiprec.numerics.rounding import FACTORS

U32 = np.uint32


BLOCK = 2048
"""Numbers merged at a time: they stay in the first-level cache while every version is merged into them."""


@intrinsic
def load_float32(typing, value):
    """Return a stored number, float32 or the bits of a float16, as float32."""

    def generate(context, builder, signature, args):
        if signature.args[0] == types.float32:
            return args[0]
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(value), generate


@intrinsic
def store_rounded(typing, stored, value, noise):
    """Return float32 `value` as a number of the array `stored`; see :func:`gossiprec.numerics.rounding.to_float16`."""
    kind = stored.dtype

    def generate(context, builder, signature, args):
        if kind == types.float32:
            return args[1]
        word = ir.IntType(32)
        bits = builder.add(builder.bitcast(args[1], word), args[2])
        bits = builder.and_(bits, ir.Constant(word, 0xFFFFE000))
        half = builder.fptrunc(builder.bitcast(bits, ir.FloatType()), ir.HalfType())
        return builder.bitcast(half, ir.IntType(16))

    return kind(stored, types.float32, types.uint32), generate


@inline
def rounding_noise(key, column):
    """Return 13 random bits: :func:`gossiprec.numerics.rounding.rounding_noise`."""
    word = U32(U32(U32(column) + U32(key)) * U32(FACTORS[0]))  # numba adds in 64 bits
    word = U32(U32(word ^ (word >> U32(15))) * U32(FACTORS[1]))
    return U32(word >> U32(19))


@intrinsic
def is_float32(typing, rows):
    """Return whether an array holds float32: known to the compiler, which drops the other branch."""

    def generate(context, builder, signature, args):
        return ir.Constant(ir.IntType(1), signature.args[0].dtype == types.float32)

    return types.boolean(rows), generate


@inline
def widen_row(wide, at, rows, low, count):
    """Copy numbers ``low .. low + count`` of the flat array `rows` to `wide`, as float32."""
    if is_float32(rows):
        copy_floats(wide, at, rows, low, count)
    else:
        for j in range(count):
            k = uint64(j)
            wide[uint64(at) + k] = load_float32(rows[uint64(low) + k])


@inline
def narrow_row(rows, low, column, wide, at, count, key):
    """Copy `count` float32 numbers to place `low` of the flat array `rows`, column `column` of its row."""
    if is_float32(rows):
        copy_floats(rows, low, wide, at, count)
    else:
        for j in range(count):
            k = uint64(j)
            rows[uint64(low) + k] = store_rounded(
                rows, wide[uint64(at) + k], rounding_noise(key, uint64(column) + k)
            )


@inline
def merge_rounded(rows, width, source, target, begin, end, merge_row, merge_keep, first, last, key, block):
    """Write into row `target` row `source` with entries first .. last merged in turn, on columns begin .. end.

    `rows` is flat with `width` numbers a row; sums are made in `block`, of BLOCK float32, and rounded once.
    """
    if source == target and first == last:
        return
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        widen_row(block, 0, rows, source * width + low, count)
        for entry in range(first, last):
            at = uint64(merge_row[entry] * width + low)
            keep = merge_keep[entry]
            give = float32(1.0) - keep
            if keep == float32(0.0):
                widen_row(block, 0, rows, at, count)
            else:
                for j in range(count):
                    k = uint64(j)
                    block[k] = keep * block[k] + give * load_float32(rows[at + k])
        narrow_row(rows, target * width + low, low, block, 0, count, key)


@intrinsic
def bits_of(typing, number):
    """Return the bits of a float32 as an int32."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def float_of(typing, bits):
    """Return the float32 with these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate
