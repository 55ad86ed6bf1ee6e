"""Compiled PRME-G: local updates by gradient descent, merges in either storage, and scores.

The loops compute the same as :class:`gossiprec.models.prme_g.model.PRMEG` under torch's SGD; tests compare them with
the reference. While a node trains, an item that its samples touch is held as one float32 *record* ``[P | S | gradient
of both]``.
"""

from __future__ import annotations

import numpy as np
from numpy import float32, uint64

from gossiprec.base.geodesy import EARTH_RADIUS_KM
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    copy_floats,
    inline,
    kernel,
    load_float32,
    swap_float_mode,
)
from gossiprec.numerics.draw_kernels import philox, sample_negatives, shuffle
from gossiprec.numerics.float16_rows import BLOCK, merge_rounded, narrow_row, widen_row
from gossiprec.numerics.rounding import MERGED, TRAINED

DIAMETER = float32(2.0 * EARTH_RADIUS_KM)


@borrow
def travel_weight(places, one, other):
    """Return ``(1 + km)^0.25`` for the great-circle distance of two items."""
    square = float32(0.0)
    for axis in range(3):
        gap = places[one, axis] - places[other, axis]
        square += gap * gap
    half = np.sqrt(square) * float32(0.5)
    return np.sqrt(np.sqrt(float32(1.0) + DIAMETER * np.arcsin(min(half, float32(1.0)))))


@borrow
def squared_distance(one, a, other, b, dim):
    """Return the squared distance of ``one[a : a + dim]`` and ``other[b : b + dim]``."""
    total = float32(0.0)
    for j in range(dim):
        k = uint64(j)
        gap = one[uint64(a) + k] - other[uint64(b) + k]
        total += gap * gap
    return total


@borrow
def add_distance_gradient(gradient, at, one, a, other, b, factor, dim):
    """Add ``factor * (one - other)`` to a gradient."""
    for j in range(dim):
        k = uint64(j)
        gradient[uint64(at) + k] += factor * (one[uint64(a) + k] - other[uint64(b) + k])


@borrow
def add_l2_gradient(gradient, at, values, low, factor, dim):
    """Add the gradient of the L2 penalty."""
    for j in range(dim):
        k = uint64(j)
        gradient[uint64(at) + k] += factor * values[uint64(low) + k]


@borrow
def distance_weights(places, item, previous, alpha):
    """Return the weights of the two squared distances in D (CDA paper, eq. 2)."""
    if previous < 0:
        return float32(1.0), float32(0.0)
    weight = travel_weight(places, item, previous)
    return weight * alpha, weight * (float32(1.0) - alpha)


@borrow
def add_sample(records, own, positive, negative, previous, weights, share, l2, dim):
    """Add a sample's gradient, times `share`, to its records and to the user ``own = [u | gradient]``.

    `positive`, `negative` and `previous` are positions of records (`previous` is -1 if unknown); `weights` are those
    of the two distances of the positive and of the negative.
    """
    near, step, far, leap = weights
    x = far * squared_distance(records, negative, own, 0, dim) - near * squared_distance(
        records, positive, own, 0, dim
    )
    if previous >= 0:
        x += leap * squared_distance(records, negative + dim, records, previous + dim, dim)
        x -= step * squared_distance(records, positive + dim, records, previous + dim, dim)
    slope = float32(2.0) * share / (float32(1.0) + np.exp(x))
    decay = share * l2
    gradient = 2 * dim
    add_distance_gradient(records, positive + gradient, records, positive, own, 0, slope * near, dim)
    add_distance_gradient(records, negative + gradient, records, negative, own, 0, -slope * far, dim)
    add_distance_gradient(own, dim, own, 0, records, positive, slope * near, dim)
    add_distance_gradient(own, dim, own, 0, records, negative, -slope * far, dim)
    add_l2_gradient(records, positive + gradient, records, positive, decay, dim)
    add_l2_gradient(records, negative + gradient, records, negative, decay, dim)
    add_l2_gradient(own, dim, own, 0, decay, dim)
    if previous >= 0:
        gradient += dim
        a, b, c = positive + dim, negative + dim, previous + dim
        add_distance_gradient(records, positive + gradient, records, a, records, c, slope * step, dim)
        add_distance_gradient(records, negative + gradient, records, b, records, c, -slope * leap, dim)
        add_distance_gradient(records, previous + gradient, records, c, records, a, slope * step, dim)
        add_distance_gradient(records, previous + gradient, records, c, records, b, -slope * leap, dim)
        add_l2_gradient(records, positive + gradient, records, a, decay, dim)
        add_l2_gradient(records, negative + gradient, records, b, decay, dim)
        add_l2_gradient(records, previous + gradient, records, c, decay, dim)


