"""Keys for rounding rows to float16: of the event that made a row."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I64, U32
from gossiprec.compute.plan.program import Program
from gossiprec.numerics.rounding import ENCODED, MERGED, TRAINED
from gossiprec.rng import philox_words


def merge_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key for rounding what each task merged: of its node and the last message it merges."""
    ends = program.merge_offsets[tasks + 1]
    merges = ends > program.merge_offsets[tasks]
    last = np.zeros(len(tasks), np.int64)
    last[merges] = program.merge_message[ends[merges] - 1]
    return philox_words(seed, 0, last, program.node[tasks], MERGED)[:, 0]


def update_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key for rounding what each task trained: of its node and the number of its local update."""
    return philox_words(seed, 0, program.update[tasks], program.node[tasks], TRAINED)[:, 0]


def push_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key for rounding what leaves: of its node and the number of its push."""
    return philox_words(seed, 0, program.push[tasks], program.node[tasks], ENCODED)[:, 0]
