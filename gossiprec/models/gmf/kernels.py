"""Compiled GMF: local updates with Adam or SGD, merges by performance, scores, and the gradient of clients.

The loops compute the same as :class:`gossiprec.models.gmf.GMF` under torch's optimizers; tests compare them
with the reference executor. A touched item is held as one *record* ``[theta | m | v | gradient]`` in a small working
set while its node trains.

Nodes with noise train in :mod:`.dp_sgd_kernels`. Nodes with items that are drawn back to their start (`anchor`; Share
less) have a specialisation of their own: if `anchor` is None the compiler removes its code, and plain nodes run plain
machine code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import F32
from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.item_records import (
    NodeRow,
    begin_epoch,
    end_epoch,
    load_records,
    store_records,
    sync_records,
)
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.native.jit import borrow, copy_floats, inline, kernel, length, noinline
from gossiprec.numerics.draw_kernels import sample_negatives, shuffle
from gossiprec.numerics.flat_ops import axpy, dot, fill_range, logistic_gradient, scale_into, sum_range
from gossiprec.numerics.lazy_adam import (
    AdamTables,
    adam_step,
    new_tables,
    record_offsets,
    step_record,
)
from gossiprec.numerics.merge import Merge, merge_into, mix
from gossiprec.numerics.relevance_kernels import GAINS


class Places(NamedTuple):
    """Offsets of the parts of a row that a node uses: its user row, the items, and the shared weights."""

    user: int
    items: int
    shared: int


class Anchor(NamedTuple):
    """The records' values as the local update began, and the factor of their drift in the gradient."""

    values: F32
    pull: float32


class DriftPenalty(NamedTuple):
    """The drift penalty of each node: ``penalty[node] * ||v_j - v_j(start)||^2`` for each item j of a batch."""

    penalty: F32


class GMFWorkspace(NamedTuple):
    """The working arrays of a thread.

    Attributes
    ----------
    items, order
        Items of the samples, and order of the samples.
    record_of, held
        Record of each item, and item of each record.
    touched, at_step
        Records that the batch touches, and step to which each record is up to date; -1 if the batch touches it.
    records, slope
        Records, and d loss / d logit, summed per record.
    core
        User, h and b as one record.
    mixed, error
        user * h, and d loss / d logit per sample.
    tables, moves
        Of the lazy steps of Adam.
    no_moments
        In place of a node's moments under plain gradient descent.
    anchor
        Room for the records' first values; empty if no item is drawn back.
    """

    items: np.ndarray
    order: np.ndarray
    record_of: np.ndarray
    held: np.ndarray
    touched: np.ndarray
    at_step: np.ndarray
    records: F32
    slope: F32
    core: F32
    mixed: F32
    error: F32
    tables: AdamTables
    moves: F32
    no_moments: F32
    anchor: F32


