"""Compiled merging of delivered versions into a row, of float32 or of float16.

Kernels see float16 rows as uint16. Arithmetic is float32 throughout: a number is widened when read and rounded at
random when written. x86 processors since 2012 and all 64-bit ARM ones convert many numbers at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import F32, I32
from gossiprec.native.jit import borrow, copy_floats, inline, is_float32, load_float32, store_rounded
from gossiprec.numerics.noise import FACTORS

BLOCK = 2048
"""Numbers merged per block: the block stays in the first-level cache while all versions are merged into it."""


class Merge(NamedTuple):
    """The merge of versions, one after the other, on columns ``begin .. end``.

    Row `target` becomes row `source` with rows ``row[first:last]`` merged in turn; the receiver's value keeps the
    weights ``keep[first:last]``.
    """

    source: Any
    target: Any
    begin: int
    end: int
    row: I32
    keep: F32
    first: int
    last: int


@inline
def mix(own, received, keep):
    """Return a number of the merge of rand-gossip, of which the receiver's value keeps a share."""
    return keep * own + (float32(1.0) - keep) * received


@borrow
def merge_into(rows, width, merge):
    """Merge versions, all numbers of a block before the next block; `rows` is flat with `width` numbers per row."""
    source, target, begin, end, merge_row, merge_keep, first, last = merge
    for low in range(begin, end, BLOCK):
        count, at = min(BLOCK, end - low), target * width + low
        out = rows[at : at + count]
        if target != source:
            copy_floats(rows, at, rows, source * width + low, count)
        for entry in range(first, last):
            place = np.int64(merge_row[entry]) * width + low
            received = rows[place : place + count]
            keep = merge_keep[entry]
            if keep == np.float32(1.0) and merge_row[entry] == target:
                continue  # merged before, as a message that lacks numbers
            if keep == np.float32(0.0):
                for k in range(len(out)):
                    out[k] = received[k]
            else:
                for k in range(len(out)):
                    out[k] = mix(out[k], received[k], keep)


@inline
def blend(memory, fresh, momentum):
    """Update a momentum in place: M <- beta M + (1 - beta) Theta (CDA paper, eq. 5)."""
    rest = float32(1.0) - momentum
    for k in range(len(fresh)):
        memory[k] = momentum * memory[k] + rest * fresh[k]


U32 = np.uint32


@borrow
def rounding_noise(key, column):
    """Return 13 random bits, as :func:`gossiprec.numerics.noise.rounding_noise`."""
    word = U32(U32(U32(column) + U32(key)) * U32(FACTORS[0]))  # numba adds in 64 bits
    word = U32(U32(word ^ (word >> U32(15))) * U32(FACTORS[1]))
    return U32(word >> U32(19))


@borrow
def widen_row(wide, at, rows, low, count):
    """Copy numbers ``low .. low + count`` of the flat array `rows` to `wide`, as float32."""
    if is_float32(rows):
        copy_floats(wide, at, rows, low, count)
    else:
        for j in range(count):
            k = uint64(j)
            wide[uint64(at) + k] = load_float32(rows[uint64(low) + k])


@borrow
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


@borrow
def merge_rounded(rows, width, merge, key, block):
    """Merge versions as :func:`merge_into`; numbers are rounded once, by `key`.

    Sums are made in `block`, of BLOCK float32.
    """
    source, target, begin, end, merge_row, merge_keep, first, last = merge
    if source == target and first == last:
        return
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        widen_row(block, 0, rows, source * width + low, count)
        for entry in range(first, last):
            at = uint64(merge_row[entry] * width + low)
            keep = merge_keep[entry]
            if keep == float32(0.0):
                widen_row(block, 0, rows, at, count)
            else:
                for j in range(count):
                    k = uint64(j)
                    block[k] = mix(block[k], load_float32(rows[at + k]), keep)
        narrow_row(rows, target * width + low, low, block, 0, count, key)