@borrow
def sgd_step(values, at, count, rate):
    """Take one step on ``values[at : at + count]``, which its gradient follows, and clear the gradient."""
    for j in range(count):
        k = uint64(at) + uint64(j)
        values[k] -= rate * values[k + uint64(count)]
        values[k + uint64(count)] = float32(0.0)


@borrow
def add_drift_gradient(records, at, starts, start, count, factor):
    """Add the gradient of a drift penalty to the gradient of the record ``records[at : at + count]``."""
    for j in range(count):
        k = uint64(j)
        records[uint64(at + count) + k] += factor * (records[uint64(at) + k] - starts[uint64(start) + k])


@borrow
def load_record(item, row, begin, dim, rows, records, record_of, held, count):
    """Make a record of `item` if it has none; return the number of records."""
    if item < 0 or record_of[item] >= 0:
        return count
    record_of[item] = count
    held[count] = item
    widen_row(records, count * 4 * dim, rows, row + begin + item * 2 * dim, 2 * dim)
    for k in range(2 * dim):
        records[count * 4 * dim + 2 * dim + k] = float32(0.0)
    return count + 1


@borrow
def run_epoch(
    order, n, size, negatives, items, weights, previous, record_of, records, own, touched, seen, mark, dim, rate, l2,
    mean, starts, drift,
):  # fmt: skip
    """Pass once over the samples in their order; return the number of steps. `mark` counts steps since the start.

    If `drift` is not 0, the records that a batch touches are drawn back to `starts` by that factor.
    """
    width = 4 * dim
    n_steps = (n + size - 1) // size
    for b in range(n_steps):
        batch = order[b * size : min(n, (b + 1) * size)]
        share = float32(1.0) / float32(len(batch)) if mean else float32(1.0)
        n_touched = 0
        for s in batch:
            move, place = s // negatives, s + s // negatives + 1  # items: a positive, then its negatives
            positive, negative = record_of[items[move * (1 + negatives)]], record_of[items[place]]
            before = record_of[previous[move]] if previous[move] >= 0 else np.int64(-1)
            for c in (positive, negative, before):
                if c >= 0 and seen[c] != mark + b:
                    seen[c] = mark + b
                    touched[n_touched] = c
                    n_touched += 1
            factors = (weights[s, 0], weights[s, 1], weights[s, 2], weights[s, 3])
            start = before * width if before >= 0 else np.int64(-1)
            add_sample(records, own, positive * width, negative * width, start, factors, share, l2, dim)
        for t in range(n_touched):
            if drift > float32(0.0):
                add_drift_gradient(records, touched[t] * width, starts, touched[t] * 2 * dim, 2 * dim, drift)
            sgd_step(records, touched[t] * width, 2 * dim, rate)
        sgd_step(own, 0, dim, rate)
    return n_steps


@borrow
def train(
    i, update, row, user, begin, mine, previous, member, n_items, rows, places, space, negatives, once, batch_size,
    epochs, rate, alpha, l2, mean, seed, dim, drift,
):  # fmt: skip
    """Run local update number `update` of node i on the row that begins at `row`; return the steps taken."""
    items, order, record_of, held, touched, seen, records, own, weights, starts = space
    n = len(mine) * negatives
    size = n if batch_size == 0 else batch_size
    sample_negatives(mine, member, n_items, i, 0 if once else update, negatives, seed, items)
    widen_row(own, 0, rows, row + user, dim)
    for k in range(dim):
        own[dim + k] = float32(0.0)
    count = 0
    for move in range(len(mine)):
        count = load_record(previous[move], row, begin, dim, rows, records, record_of, held, count)
        first = move * (1 + negatives)
        for place in range(first, first + 1 + negatives):
            count = load_record(items[place], row, begin, dim, rows, records, record_of, held, count)
        near, step = distance_weights(places, items[first], previous[move], alpha)
        for q in range(negatives):
            s = move * negatives + q
            far, leap = distance_weights(places, items[first + 1 + q], previous[move], alpha)
            weights[s, 0], weights[s, 1], weights[s, 2], weights[s, 3] = near, step, far, leap
    for c in range(count):
        seen[c] = -1
        if drift > float32(0.0):
            copy_floats(starts, c * 2 * dim, records, c * 4 * dim, 2 * dim)
    taken = 0
    for epoch in range(epochs):
        shuffle(order, n, i, update * epochs + epoch, seed, n > size)
        taken += run_epoch(
            order, n, size, negatives, items, weights, previous, record_of, records, own, touched, seen, taken, dim,
            rate, l2, mean, starts, drift,
        )  # fmt: skip
    key = philox(seed, 0, update, i, TRAINED)[0]
    narrow_row(rows, row + user, user, own, 0, dim, key)
    for c in range(count):
        column = begin + held[c] * 2 * dim
        narrow_row(rows, row + column, column, records, c * 4 * dim, 2 * dim, key)
        record_of[held[c]] = -1
    return taken


