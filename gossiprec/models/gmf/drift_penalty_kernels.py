"""Compiled GMF for nodes with touched items that are drawn back to their start of the local update (Share less)."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.gmf.kernels import max_samples, new_workspace, train
from gossiprec.native.jit import NO_DENORMALS, kernel, swap_float_mode
from gossiprec.numerics.lazy_adam import new_tables


@kernel
def train_tasks(
    tasks, node, target, update, rows, first, second, steps, offsets, positives, member, n_items, n_users,
    negatives, summed, once, batch_size, epochs, adam, rate, beta1, beta2, epsilon, seed, dims, drift_penalty,
):  # fmt: skip
    """Run the local updates of tasks after their merges, in place on their target rows.

    The loss of a batch has ``drift_penalty[node] * ||v_j - v_j(start)||^2`` added for each item j in it.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    shared = begin + n_items * dim
    n, size = max_samples(tasks, node, update, offsets, negatives, batch_size)
    space = new_workspace(n, size, n_items, dim)
    tables = new_tables(0 if size == 0 else (n + size - 1) // size)
    moves = np.empty((len(tables[0]), 16), float32)
    no_moments = np.zeros(0 if adam else rows.shape[1], float32)
    anchor = np.empty(n_items * dim, float32)
    for index in tasks:
        i = node[index]
        mine = positives[offsets[i] : offsets[i + 1]]
        if len(mine):
            m, v = (first[i], second[i]) if adam else (no_moments, no_moments)
            places = (0 if n_users == 1 else i * dim, begin, shared)
            train(
                i, update[index], rows[target[index]], m, v, mine, member[i], steps, places, space, tables, moves,
                dim, negatives, summed, once, batch_size, epochs, adam, rate, beta1, beta2, float32(epsilon), seed,
                anchor, float32(2.0) * drift_penalty[i],
            )  # fmt: skip
    swap_float_mode(mode)
