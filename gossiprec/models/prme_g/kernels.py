"""Compiled PRME-G: local updates by gradient descent, merges in either storage, scores, and performance.

The loops compute the same as :class:`gossiprec.models.prme_g.PRMEG` under torch's SGD; tests compare them with
the reference. While a node trains, an item that its samples touch is held as one float32 *record* ``[P | S | gradient
of both]``.

The performance of received models is bit-identical to :meth:`Executor.resolve_performance_weights` in the
interpreter. Candidates are scored without a previous visit, so only an item's vector in the preference space counts:
half of its part of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.geodesy import EARTH_RADIUS_KM
from gossiprec.measures.ranking import CUTOFF
from gossiprec.native.jit import borrow, copy_floats, inline, kernel, length, load_float32, strict_math
from gossiprec.numerics.draw_kernels import philox, sample_negatives, shuffle
from gossiprec.numerics.flat_ops import copy_range
from gossiprec.numerics.merge import BLOCK, Merge, merge_rounded, narrow_row, widen_row
from gossiprec.numerics.noise import MERGED, TRAINED
from gossiprec.numerics.relevance_kernels import GAINS

DIAMETER = float32(2.0 * EARTH_RADIUS_KM)


class MoveOptions(NamedTuple):
    """The inputs of local updates on moves that other models lack.

    Attributes
    ----------
    previous : ndarray of int32
        Item before each positive; -1 if unknown.
    places : ndarray of float32, shape (n_items, 3)
    alpha, l2 : float
    drift_penalty : ndarray of float32, shape (n_nodes,)
        Factor of the squared drift of a batch's items in its loss.
    """

    previous: I32
    places: F32
    alpha: float
    l2: float
    drift_penalty: F32


class PRMEGWorkspace(NamedTuple):
    """The working arrays of a thread.

    Attributes
    ----------
    items, order
        Positives, each before its negatives; and order of the samples.
    record_of, held
        Record of each item, and item of each record.
    touched, seen
        Records that the batch touches, and the last step that touched each record.
    records, own
        Records, and ``[user | gradient]``.
    weights
        Weights of each sample's distances.
    starts
        Records as the local update began.
    block
        Of merges.
    """

    items: I32
    order: I32
    record_of: I64
    held: I64
    touched: I64
    seen: I64
    records: F32
    own: F32
    weights: F32
    starts: F32
    block: F32


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


class SamplePlaces(NamedTuple):
    """Positions of the records of a sample's positive, of its negative, and of the previous item (-1 if unknown)."""

    positive: int
    negative: int
    previous: np.signedinteger[Any]


class DistanceWeights(NamedTuple):
    """Weights of the two distances of a sample's positive, and of its negative."""

    near: float32
    step: float32
    far: float32
    leap: float32


@borrow
def add_sample(records, own, places, weights, share, l2, dim):
    """Add a sample's gradient, times `share`, to its records and to the user ``own = [u | gradient]``."""
    near, step, far, leap = weights
    positive, negative, previous = places
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
def load_record(item, rows, table, records, record_of, held, count, dim):
    """Make a record of `item` if it has none; return the number of records. `table` is the offset of the items."""
    if item < 0 or record_of[item] >= 0:
        return count
    record_of[item] = count
    held[count] = item
    widen_row(records, count * 4 * dim, rows, table + item * 2 * dim, 2 * dim)
    for k in range(2 * dim):
        records[count * 4 * dim + 2 * dim + k] = float32(0.0)
    return count + 1


@borrow
def run_epoch(n, mark, previous, space, rule, l2, drift, dim):
    """Pass once over the samples in their order; return the number of steps. `mark` counts steps since the start.

    If `drift` is not 0, the records that a batch touches are drawn back to their starts by that factor.
    """
    items, order, record_of, touched, seen = (
        space.items,
        space.order,
        space.record_of,
        space.touched,
        space.seen,
    )
    records, own, weights, starts = space.records, space.own, space.weights, space.starts
    negatives, rate, width = rule.negatives, float32(rule.rate), 4 * dim
    size = n if rule.batch_size == 0 else rule.batch_size
    n_steps = (n + size - 1) // size
    for b in range(n_steps):
        batch = order[b * size : min(n, (b + 1) * size)]
        share = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
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
            start = before * width if before >= 0 else np.int64(-1)
            places = SamplePlaces(positive * width, negative * width, start)
            factors = DistanceWeights(weights[s, 0], weights[s, 1], weights[s, 2], weights[s, 3])
            add_sample(records, own, places, factors, share, l2, dim)
        for t in range(n_touched):
            if drift > float32(0.0):
                add_drift_gradient(records, touched[t] * width, starts, touched[t] * 2 * dim, 2 * dim, drift)
            sgd_step(records, touched[t] * width, 2 * dim, rate)
        sgd_step(own, 0, dim, rate)
    return n_steps


