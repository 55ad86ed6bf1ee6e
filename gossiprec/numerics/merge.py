"""Compiled merging of delivered versions into a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I32
from gossiprec.native.jit import borrow, copy_floats, inline

BLOCK = 2048
"""Numbers merged per block: the block stays in the first-level cache while all versions are merged into it."""


class Merge(NamedTuple):
    """The merge of versions, one after the other, on columns ``begin .. end``.

    Row `target` becomes row `source` with rows ``row[first:last]`` merged in turn; the receiver's value keeps the
    weights ``keep[first:last]``.
    """

    source: int
    target: int
    begin: int
    end: int
    row: I32
    keep: F32
    first: int
    last: int


@borrow
def merge_into(rows, merge):
    """Merge versions, all numbers of a block before the next block."""
    source, target, begin, end, merge_row, merge_keep, first, last = merge
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        out = rows[target, low:high]
        if target != source:
            copy_floats(rows, target * rows.shape[1] + low, rows, source * rows.shape[1] + low, high - low)
        for entry in range(first, last):
            received = rows[merge_row[entry], low:high]
            keep = merge_keep[entry]
            give = np.float32(1.0) - keep
            if keep == np.float32(0.0):
                for k in range(len(out)):
                    out[k] = received[k]
            else:
                for k in range(len(out)):
                    out[k] = keep * out[k] + give * received[k]


@inline
def blend(memory, fresh, momentum):
    """Update a momentum in place: M <- beta M + (1 - beta) Theta (CDA paper, eq. 5)."""
    rest = float32(1.0) - momentum
    for k in range(len(fresh)):
        memory[k] = momentum * memory[k] + rest * fresh[k]