@inline
def _new_workspace(most, versions, rule, sizes, n_anchored):
    dim, n_items = length(sizes.dims), sizes.n_items
    n = most * (1 + rule.negatives)
    size = n if rule.batch_size == 0 else min(rule.batch_size, n)
    tables = new_tables(0 if size == 0 else (n + size - 1) // size)
    return GMFWorkspace(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.full(n_items, -1, np.int64),
        np.empty(n_items, np.int64),
        np.empty(n_items, np.int64),
        np.empty(n_items, np.int64),
        np.empty(n_items * 4 * dim, float32),
        np.zeros(n_items, float32),
        np.empty(4 * (2 * dim + 1), float32),
        np.empty(dim, float32),
        np.empty(size, float32),
        tables,
        np.empty((len(tables.sums), 16), float32),
        np.zeros(0 if rule.adam else versions.rows.shape[1], float32),
        np.empty(n_anchored * dim, float32),
    )


@inline
def new_workspace(most, versions, rule, sizes):
    """Return the working arrays for nodes with up to `most` positives."""
    return _new_workspace(most, versions, rule, sizes, 0)


@inline
def new_anchored_workspace(most, versions, rule, sizes):
    """Return the working arrays if items are drawn back."""
    return _new_workspace(most, versions, rule, sizes, sizes.n_items)


@borrow
def places_of(node, sizes):
    """Return the offsets of the parts of a row that a node uses."""
    dim = length(sizes.dims)
    begin = sizes.n_users * dim
    return Places(0 if sizes.n_users == 1 else node * dim, begin, begin + sizes.n_items * dim)


@borrow
def mix_user(user, user_at, weights, weights_at, mixed):
    """Fill `mixed` with ``u * h``, by which item rows are multiplied."""
    for k in range(len(mixed)):
        mixed[k] = user[user_at + k] * weights[weights_at + k]


@borrow
def logit(mixed, bias, values, at, dim):
    """Return the logit of the item with row ``values[at : at + dim]``."""
    z = bias
    for k in range(dim):
        z += mixed[k] * values[at + k]
    return z


@borrow
def logit_gradients(batch, space, rule, dim):
    """Fill the slopes of the batch's records with d loss / d logit; return its sum over the samples."""
    items, record_of, records, core = space.items, space.record_of, space.records, space.core
    slope, mixed, error = space.slope, space.mixed, space.error
    for k in range(dim):
        mixed[k] = core[k] * core[dim + k]
    bias = core[2 * dim]
    for s in range(len(batch)):
        theta = record_offsets(record_of[items[batch[s]]], dim)[0]
        z = bias
        for k in range(dim):
            z += mixed[k] * records[theta + uint64(k)]
        error[s] = -z
    scale = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for s in range(len(batch)):
        error[s] = scale / (float32(1.0) + np.exp(error[s]))
    total = float32(0.0)
    for s in range(len(batch)):
        e = error[s]
        if batch[s] % (1 + rule.negatives) == 0:
            e -= scale
        slope[record_of[items[batch[s]]]] += e
        total += e
    return total


@borrow
def core_gradient(touched, space, dim, total):
    """Fill the gradient of ``core = [user | h | b]`` (records still hold the values of the forward pass)."""
    core, slope, records = space.core, space.slope, space.records
    gradient = core[3 * (2 * dim + 1) :]
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


@borrow
def add_drift_gradient(touched, space, anchor, dim):
    """Fill the gradients of the touched records, including ``pull * (theta - anchor)``; their slope becomes one."""
    records, slope, mixed = space.records, space.slope, space.mixed
    for c in touched:
        theta, gradient, e = record_offsets(c, dim)[0], record_offsets(c, dim)[3], slope[c]
        start = uint64(c) * uint64(dim)
        for k in range(dim):
            drift = records[theta + uint64(k)] - anchor.values[start + uint64(k)]
            records[gradient + uint64(k)] = e * mixed[k] + anchor.pull * drift


@borrow
def optimizer_step(step, touched, space, rule, anchor, dim):
    """Take optimizer step number `step` (from 1) on the touched records and the core."""
    records, slope, core, mixed, span = space.records, space.slope, space.core, space.mixed, 2 * dim + 1
    rate = float32(rule.rate)
    if anchor is not None:
        add_drift_gradient(touched, space, anchor, dim)
    if rule.adam:
        adam = adam_step(step, rule.rate, rule.beta1, rule.beta2, rule.epsilon)
        for c in touched:
            if anchor is None:
                copy_floats(records, (4 * c + 3) * dim, mixed, 0, dim)
                step_record(records, c, dim, slope[c], adam)
            else:
                step_record(records, c, dim, float32(1.0), adam)
        step_record(core, 0, span, float32(1.0), adam)
        return
    for c in touched:
        theta, gradient = record_offsets(c, dim)[0], record_offsets(c, dim)[3]
        if anchor is None:
            e = rate * slope[c]
            for k in range(dim):
                records[theta + uint64(k)] -= e * mixed[k]
        else:
            for k in range(dim):
                records[theta + uint64(k)] -= rate * records[gradient + uint64(k)]
    for k in range(span):
        core[k] -= rate * core[3 * span + k]


@borrow
def run_epoch(n, count, done, table, space, rule, dim, anchor):
    """Pass once over the samples in their order; return the number of optimizer steps.

    `table` is the item table: rows that no sample touches move here, all steps in one pass. `done` steps were taken
    before. `anchor` is None, or the values to which records are drawn back.
    """
    order, listed, at_step, slope = space.order, space.touched, space.at_step, space.slope
    epsilon, adam = float32(rule.epsilon), rule.adam
    size = n if rule.batch_size == 0 else rule.batch_size
    n_steps = (n + size - 1) // size
    one_segment = begin_epoch(n_steps, done, count, table, space, rule)
    for b in range(n_steps):
        batch = order[b * size : min(n, (b + 1) * size)]
        touched = listed[: sync_records(batch, b, space, dim, adam, one_segment, epsilon)]
        total = logit_gradients(batch, space, rule, dim)
        core_gradient(touched, space, dim, total)
        optimizer_step(done + b + 1, touched, space, rule, anchor, dim)
        for c in touched:
            slope[c] = float32(0.0)
            at_step[c] = b + 1
    end_epoch(n_steps, count, space, dim, rule, one_segment)
    return n_steps


@borrow
def _train(index, columns, versions, samples, rule, sizes, space, anchor):
    """Run a local update; with `once` all updates use the negatives of update 0."""
    i, update, dim = columns.node[index], columns.update[index], length(sizes.dims)
    positives = samples.positives[samples.offsets[i] : samples.offsets[i + 1]]
    theta, m, v = versions.rows[columns.target[index]], space.no_moments, space.no_moments
    if rule.adam:
        m, v = versions.first[i], versions.second[i]
    row, places, core = NodeRow(theta, m, v), places_of(i, sizes), space.core
    user, begin, shared = places.user, places.items, places.shared
    n, span = len(positives) * (1 + rule.negatives), 2 * dim + 1
    size = n if rule.batch_size == 0 else rule.batch_size
    drawn = 0 if rule.once else update
    sample_negatives(
        positives, samples.member[i], sizes.n_items, i, drawn, rule.negatives, samples.seed, space.items
    )
    for k in range(span):
        at = user + k if k < dim else shared + k - dim
        core[k], core[span + k], core[2 * span + k] = theta[at], m[at], v[at]
    count = load_records(n, begin, dim, row, space)
    if anchor is not None:
        for c in range(count):
            copy_floats(anchor.values, c * dim, space.records, c * 4 * dim, dim)
    table = NodeRow(theta[begin:shared], m[begin:shared], v[begin:shared])
    for epoch in range(rule.epochs):
        shuffle(space.order, n, i, update * rule.epochs + epoch, samples.seed, n > size)
        versions.steps[i] += run_epoch(n, count, versions.steps[i], table, space, rule, dim, anchor)
    store_records(count, begin, dim, row, space)
    for k in range(span):
        at = user + k if k < dim else shared + k - dim
        theta[at], m[at], v[at] = core[k], core[span + k], core[2 * span + k]


@borrow
def train_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a plain local update."""
    _train(index, columns, versions, samples, rule, sizes, space, None)


@borrow
def train_anchored_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a local update with a drift penalty."""
    anchor = Anchor(space.anchor, float32(2.0) * options.penalty[columns.node[index]])
    _train(index, columns, versions, samples, rule, sizes, space, anchor)


@inline
def merge_task(index, columns, versions, sizes, lists, space):
    """Merge the task's deliveries; a node with `lists` may weight them by performance."""
    rows, source, target = versions.rows, columns.source[index], columns.target[index]
    low, high, node, dim = (
        columns.merge_offsets[index],
        columns.merge_offsets[index + 1],
        columns.node[index],
        length(sizes.dims),
    )
    places = places_of(node, sizes)
    begin = places.items if sizes.n_users == 1 else 0
    end = places.shared + dim + 1
    merge = Merge(source, target, begin, end, columns.merge_row, columns.merge_keep, low, high)
    judges = False
    if lists is not None:
        judges = low < high and columns.merge_keep[low] < float32(0.0)
        if judges:
            judged = lists.items[lists.offsets[node] : lists.offsets[node + 1]]
            columns.refused[index] = merge_by_performance(rows, merge, places, judged, columns.found, dim)
    if not judges:
        merge_into(rows, merge)
    if sizes.n_users == 1 and target != source:
        copy_floats(rows, target * rows.shape[1], rows, source * rows.shape[1], dim)


@noinline
def performance(row, user_row, places, lists, dim, mixed):
    """Return HR@20 x NDCG@20 of the lists' first items, by `row` and a user of `user_row`."""
    mix_user(user_row, places.user, row, places.shared, mixed)
    bias = row[places.shared + dim]
    hits, total = 0, 0.0
    for entry in range(lists.shape[0]):
        mark, beaten, length = float32(0.0), 0, lists.shape[1]
        for place in range(lists.shape[1]):
            if lists[entry, place] < 0:  # PADDING: fewer candidates than other users
                length = place
                break
            z = logit(mixed, bias, row, places.items + lists[entry, place] * dim, dim)
            if place == 0:
                mark = z
            elif z < mark:
                beaten += 1
        rank = length - 1 - beaten
        if rank < CUTOFF:
            hits += 1
            total += GAINS[rank]
    return float32(hits / len(lists) * (total / len(lists)))


@inline
def merge_by_performance(rows, merge, places, lists, found, dim):
    """Merge each version in turn: the same numbers as :mod:`gossiprec.compute.local_update`.

    Returns
    -------
    refused : bool
        Whether neither the own version nor the last received one had any performance.
    """
    width, begin, end = rows.shape[1], merge.begin, merge.end
    mixed = np.empty(dim, float32)
    if merge.target != merge.source:
        copy_floats(rows, merge.target * width, rows, merge.source * width, end)
    refused = False
    for entry in range(merge.first, merge.last):
        out, received = rows[merge.target], rows[merge.row[entry]]
        keep, refused = float32(0.5), False
        if len(lists):
            user_row = out if begin > 0 else received
            worth = performance(received, user_row, places, lists, dim, mixed)
            own = performance(out, out, places, lists, dim, mixed)
            found[entry] = worth
            refused = own + worth == float32(0.0)
            keep = float32(1.0) if refused else own / (own + worth)
        if keep == float32(0.0):
            copy_floats(
                rows, merge.target * width + begin, rows, merge.row[entry] * width + begin, end - begin
            )
        else:
            for k in range(begin, end):
                out[k] = mix(out[k], received[k], keep)
    return refused


@kernel
def score_items(rows, row, user, offsets, items, sizes, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.scores`)."""
    dim = length(sizes.dims)
    begin = sizes.n_users * dim
    shared = begin + sizes.n_items * dim
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


def gradient(dim: int, *, summed: bool = False) -> CompiledGradient:
    """Return the gradient for rows of `dim` numbers."""
    return CompiledGradient(fill, np.array([dim], np.int64), summed=summed)


@kernel
def fill(core, items, slopes, item_slopes, batch, shape, room):
    """Overwrite the slopes (:class:`CompiledGradient`); the first row of `item_slopes` is used for logits.

    `core` is the user's row, the weight h, and the bias.
    """
    dim, n = items.shape
    logits = item_slopes[0]
    fill_range(logits, 0, n, core[2 * dim])
    for i in range(dim):
        axpy(logits, 0, items[i], 0, n, core[i] * core[dim + i])
    logistic_gradient(logits, 0, batch.samples, batch.positives, 0, n)
    slopes[2 * dim] = sum_range(logits, 0, n)
    for i in range(dim - 1, -1, -1):
        along = dot(logits, 0, items[i], 0, n)
        slopes[i], slopes[dim + i] = along * core[dim + i], along * core[i]
        scale_into(item_slopes[i], 0, logits, 0, n, core[i] * core[dim + i])