@borrow
def load_samples(mine, previous, rows, table, space, options, negatives, dim):
    """Make a record of each item, and find the weights of the distances; return the number of records."""
    items, weights, alpha, count = space.items, space.weights, float32(options.alpha), 0
    records, record_of, held, points = space.records, space.record_of, space.held, options.places
    for move in range(len(mine)):
        count = load_record(previous[move], rows, table, records, record_of, held, count, dim)
        first = move * (1 + negatives)
        for place in range(first, first + 1 + negatives):
            count = load_record(items[place], rows, table, records, record_of, held, count, dim)
        near, step = distance_weights(points, items[first], previous[move], alpha)
        for q in range(negatives):
            s = move * negatives + q
            far, leap = distance_weights(points, items[first + 1 + q], previous[move], alpha)
            weights[s, 0], weights[s, 1], weights[s, 2], weights[s, 3] = near, step, far, leap
    return count


@borrow
def train_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a local update on the task's target row."""
    i, update, dim, rows = columns.node[index], columns.update[index], length(sizes.dims), versions.rows
    row, user = np.int64(columns.target[index]) * sizes.width, 0 if sizes.n_users == 1 else i * dim
    begin, own, records, starts = sizes.n_users * dim, space.own, space.records, space.starts
    seen, held, record_of = space.seen, space.held, space.record_of
    some = slice(samples.offsets[i], samples.offsets[i + 1])
    mine, previous, drift = (
        samples.positives[some],
        options.previous[some],
        float32(2.0) * options.drift_penalty[i],
    )
    n = len(mine) * rule.negatives
    size = n if rule.batch_size == 0 else rule.batch_size
    drawn = 0 if rule.once else update
    sample_negatives(
        mine, samples.member[i], sizes.n_items, i, drawn, rule.negatives, samples.seed, space.items
    )
    widen_row(own, 0, rows, row + user, dim)
    for k in range(dim):
        own[dim + k] = float32(0.0)
    count = load_samples(mine, previous, rows, row + begin, space, options, rule.negatives, dim)
    for c in range(count):
        seen[c] = -1
        if drift > float32(0.0):
            copy_floats(starts, c * 2 * dim, records, c * 4 * dim, 2 * dim)
    taken = 0
    for epoch in range(rule.epochs):
        shuffle(space.order, n, i, update * rule.epochs + epoch, samples.seed, n > size)
        taken += run_epoch(n, taken, previous, space, rule, float32(options.l2), drift, dim)
    key = philox(samples.seed, 0, update, i, TRAINED)[0]
    narrow_row(rows, row + user, user, own, 0, dim, key)
    for c in range(count):
        column = begin + held[c] * 2 * dim
        narrow_row(rows, row + column, column, records, c * 4 * dim, 2 * dim, key)
        record_of[held[c]] = -1
    versions.steps[i] += taken


@inline
def new_workspace(n_moves, versions, rule, sizes, options):
    """Return the working arrays for nodes with up to `n_moves` moves."""
    dim, negatives = length(sizes.dims), rule.negatives
    n = n_moves * negatives
    most = min(sizes.n_items, n_moves * (2 + negatives))
    return PRMEGWorkspace(
        np.empty(n_moves * (1 + negatives), np.int32),
        np.empty(n, np.int32),
        np.full(sizes.n_items if n else 0, -1, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most * 4 * dim, float32),
        np.empty(2 * dim, float32),
        np.empty((n, 4), float32),
        np.empty(most * 2 * dim, float32),
        np.empty(BLOCK, float32),
    )


@inline
def merge_task(index, columns, versions, sizes, seed, options, space):
    """Merge the deliveries of a task; rows of float16 are rounded by the last one's message."""
    rows, node, dim = versions.rows, columns.node[index], length(sizes.dims)
    source, target = np.int64(columns.source[index]), np.int64(columns.target[index])
    first, last = columns.merge_offsets[index], columns.merge_offsets[index + 1]
    message = columns.merge_message[last - 1] if last > first else 0
    key = philox(seed, 0, message, node, MERGED)[0]
    begin = sizes.n_users * dim
    start, end = begin if sizes.n_users == 1 else 0, begin + sizes.n_items * 2 * dim
    merge = Merge(source, target, start, end, columns.merge_row, columns.merge_keep, first, last)
    merge_rounded(rows, sizes.width, merge, key, space.block)
    if sizes.n_users == 1 and target != source:
        for k in range(dim):
            rows[target * sizes.width + k] = rows[source * sizes.width + k]


