"""Compiled GMF: local updates with Adam or SGD, and scores.

The loops compute the same as :class:`gossiprec.models.gmf.model.GMF` under torch's optimizers; tests compare them
with the reference executor. A touched item is held as one *record* ``[theta | m | v | gradient]`` in a small working
set while its node trains.

Nodes with items that are drawn back to their start (`anchor`) train in :mod:`.drift_penalty_kernels`, nodes with
noise in :mod:`.dp_sgd_kernels`. If `anchor` is None the compiler removes its code: plain nodes run plain machine
code.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32, uint64

from gossiprec.models.gmf.performance_kernels import merge_by_performance
from gossiprec.native.jit import NO_DENORMALS, borrow, copy_floats, inline, kernel, swap_float_mode
from gossiprec.numerics.draw_kernels import sample_negatives, shuffle
from gossiprec.numerics.lazy_adam import (
    advance_record,
    advance_rows,
    fill_moves,
    fill_tables,
    move_record,
    new_tables,
    record_offsets,
    step_record,
)
from gossiprec.numerics.merge import merge_into


@borrow
def load_records(items, n, begin, dim, theta, first, second, records, record_of, held):
    """Copy the rows of the sampled items into records; return the number of records."""
    count = 0
    for s in range(n):
        item = items[s]
        if record_of[item] < 0:
            record_of[item] = count
            held[count] = item
            low, at = begin + item * dim, count * 4 * dim
            copy_floats(records, at, theta, low, dim)
            copy_floats(records, at + dim, first, low, dim)
            copy_floats(records, at + 2 * dim, second, low, dim)
            count += 1
    return count


@borrow
def store_records(count, begin, dim, theta, first, second, records, record_of, held):
    """Copy the records back and clear them."""
    for c in range(count):
        item = held[c]
        record_of[item] = -1
        low, at = begin + item * dim, c * 4 * dim
        copy_floats(theta, low, records, at, dim)
        copy_floats(first, low, records, at + dim, dim)
        copy_floats(second, low, records, at + 2 * dim, dim)


@borrow
def logit_gradients(batch, negatives, summed, items, record_of, records, slope, core, mixed, error, dim):
    """Fill the slopes of the batch's records with d loss / d logit; return its sum over the samples.

    `summed` means that the loss is the sum over the samples, not their mean.
    """
    for k in range(dim):
        mixed[k] = core[k] * core[dim + k]
    bias = core[2 * dim]
    for s in range(len(batch)):
        theta = record_offsets(record_of[items[batch[s]]], dim)[0]
        z = bias
        for k in range(dim):
            z += mixed[k] * records[theta + uint64(k)]
        error[s] = -z
    scale = float32(1.0) if summed else float32(1.0) / float32(len(batch))
    for s in range(len(batch)):
        error[s] = scale / (float32(1.0) + np.exp(error[s]))
    total = float32(0.0)
    for s in range(len(batch)):
        e = error[s]
        if batch[s] % (1 + negatives) == 0:
            e -= scale
        slope[record_of[items[batch[s]]]] += e
        total += e
    return total


@borrow
def core_gradient(core, gradient, dim, touched, slope, records, total):
    """Fill `gradient` for ``core = [user | h | b]`` (records still hold the values of the forward pass)."""
    for k in range(dim):
        gradient[k] = float32(0.0)
    for c in touched:
        e, theta = slope[c], record_offsets(c, dim)[0]
        for k in range(dim):
            gradient[k] += e * records[theta + uint64(k)]
    for k in range(dim):
        pull = gradient[k]
        gradient[k] = pull * core[dim + k]
        gradient[dim + k] = pull * core[k]
    gradient[2 * dim] = total


@inline
def new_workspace(n, size, n_items, dim):
    """Return the working arrays for nodes with up to `n` samples, in batches of up to `size`."""
    return (
        np.empty(n, np.int32),  # items of the samples
        np.empty(n, np.int32),  # order of the samples
        np.full(n_items, -1, np.int64),  # record of each item
        np.empty(n_items, np.int64),  # item of each record
        np.empty(n_items, np.int64),  # records that the batch touches
        np.empty(n_items, np.int64),  # step to which each record is up to date; -1: touched by the batch
        np.empty(n_items * 4 * dim, float32),  # records
        np.zeros(n_items, float32),  # d loss / d logit, summed per record
        np.empty(4 * (2 * dim + 1), float32),  # core: user, h and b as one record
        np.empty(dim, float32),  # user * h
        np.empty(size, float32),  # d loss / d logit per sample
    )


@borrow
def sync_records(
    batch, step, items, record_of, touched, at_step, records, tables, moves, dim, adam, one_segment, epsilon
):
    """Bring the records of a batch up to date and list them; return their number."""
    if one_segment:
        fill_moves(tables, step, moves)
    count = 0
    for sample in batch:
        c = record_of[items[sample]]
        if at_step[c] >= 0:
            if one_segment and at_step[c] < step:
                move_record(records, c, dim, moves, at_step[c], epsilon)
            elif adam and at_step[c] < step:
                advance_record(records, c, dim, tables, at_step[c], step, epsilon)
            at_step[c] = -1
            touched[count] = c
            count += 1
    return count


@borrow
def step_adam(step, touched, records, slope, core, mixed, dim, rate, beta1, beta2, epsilon):
    """Take optimizer step number `step` (from 1) on the touched records and the core."""
    betas = (float32(beta1), float32(1.0 - beta1), float32(beta2), float32(1.0 - beta2))
    now = float32(rate / (1.0 - beta1**step))
    correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
    for c in touched:
        copy_floats(records, (4 * c + 3) * dim, mixed, 0, dim)
        step_record(records, c, dim, slope[c], now, correction, betas, epsilon)
    step_record(core, 0, 2 * dim + 1, float32(1.0), now, correction, betas, epsilon)


@borrow
def step_sgd(touched, records, slope, core, mixed, dim, rate):
    """Take one step of plain gradient descent."""
    span = 2 * dim + 1
    for c in touched:
        e, theta = rate * slope[c], record_offsets(c, dim)[0]
        for k in range(dim):
            records[theta + uint64(k)] -= e * mixed[k]
    for k in range(span):
        core[k] -= rate * core[3 * span + k]


@borrow
def add_drift_gradient(touched, records, slope, mixed, anchor, pull, dim):
    """Fill the gradients of the touched records, including ``pull * (theta - anchor)``; their slope becomes one."""
    for c in touched:
        theta, gradient, e = record_offsets(c, dim)[0], record_offsets(c, dim)[3], slope[c]
        start = uint64(c) * uint64(dim)
        for k in range(dim):
            drift = records[theta + uint64(k)] - anchor[start + uint64(k)]
            records[gradient + uint64(k)] = e * mixed[k] + pull * drift


@borrow
def step_anchored(
    step, touched, records, slope, core, mixed, anchor, pull, dim, adam, rate, beta1, beta2, epsilon
):
    """Take one optimizer step on the touched records, drawn back to `anchor`, and on the core."""
    span = 2 * dim + 1
    add_drift_gradient(touched, records, slope, mixed, anchor, pull, dim)
    if adam:
        betas = (float32(beta1), float32(1.0 - beta1), float32(beta2), float32(1.0 - beta2))
        now = float32(rate / (1.0 - beta1**step))
        correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
        for c in touched:
            step_record(records, c, dim, float32(1.0), now, correction, betas, epsilon)
        step_record(core, 0, span, float32(1.0), now, correction, betas, epsilon)
    else:
        for c in touched:
            theta, gradient = record_offsets(c, dim)[0], record_offsets(c, dim)[3]
            for k in range(dim):
                records[theta + uint64(k)] -= float32(rate) * records[gradient + uint64(k)]
        for k in range(span):
            core[k] -= float32(rate) * core[3 * span + k]


@borrow
def run_epoch(
    n, size, done, count, theta, m, v, space, tables, moves, dim, negatives, summed, adam, rate, beta1, beta2,
    epsilon, anchor, pull,
):  # fmt: skip
    """Pass once over the samples in their order; return the number of optimizer steps.

    `theta`, `m`, `v` are the item table and its moments: rows that no sample touches move here, all steps in one
    pass. `anchor` is None, or the records' values to which `pull` draws them back.
    """
    items, order, record_of, _, listed, at_step, records, slope, core, mixed, error = space
    n_steps = (n + size - 1) // size
    one_segment = False
    if adam:
        one_segment = fill_tables(tables, done, n_steps, rate, beta1, beta2) == 1
        advance_rows(theta, m, v, tables, 0, n_steps, epsilon)
    for c in range(count):
        at_step[c] = 0
    for b in range(n_steps):
        batch = order[b * size : min(n, (b + 1) * size)]
        n_touched = sync_records(
            batch,
            b,
            items,
            record_of,
            listed,
            at_step,
            records,
            tables,
            moves,
            dim,
            adam,
            one_segment,
            epsilon,
        )
        touched = listed[:n_touched]
        total = logit_gradients(
            batch, negatives, summed, items, record_of, records, slope, core, mixed, error, dim
        )  # fmt: skip
        core_gradient(core, core[3 * (2 * dim + 1) :], dim, touched, slope, records, total)
        if anchor is not None:
            step_anchored(
                done + b + 1, touched, records, slope, core, mixed, anchor, pull, dim, adam, rate, beta1, beta2,
                epsilon,
            )  # fmt: skip
        elif adam:
            step_adam(done + b + 1, touched, records, slope, core, mixed, dim, rate, beta1, beta2, epsilon)
        else:
            step_sgd(touched, records, slope, core, mixed, dim, float32(rate))
        for c in touched:
            slope[c] = float32(0.0)
            at_step[c] = b + 1
    if one_segment:
        fill_moves(tables, n_steps, moves)
    for c in range(count if adam else 0):
        if one_segment and at_step[c] < n_steps:
            move_record(records, c, dim, moves, at_step[c], epsilon)
        elif at_step[c] < n_steps:
            advance_record(records, c, dim, tables, at_step[c], n_steps, epsilon)
    return n_steps


@borrow
def train(
    i, update, theta, m, v, positives, member, steps, places, space, tables, moves, dim, negatives, summed, once,
    batch_size, epochs, adam, rate, beta1, beta2, epsilon, seed, anchor, pull,
):  # fmt: skip
    """Run local update number `update` of node i on its row `theta` and moments `m`, `v`.

    `anchor` is None, or room for the items' first values; with `once` all updates use the negatives of update 0.
    """
    items, order, record_of, held, _, _, records, _, core, _, _ = space
    user, begin, shared = places
    n, span = len(positives) * (1 + negatives), 2 * dim + 1
    size = n if batch_size == 0 else batch_size
    sample_negatives(
        positives, member, (shared - begin) // dim, i, 0 if once else update, negatives, seed, items
    )
    for k in range(span):
        at = user + k if k < dim else shared + k - dim
        core[k], core[span + k], core[2 * span + k] = theta[at], m[at], v[at]
    count = load_records(items, n, begin, dim, theta, m, v, records, record_of, held)
    if anchor is not None:
        for c in range(count):
            copy_floats(anchor, c * dim, records, c * 4 * dim, dim)
    for epoch in range(epochs):
        shuffle(order, n, i, update * epochs + epoch, seed, n > size)
        steps[i] += run_epoch(
            n, size, steps[i], count, theta[begin:shared], m[begin:shared], v[begin:shared], space, tables, moves,
            dim, negatives, summed, adam, rate, beta1, beta2, epsilon, anchor, pull,
        )  # fmt: skip
    store_records(count, begin, dim, theta, m, v, records, record_of, held)
    for k in range(span):
        at = user + k if k < dim else shared + k - dim
        theta[at], m[at], v[at] = core[k], core[span + k], core[2 * span + k]


@borrow
def max_samples(tasks, node, update, offsets, negatives, batch_size):
    """Return the number of samples of the largest local update among the tasks, and of its largest batch."""
    longest = 0
    for index in tasks:
        if update[index] >= 0:
            longest = max(longest, offsets[node[index] + 1] - offsets[node[index]])
    n = longest * (1 + negatives)
    return n, n if batch_size == 0 else min(batch_size, n)


@kernel
def run_tasks(
    tasks, node, source, target, update, merge_offsets, merge_row, merge_keep, rows, first, second, steps,
    offsets, positives, member, n_items, n_users, negatives, summed, once, batch_size, epochs, adam, rate, beta1,
    beta2, epsilon, seed, dims, list_offsets, lists, found, refused,
):  # fmt: skip
    """Run tasks one after the other (see :class:`gossiprec.compute.plan.program.Program`).

    `dims` is a tuple as long as the embedding: its length is part of the type, so the compiler knows it. If no node
    merges by performance, `lists` is None and the machine code has no part for it.
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
    for index in tasks:
        i, theta = node[index], rows[target[index]]
        low, high, user = merge_offsets[index], merge_offsets[index + 1], 0 if n_users == 1 else i * dim
        own = begin if n_users == 1 else 0
        judges = False
        if lists is not None:
            judges = low < high and merge_keep[low] < float32(0.0)
            if judges:
                judged = lists[list_offsets[i] : list_offsets[i + 1]]
                refused[index] = merge_by_performance(
                    rows, source[index], target[index], own, (user, begin, shared), merge_row, low, high, judged, dim,
                    found,
                )  # fmt: skip
        if not judges:
            merge_into(
                rows, source[index], target[index], own, shared + dim + 1, merge_row, merge_keep, low, high
            )  # fmt: skip
        if n_users == 1 and target[index] != source[index]:
            copy_floats(rows, target[index] * rows.shape[1], rows, source[index] * rows.shape[1], dim)
        trains = update[index] >= 0 and not refused[index]
        mine = positives[offsets[i] : offsets[i + 1]] if trains else positives[:0]
        if len(mine):
            m, v = (first[i], second[i]) if adam else (no_moments, no_moments)
            places = (user, begin, shared)
            train(
                i, update[index], theta, m, v, mine, member[i], steps, places, space, tables, moves, dim, negatives,
                summed, once, batch_size, epochs, adam, rate, beta1, beta2, float32(epsilon), seed, None, float32(0.0),
            )  # fmt: skip
    swap_float_mode(mode)


@kernel
def score_items(rows, row, user, offsets, items, n_items, n_users, dims, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.scores`)."""
    dim = len(dims)
    begin = n_users * dim
    shared = begin + n_items * dim
    mixed = np.empty(dim, float32)
    for q in range(len(row)):
        theta = rows[row[q]]
        for k in range(dim):
            mixed[k] = theta[user[q] * dim + k] * theta[shared + k]
        bias = theta[shared + dim]
        for s in range(offsets[q], offsets[q + 1]):
            item = theta[begin + items[s] * dim : begin + items[s] * dim + dim]
            z = bias
            for k in range(dim):
                z += mixed[k] * item[k]
            out[s] = z
