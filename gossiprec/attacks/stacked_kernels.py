"""Collecting and judging the small models of single adversaries, compiled: nothing here knows a formula."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.numerics.half import widen_row
from gossiprec.numerics.jit import NO_DENORMALS, copy_floats, kernel, swap_float_mode
from gossiprec.numerics.merge import blend
from gossiprec.numerics.relevance import MEMBERS
from gossiprec.numerics.relevance_kernels import SCRATCH, entropy, relevance_of


@kernel
def collect(
    rows, width, row, adversary, victim, message, hides, kept_offsets, kept_items, padded, lengths, slot_of,
    seen_before, memory, memory_offsets, momenta, users, own, small, n_items, n_users, dim, item_dim, n_shared,
):  # fmt: skip
    """Fill ``small[k, momentum]`` with what the receiver of delivery k holds of its victim, one after the other.

    `rows` and `memory` are as in :func:`gossiprec.attacks.individual_kernels.observe_individuals`; a small model is
    ``[user | kept items, padded | shared]``. `own`, (n, dim + n_shared), is what to look with at those who hide their
    user rows, or empty: `users` then.
    """
    mode = swap_float_mode(NO_DENORMALS)
    begin = n_users * dim
    shared = begin + n_items * item_dim
    fresh = np.zeros(max(lengths), float32)
    for k in range(len(row)):
        a, at = adversary[k], np.int64(row[k]) * width
        mine = kept_items[kept_offsets[a] : kept_offsets[a + 1]]
        tail, end = dim + len(mine) * item_dim, dim + padded[a] * item_dim
        if hides[victim[k]]:
            fresh[:dim] = float32(0.0)
        else:
            widen_row(fresh, 0, rows, at + (0 if n_users == 1 else victim[k] * dim), dim)
        for j in range(len(mine)):
            widen_row(fresh, dim + j * item_dim, rows, at + begin + mine[j] * item_dim, item_dim)
        widen_row(fresh, tail, rows, at + shared, n_shared)
        slot, place = slot_of[message[k]], 0
        for b in range(len(momenta)):
            vector = fresh[: tail + n_shared]
            if momenta[b] > 0.0:
                if slot >= 0:
                    low = memory_offsets[a] + slot * lengths[a]
                    held = memory[place, low : low + tail + n_shared]
                    if seen_before[message[k]]:
                        blend(held, vector, momenta[b])
                    else:
                        copy_floats(held, 0, vector, 0, len(vector))
                    vector = held
                place += 1
            out = small[k, b]
            copy_floats(out, 0, vector, 0, tail)
            copy_floats(out, end, vector, tail, n_shared)
            if hides[victim[k]] and len(own):
                copy_floats(out, 0, own[k], 0, dim)
                copy_floats(out, end, own[k], dim, n_shared)
            elif hides[victim[k]]:
                copy_floats(out, 0, users[a], 0, dim)
    swap_float_mode(mode)


@kernel
def judge(scores, offsets, n_targets, rules, thresholds, found):
    """Fill ``found[k, rule]`` with the relevance of scores ``offsets[k]:offsets[k + 1]``, targets first."""
    scratch = np.empty(SCRATCH, float32)
    for k in range(len(n_targets)):
        own, others = (
            scores[offsets[k] : offsets[k] + n_targets[k]],
            scores[offsets[k] + n_targets[k] : offsets[k + 1]],
        )
        if rules[0] == MEMBERS:
            own = own.copy()
            for j in range(len(own)):
                own[j] = entropy(own[j])
        for r in range(len(rules)):
            found[k, r] = relevance_of(rules[r], thresholds[r], own, others, scratch)