@kernel
def score_items(query, contexts, sizes, places, alpha, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.scores`).

    `contexts` is as long as the queries' items, or empty if no previous visit is known.
    """
    rows, row, user, offsets, items = query
    dim, width = length(sizes.dims), sizes.width
    begin = sizes.n_users * dim
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


LANES, LEAF = 8, 128
"""Number of parallel sums in numpy, and length above which it halves a list."""


@strict_math
def numpy_order_sum(values):
    """Return the sum of float64 numbers in numpy's order of additions."""
    n = len(values)
    if n > LEAF:
        half = n // 2 - n // 2 % LANES
        return numpy_order_sum(values[:half]) + numpy_order_sum(values[half:])
    total, whole = 0.0, n - n % LANES if n >= LANES else 0
    if whole:
        a, b, c, d = values[0], values[1], values[2], values[3]
        e, f, g, h = values[4], values[5], values[6], values[7]
        for k in range(LANES, whole, LANES):
            a, b, c, d = a + values[k], b + values[k + 1], c + values[k + 2], d + values[k + 3]
            e, f, g, h = e + values[k + 4], f + values[k + 5], g + values[k + 6], h + values[k + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for k in range(whole, n):
        total += values[k]
    return total


@strict_math
def merge_models(own, other, keep):
    """Merge `other` into `own`; products are rounded before they are added."""
    give = float32(1.0) - keep
    for k in range(len(own)):
        own[k] = other[k] if keep == float32(0.0) else keep * own[k] + give * other[k]


@borrow
def performance(scores, lists, place_of, gained):
    """Return HR@20 x NDCG@20 of the lists' first items, by the scores of all their items."""
    hits = 0
    for entry in range(lists.shape[0]):
        mark, beaten, length = scores[place_of[lists[entry, 0]]], 0, lists.shape[1]
        for place in range(1, lists.shape[1]):
            if lists[entry, place] < 0:  # PADDING: fewer candidates than other users
                length = place
                break
            beaten += scores[place_of[lists[entry, place]]] < mark
        rank = length - 1 - beaten
        gained[entry] = GAINS[rank] if rank < CUTOFF else 0.0
        hits += rank < CUTOFF
    n = lists.shape[0]
    return float32(hits / n * (numpy_order_sum(gained[:n]) / n))


@borrow
def predict_scores(model, count, dim, scores):
    """Fill `scores` with a model's scores of its items; the model is ``[user | items]``."""
    for c in range(count):
        at, near = uint64((c + 1) * dim), float32(0.0)
        for j in range(dim):
            gap = load_float32(model[at + uint64(j)]) - model[uint64(j)]
            near += gap * gap
        scores[c] = -near


@borrow
def load_submodel(rows, user, items, kept, count, dim, model):
    """Fill `model` with the user row at position `user` of `rows`, and the preference vectors of the kept items."""
    widen_row(model, 0, rows, user, dim)
    for c in range(count):
        widen_row(model, (c + 1) * dim, rows, items + kept[c] * 2 * dim, dim)


@kernel
def appraise_tasks(tasks, columns, rows, lists, sizes):
    """Compute the weights of the tasks' merges by performance; `rows` is flat, float32 or the bits of float16."""
    dim, most, n_items, width = length(sizes.dims), 0, sizes.n_items, sizes.width
    found, merge_keep, merge_offsets = columns.found, columns.merge_keep, columns.merge_offsets
    for index in tasks:
        node = columns.node[index]
        most = max(most, lists.offsets[node + 1] - lists.offsets[node])
    size = min(n_items, most * lists.items.shape[1])
    place_of, kept = np.full(n_items if most else 0, -1, np.int64), np.empty(size, np.int64)
    own, other = np.empty((size + 1) * dim, float32), np.empty((size + 1) * dim, float32)
    scores, gained = np.empty(size, float32), np.empty(most)
    for index in tasks:
        first, last, i = merge_offsets[index], merge_offsets[index + 1], columns.node[index]
        if first == last or not merge_keep[first] < float32(0.0):
            continue
        mine = lists.items[lists.offsets[i] : lists.offsets[i + 1]]
        if not len(mine):
            merge_keep[first:last] = float32(0.5)
            continue
        count = 0
        for entry in range(mine.shape[0]):
            for place in range(mine.shape[1]):
                if mine[entry, place] < 0:  # PADDING
                    break
                if place_of[mine[entry, place]] < 0:
                    place_of[mine[entry, place]] = count
                    kept[count] = mine[entry, place]
                    count += 1
        items, user = sizes.n_users * dim, 0 if sizes.n_users == 1 else i * dim
        origin = np.int64(columns.source[index]) * width
        load_submodel(rows, origin + user, origin + items, kept, count, dim, own)
        for entry in range(first, last):
            at = np.int64(columns.merge_row[entry]) * width
            load_submodel(rows, at + user, at + items, kept, count, dim, other)
            if sizes.n_users == 1:
                copy_range(other, 0, own, 0, dim)
            predict_scores(own, count, dim, scores)
            before = performance(scores, mine, place_of, gained)
            predict_scores(other, count, dim, scores)
            worth = performance(scores, mine, place_of, gained)
            total = before + worth
            keep = before / total if total > float32(0.0) else float32(1.0)
            merge_keep[entry], found[entry] = keep, worth
            columns.refused[index] = total == float32(0.0)
            merge_models(own[: (count + 1) * dim], other[: (count + 1) * dim], keep)
        for c in range(count):
            place_of[kept[c]] = -1