@inline
def new_workspace(n_moves, negatives, n_items, dim):
    """Return the working arrays for nodes with up to `n_moves` moves."""
    n = n_moves * negatives
    most = min(n_items, n_moves * (2 + negatives))
    return (
        np.empty(n_moves * (1 + negatives), np.int32),  # positives, each before its negatives
        np.empty(n, np.int32),  # order of the samples
        np.full(n_items if n else 0, -1, np.int64),  # record of each item
        np.empty(most, np.int64),  # item of each record
        np.empty(most, np.int64),  # records that the batch touches
        np.empty(most, np.int64),  # last step that touched each record
        np.empty(most * 4 * dim, float32),  # records
        np.empty(2 * dim, float32),  # user and gradient
        np.empty((n, 4), float32),  # weights of each sample's distances
        np.empty(most * 2 * dim, float32),  # records as the local update began
    )


@kernel
def run_tasks(
    tasks, node, source, target, update, merge_offsets, merge_row, merge_keep, merge_message, rows, width, steps,
    offsets, positives, previous, member, places, n_items, n_users, negatives, once, batch_size, epochs, rate, alpha,
    l2, mean, seed, dims, refused, drift_penalty,
):  # fmt: skip
    """Run tasks one after the other (see :class:`gossiprec.compute.plan.program.Program`).

    `rows` is flat, of float32 or of the bits of float16; `dims` is a tuple as long as the embedding: its length is
    part of the type, so the compiler knows it. The loss of a batch has ``drift_penalty[node]`` times the squared
    drift of its items added.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    most = 0
    for index in tasks:
        if update[index] >= 0:
            most = max(most, offsets[node[index] + 1] - offsets[node[index]])
    space = new_workspace(most, negatives, n_items, dim)
    block = np.empty(BLOCK, float32)
    for index in tasks:
        i, first, last = node[index], merge_offsets[index], merge_offsets[index + 1]
        origin, place = np.int64(source[index]), np.int64(target[index])
        message = merge_message[last - 1] if last > first else 0
        key = philox(seed, 0, message, i, MERGED)[0]
        merge_rounded(
            rows, width, origin, place, begin if n_users == 1 else 0, begin + n_items * 2 * dim, merge_row,
            merge_keep, first, last, key, block,
        )  # fmt: skip
        if n_users == 1 and place != origin:
            for k in range(dim):
                rows[place * width + k] = rows[origin * width + k]
        if update[index] >= 0 and not refused[index] and offsets[i + 1] > offsets[i]:
            mine = slice(offsets[i], offsets[i + 1])
            steps[i] += train(
                i, update[index], place * width, 0 if n_users == 1 else i * dim, begin, positives[mine],
                previous[mine], member[i], n_items, rows, places, space, negatives, once, batch_size, epochs,
                float32(rate), float32(alpha), float32(l2), mean, seed, dim, float32(2.0) * drift_penalty[i],
            )  # fmt: skip
    swap_float_mode(mode)


@kernel
def score_items(rows, width, row, user, offsets, items, contexts, places, n_users, alpha, dims, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.scores`).

    `contexts` is as long as `items`, or empty if no previous visit is known.
    """
    dim = len(dims)
    begin = n_users * dim
    own = np.empty(dim, float32)
    for q in range(len(row)):
        low = row[q] * width
        widen_row(own, 0, rows, low + user[q] * dim, dim)
        for s in range(offsets[q], offsets[q + 1]):
            at = uint64(low + begin + items[s] * 2 * dim)
            before = contexts[s] if len(contexts) else np.int32(-1)
            near, step = distance_weights(places, items[s], before, float32(alpha))
            preference = sequence = float32(0.0)
            for j in range(dim):
                gap = load_float32(rows[at + uint64(j)]) - own[uint64(j)]
                preference += gap * gap
            if before >= 0:
                other = uint64(low + begin + before * 2 * dim + dim)
                for j in range(dim):
                    k = uint64(j)
                    gap = load_float32(rows[at + uint64(dim) + k]) - load_float32(rows[other + k])
                    sequence += gap * gap
            out[s] = -(near * preference + step * sequence)
