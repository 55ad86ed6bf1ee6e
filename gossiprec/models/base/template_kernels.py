"""The loops of :mod:`gossiprec.models.base.kernel_template`: training, merges and scores, item by item.

Loops are templates: :func:`specialise_model` puts a model's functions in place of the stubs of
:mod:`.template_formula`. Merges, samples and optimizers are the same for all. The loss is the cross-entropy of
labelled items. A touched item is one *record* ``[theta | m | v | gradient]`` in a small working set while its node
trains. An item has one score in a batch, however often it is in it, so a step computes one gradient per item.

If the score is affine, a step computes two gradients in all. With e_c = d loss / d score, summed per item, the gradient
by item c is ``e_c m``. The derivatives f of the score by the user's row and shared weights are affine in v, too, so
``sum_c e_c f(v_c) = f(sum_c e_c v_c) - f(0) + sum_c e_c f(0)``.

Nodes with terms in their loss (:mod:`.terms`) have a specialisation of their own: if `terms` is None the compiler
removes its code, and plain nodes run plain machine code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import F32
from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.dp_sgd_kernels import TINY, specialise_private
from gossiprec.models.base.item_records import (
    NodeRow,
    begin_epoch,
    end_epoch,
    load_record,
    store_records,
    touch_record,
)
from gossiprec.models.base.task_kernels import specialise_tasks
from gossiprec.models.base.template_formula import (
    ITEM,
    OF_ITEM,
    OF_SHARED,
    OF_USER,
    ROOM,
    SHARED,
    START,
    SUM,
    USER,
    FormulaInputs,
    FormulaRoom,
    Kind,
    Queries,
    ScoredRows,
    TableRows,
    add_gradient,
    clear,
    core_slopes,
    mix_rows,
    new_room,
    query_score,
    room_places,
    score,
    specialise_formula,
)
from gossiprec.models.base.template_pairs import PairFunctions, specialise_pairs
from gossiprec.models.base.terms import ItemTerm, add_from, specialise_terms
from gossiprec.native.jit import (
    borrow,
    constants,
    copy_floats,
    inline,
    is_float32,
    length,
    noinline,
    part,
    specialise,
    stored_part,
)
from gossiprec.numerics.draw_kernels import philox, sample_negatives, shuffle
from gossiprec.numerics.flat_ops import exp32
from gossiprec.numerics.lazy_adam import (
    AdamTables,
    adam_step,
    fill_moves,
    new_tables,
    record_offsets,
    step_record,
)
from gossiprec.numerics.merge import BLOCK, Merge, merge_into, merge_rounded, mix, narrow_row, widen_row
from gossiprec.numerics.noise import MERGED, TRAINED
from gossiprec.numerics.relevance_kernels import GAINS


class TermInputs(NamedTuple):
    """The records' values as the local update began, and the node's strength of each term."""

    start: F32
    strengths: F32


class Treatment(NamedTuple):
    """The inputs of the formula, and those of the terms of a local update, or None."""

    formula: FormulaInputs
    terms: TermInputs | None


class TemplateWorkspace(NamedTuple):
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
        Records, and d loss / d score, summed per record; zero between two steps.
    error
        d loss / d score of each sample, or the probability of each record.
    core
        The user's row and the shared weights as one record.
    room
        Of the model's functions (:func:`gossiprec.models.base.template_formula.new_room`).
    tables, moves
        Of the lazy steps of Adam.
    no_moments
        In place of a node's moments under plain gradient descent.
    start
        Room for the records' first values; empty without terms.
    before, weights
        Record of each positive's context, -1 if unknown, and the weights of each item's query
        (:mod:`.template_pairs`); empty for models without contexts.
    block
        Of merges of float16.
    """

    items: np.ndarray
    order: np.ndarray
    record_of: np.ndarray
    held: np.ndarray
    touched: np.ndarray
    at_step: np.ndarray
    records: F32
    slope: F32
    error: F32
    core: F32
    room: F32
    tables: AdamTables
    moves: F32
    no_moments: F32
    start: F32
    before: np.ndarray
    weights: F32
    block: F32


@inline
def _new_workspace(most, versions, rule, sizes, options, n_kept):
    dim, item_dim, n_items = length(sizes.dims), length(sizes.item_dims), sizes.n_items
    n, n_weights = most * (1 + rule.negatives), length(options.weight_dims)
    size = n if rule.batch_size == 0 else min(rule.batch_size, n)
    tables = new_tables(0 if size == 0 else (n + size - 1) // size)
    n_contexts = most if n_weights else 0
    held = min(n + n_contexts, n_items)
    return TemplateWorkspace(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.full(n_items, -1, np.int64),
        np.empty(held, np.int64),
        np.empty(held, np.int64),
        np.empty(held, np.int64),
        np.empty((held + min(n_contexts, 1)) * 4 * item_dim, float32),
        np.zeros(held, float32),
        np.empty(max(size, held), float32),
        np.empty(4 * (dim + sizes.n_shared), float32),
        new_room(sizes, options),
        tables,
        np.empty((len(tables.sums), 16), float32),
        np.zeros(0 if rule.adam else sizes.width, float32),
        np.empty(min(held, n_kept) * item_dim, float32),
        np.empty(n_contexts, np.int64),
        np.empty(n * n_weights, float32),
        np.empty(0 if is_float32(versions.rows) else BLOCK, float32),
    )


@inline
def new_workspace(most, versions, rule, sizes, options):
    """Return the working arrays for nodes with up to `most` positives."""
    return _new_workspace(most, versions, rule, sizes, options, 0)


@inline
def new_term_workspace(most, versions, rule, sizes, options):
    """Return the working arrays of local updates with terms."""
    return _new_workspace(most, versions, rule, sizes, options, sizes.n_items)


class RowPlaces(NamedTuple):
    """Offsets in a row: the node's own user row, the items, and the shared weights."""

    user: int
    items: int
    shared: int


@borrow
def row_places(node, sizes):
    """Return the offsets of the parts of a row that a node uses."""
    dim, begin = length(sizes.dims), sizes.n_users * length(sizes.dims)
    return RowPlaces(
        0 if sizes.n_users == 1 else node * dim, begin, begin + sizes.n_items * length(sizes.item_dims)
    )


@borrow
def sum_of_squares(values):
    """Return the squared Euclidean norm."""
    total = float32(0.0)
    for k in range(len(values)):
        total += values[k] * values[k]
    return total


@borrow
def add_scaled(total, factor, values):
    """Add ``factor * values`` to `total`."""
    for k in range(len(total)):
        total[k] += factor * values[k]


def fill_gradients(batch, touched, space, rule, sizes, options):
    """Fill the gradients of the batch's records and of the core."""
    dim, item_dim, core, records = length(sizes.dims), length(sizes.item_dims), space.core, space.records
    slope, chance, items, record_of = space.slope, space.error, space.items, space.record_of
    shape = constants(options.shape)
    room = part(space.room, room_places(sizes).rest, options.n_room, ROOM)
    user, shared = part(core, 0, dim, USER), part(core, dim, sizes.n_shared, SHARED)
    at_user, at_shared = core_slopes(sizes)
    of_user, of_shared = part(core, at_user, dim, OF_USER), part(core, at_shared, sizes.n_shared, OF_SHARED)
    clear(of_user)
    clear(of_shared)
    scale = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for c in touched:
        z = score(ScoredRows(user, part(records, 4 * c * item_dim, item_dim, ITEM), shared), room, shape)
        chance[c] = scale / (float32(1.0) + np.exp(-z))
    for s in batch:
        c = record_of[items[s]]
        slope[c] += chance[c] - (scale if s % (1 + rule.negatives) == 0 else float32(0.0))
    for c in touched:
        p = ScoredRows(user, part(records, 4 * c * item_dim, item_dim, ITEM), shared)
        of_item = part(records, (4 * c + 3) * item_dim, item_dim, OF_ITEM)
        clear(of_item)
        add_gradient(p, slope[c], ScoredRows(of_user, of_item, of_shared), room, shape)


@borrow
def affine_slopes(batch, space, rule, sizes, bias):
    """Fill the slopes of the batch's records with d loss / d score; return its sum over the samples."""
    items, record_of, records, slope, error = (
        space.items,
        space.record_of,
        space.records,
        space.slope,
        space.error,
    )
    item_dim = length(sizes.item_dims)
    mixed = part(space.room, room_places(sizes).mixed, item_dim, OF_ITEM)
    for s in range(len(batch)):
        theta, z = record_offsets(record_of[items[batch[s]]], item_dim)[0], bias
        for k in range(item_dim):
            z += mixed[k] * records[theta + uint64(k)]
        error[s] = -z
    scale = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for s in range(len(batch)):
        error[s] = scale / (float32(1.0) + exp32(error[s]))
    total = float32(0.0)
    for s in range(len(batch)):
        e = error[s]
        if batch[s] % (1 + rule.negatives) == 0:
            e -= scale
        slope[record_of[items[batch[s]]]] += e
        total += e
    return total


def fill_affine_gradients(batch, touched, space, rule, sizes, options):
    """Fill the slopes of the batch's records, m, and the gradient of the core."""
    dim, item_dim, n_shared = length(sizes.dims), length(sizes.item_dims), sizes.n_shared
    core, records, slope, room, at = space.core, space.records, space.slope, space.room, room_places(sizes)
    user, shared = part(core, 0, dim, USER), part(core, dim, n_shared, SHARED)
    total = affine_slopes(
        batch, space, rule, sizes, mix_rows(user, shared, FormulaRoom(room, sizes, options))
    )
    point, weighted = part(room, at.point, item_dim, ITEM), part(room, at.item, item_dim, OF_ITEM)
    clear(weighted)
    for c in touched:
        e, theta = slope[c], record_offsets(c, item_dim)[0]
        for k in range(item_dim):
            weighted[k] += e * records[theta + uint64(k)]
    for k in range(item_dim):
        point[k] = weighted[k]
    at_user, at_shared = core_slopes(sizes)
    of_user, of_shared = part(core, at_user, dim, OF_USER), part(core, at_shared, n_shared, OF_SHARED)
    clear(of_user)
    clear(of_shared)
    slopes, own = ScoredRows(of_user, weighted, of_shared), part(room, at.rest, options.n_room, ROOM)
    add_gradient(ScoredRows(user, point, shared), float32(1.0), slopes, own, constants(options.shape))
    user_at_zero = part(room, at.base, dim, OF_USER)
    shared_at_zero = part(room, at.base + dim, n_shared, OF_SHARED)
    for k in range(dim):
        of_user[k] = (of_user[k] - user_at_zero[k]) + total * user_at_zero[k]
    for k in range(n_shared):
        of_shared[k] = (of_shared[k] - shared_at_zero[k]) + total * shared_at_zero[k]


@borrow
def record_factor(c, space, sizes):
    """Return the factor of record c's gradient, which is in the record."""
    return float32(1.0)


@borrow
def affine_record_factor(c, space, sizes):
    """Copy m to record c's gradient; return the factor, the record's slope."""
    item_dim = length(sizes.item_dims)
    copy_floats(space.records, (4 * c + 3) * item_dim, space.room, room_places(sizes).mixed, item_dim)
    return space.slope[c]


def add_term_gradients(touched, space, sizes, terms):
    """Fill the gradients of the touched records, including those of the terms; their slope becomes one."""
    n, records = length(sizes.item_dims), space.records
    for c in touched:
        factor, offsets = record_factor(c, space, sizes), record_offsets(c, n)
        slopes = part(records, np.int64(offsets[3]), n, OF_ITEM)
        for k in range(n):
            slopes[k] *= factor
        item, start = part(records, np.int64(offsets[0]), n, ITEM), part(terms.start, c * n, n, START)
        add_from(slopes, item, start, terms.strengths, 0)


def descend(step, touched, space, rule, sizes, terms):
    """Take optimizer step number `step` (from 1) of the touched records and the core, along their gradients."""
    item_dim, records, core = length(sizes.item_dims), space.records, space.core
    span, rate = length(sizes.dims) + sizes.n_shared, float32(rule.rate)
    if terms is not None:
        add_term_gradients(touched, space, sizes, terms)
    if rule.adam:
        adam = adam_step(step, rule.rate, rule.beta1, rule.beta2, rule.epsilon)
        for c in touched:
            factor = float32(1.0) if terms is not None else record_factor(c, space, sizes)
            step_record(records, c, item_dim, factor, adam)
        step_record(core, 0, span, float32(1.0), adam)
        return
    for c in touched:
        factor = rate if terms is not None else rate * record_factor(c, space, sizes)
        theta, gradient = record_offsets(c, item_dim)[0], record_offsets(c, item_dim)[3]
        for k in range(item_dim):
            records[theta + uint64(k)] -= factor * records[gradient + uint64(k)]
    for k in range(span):
        core[k] -= rate * core[3 * span + k]


@borrow
def touch_sample(s, count, step, space, rule, dim, one_segment, epsilon):
    """List the record of a sample's item; return the number of listed records."""
    c = space.record_of[space.items[s]]
    return touch_record(c, count, step, space, dim, rule.adam, one_segment, epsilon)


def run_epoch(n, count, done, table, space, rule, sizes, treatment):
    """Pass once over the samples in their order; return the number of optimizer steps.

    `table` is the item table: rows that no sample touches move here, all steps in one pass. `done` steps were taken
    before.
    """
    at_step, slope = space.at_step, space.slope
    epsilon, item_dim = float32(rule.epsilon), length(sizes.item_dims)
    size = n if rule.batch_size == 0 else rule.batch_size
    n_steps = (n + size - 1) // size
    one_segment = begin_epoch(n_steps, done, count, table, space, rule)
    for b in range(n_steps):
        batch = space.order[b * size : min(n, (b + 1) * size)]
        if one_segment:
            fill_moves(space.tables, b, space.moves)
        n_touched = 0
        for s in batch:
            n_touched = touch_sample(s, n_touched, b, space, rule, item_dim, one_segment, epsilon)
        touched = space.touched[:n_touched]
        fill_gradients(batch, touched, space, rule, sizes, treatment.formula)
        descend(done + b + 1, touched, space, rule, sizes, treatment.terms)
        for c in touched:
            slope[c] = float32(0.0)
            at_step[c] = b + 1
    end_epoch(n_steps, count, space, item_dim, rule, one_segment)
    return n_steps


@borrow
def load_core(row, places, space, sizes, adam):
    """Copy the user's row and the shared weights, with moments, to the core."""
    core, dim, n_shared = space.core, length(sizes.dims), sizes.n_shared
    span = dim + n_shared
    widen_row(core, 0, row.theta, places.user, dim)
    widen_row(core, dim, row.theta, places.shared, n_shared)
    if adam:
        copy_floats(core, span, row.first, places.user, dim)
        copy_floats(core, span + dim, row.first, places.shared, n_shared)
        copy_floats(core, 2 * span, row.second, places.user, dim)
        copy_floats(core, 2 * span + dim, row.second, places.shared, n_shared)


@borrow
def store_core(row, places, space, sizes, key, adam):
    """Copy the core back; numbers of float16 are rounded by `key`."""
    core, dim, n_shared = space.core, length(sizes.dims), sizes.n_shared
    span = dim + n_shared
    narrow_row(row.theta, places.user, places.user, core, 0, dim, key)
    narrow_row(row.theta, places.shared, places.shared, core, dim, n_shared, key)
    if adam:
        copy_floats(row.first, places.user, core, span, dim)
        copy_floats(row.first, places.shared, core, span + dim, n_shared)
        copy_floats(row.second, places.user, core, 2 * span, dim)
        copy_floats(row.second, places.shared, core, 2 * span + dim, n_shared)


@borrow
def count_samples(n_positives, rule):
    """Return the number of samples of a local update: every positive, each with its negatives."""
    return n_positives * (1 + rule.negatives)


@borrow
def load_samples(n_positives, low, begin, row, space, rule, sizes, options):
    """Make a record of each item; return the number of records."""
    count, dim = 0, length(sizes.item_dims)
    for s in range(n_positives * (1 + rule.negatives)):
        count = load_record(space.items[s], count, begin, dim, row, rule.adam, space)
    return count


@borrow
def keep_start(count, space, dim, terms):
    """Keep the records' values if there are terms, which may depend on them."""
    if terms is not None:
        for c in range(count):
            copy_floats(terms.start, c * dim, space.records, c * 4 * dim, dim)


def run_update(index, columns, versions, samples, rule, sizes, treatment, space):
    """Run a local update; with `once` all updates use the negatives of update 0."""
    i, update, item_dim = columns.node[index], columns.update[index], length(sizes.item_dims)
    positives = samples.positives[samples.offsets[i] : samples.offsets[i + 1]]
    low = np.int64(columns.target[index]) * sizes.width
    theta, m, v = versions.rows[low : low + sizes.width], space.no_moments, space.no_moments
    if rule.adam:
        m, v = versions.first[i], versions.second[i]
    row, places = NodeRow(theta, m, v), row_places(i, sizes)
    begin, end, n = places.items, places.shared, count_samples(len(positives), rule)
    size = n if rule.batch_size == 0 else rule.batch_size
    drawn = 0 if rule.once else update
    sample_negatives(
        positives, samples.member[i], sizes.n_items, i, drawn, rule.negatives, samples.seed, space.items
    )
    load_core(row, places, space, sizes, rule.adam)
    first = samples.offsets[i]
    count = load_samples(len(positives), first, begin, row, space, rule, sizes, treatment.formula)
    keep_start(count, space, item_dim, treatment.terms)
    table = NodeRow(theta[begin:end], m[begin:end], v[begin:end])
    for epoch in range(rule.epochs):
        shuffle(space.order, n, i, update * rule.epochs + epoch, samples.seed, n > size)
        done = versions.steps[i]
        versions.steps[i] += run_epoch(n, count, done, table, space, rule, sizes, treatment)
    key = np.uint32(0) if is_float32(versions.rows) else philox(samples.seed, 0, update, i, TRAINED)[0]
    store_records(count, begin, item_dim, row, key, rule.adam, space)
    store_core(row, places, space, sizes, key, rule.adam)


def train_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a plain local update."""
    run_update(index, columns, versions, samples, rule, sizes, Treatment(options, None), space)


def train_term_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a local update with terms."""
    terms = TermInputs(space.start, options.strengths[columns.node[index]])
    run_update(index, columns, versions, samples, rule, sizes, Treatment(options, terms), space)


def add_clipped_gradients(batch, parts, space, rule, sizes, clip, options):
    """Add the batch's clipped gradients to the gradient (:mod:`gossiprec.models.base.dp_sgd_kernels`)."""
    dim, item_dim, n_shared = length(sizes.dims), length(sizes.item_dims), sizes.n_shared
    items, small, gradient = space.items, space.small, space.gradient
    room, shape = part(space.room, 0, options.n_room, ROOM), constants(options.shape)
    user, shared = part(parts.user, 0, dim, USER), part(parts.shared, 0, n_shared, SHARED)
    of_user, of_item = part(small, 0, dim, OF_USER), part(small, dim, item_dim, OF_ITEM)
    of_shared = part(small, dim + item_dim, n_shared, OF_SHARED)
    first_shared = dim + sizes.n_items * item_dim
    user_sum, shared_sum = part(gradient, 0, dim, SUM), part(gradient, first_shared, n_shared, SUM)
    for s in batch:
        low = items[s] * item_dim
        p = ScoredRows(user, part(parts.items, low, item_dim, ITEM), shared)
        clear(of_user)
        clear(of_item)
        clear(of_shared)
        error = float32(1.0) / (float32(1.0) + np.exp(-score(p, room, shape)))
        error -= float32(1.0) if s % (1 + rule.negatives) == 0 else float32(0.0)
        add_gradient(p, error, ScoredRows(of_user, of_item, of_shared), room, shape)
        norm = np.sqrt(sum_of_squares(of_user) + sum_of_squares(of_item) + sum_of_squares(of_shared))
        factor = min(float32(1.0), clip / (norm + TINY))
        add_scaled(user_sum, factor, of_user)
        add_scaled(part(gradient, dim + low, item_dim, SUM), factor, of_item)
        add_scaled(shared_sum, factor, of_shared)


@borrow
def copy_stored(rows, at, low, count):
    """Copy `count` numbers of `rows`, of float32 or of the bits of float16."""
    if is_float32(rows):
        copy_floats(rows, at, rows, low, count)
    else:
        for k in range(count):
            rows[uint64(at) + uint64(k)] = rows[uint64(low) + uint64(k)]


@borrow
def merge_rows(rows, merge, columns, node, sizes, options, space):
    """Merge versions by their weights; rows of float16 are rounded once, by the last one's message."""
    if is_float32(rows):
        merge_into(rows, sizes.width, merge)
    else:
        message = columns.merge_message[merge.last - 1] if merge.last > merge.first else 0
        key = philox(options.seed, 0, message, node, MERGED)[0]
        merge_rounded(rows, sizes.width, merge, key, space.block)


def merge_task(index, columns, versions, sizes, lists, options, space):
    """Merge the task's deliveries; a node with `lists` may weight them by performance."""
    source, target = np.int64(columns.source[index]), np.int64(columns.target[index])
    low, high, node = columns.merge_offsets[index], columns.merge_offsets[index + 1], columns.node[index]
    places = row_places(node, sizes)
    begin, end = places.items if sizes.n_users == 1 else 0, places.shared + sizes.n_shared
    merge = Merge(source, target, begin, end, columns.merge_row, columns.merge_keep, low, high)
    judges = False
    if lists is not None:
        judges = low < high and columns.merge_keep[low] < float32(0.0)
        if judges:
            judged = lists.items[lists.offsets[node] : lists.offsets[node + 1]]
            columns.refused[index] = merge_by_performance(
                versions.rows, merge, places, judged, columns.found, FormulaRoom(space.room, sizes, options)
            )
    if not judges:
        merge_rows(versions.rows, merge, columns, node, sizes, options, space)
    if sizes.n_users == 1 and target != source:  # user rows are not merged
        copy_stored(versions.rows, target * sizes.width, source * sizes.width, length(sizes.dims))


def performance(row, user_row, places, lists, form):
    """Return HR@20 x NDCG@20 of the lists' first items, by `row` and a user of `user_row`."""
    room, sizes, options = form
    at = room_places(sizes)
    user = stored_part(user_row, places.user, length(sizes.dims), USER, room, at.user)
    shared = stored_part(row, places.shared, sizes.n_shared, SHARED, room, at.shared)
    rows, bias = TableRows(user, shared, row, places.items), mix_rows(user, shared, form)
    hits, total = 0, 0.0
    for entry in range(lists.shape[0]):
        mark, beaten, size = float32(0.0), 0, lists.shape[1]
        queries = Queries(lists[entry], options.contexts, options.constants)
        for place in range(lists.shape[1]):
            if lists[entry, place] < 0:  # PADDING: fewer candidates than other users
                size = place
                break
            z = query_score(rows, queries, place, bias, form)
            if place == 0:
                mark = z
            elif z < mark:
                beaten += 1
        rank = size - 1 - beaten
        if rank < CUTOFF:
            hits += 1
            total += GAINS[rank]
    return float32(hits / len(lists) * (total / len(lists)))


def merge_by_performance(rows, merge, places, lists, found, form):
    """Merge each version in turn: the same numbers as :mod:`gossiprec.compute.local_update`.

    Returns
    -------
    refused : bool
        Whether neither the own version nor the last received one had any performance.
    """
    width, begin, end = form.sizes.width, merge.begin, merge.end
    at = merge.target * width
    out = rows[at : at + width]
    if merge.target != merge.source:
        copy_floats(rows, at, rows, merge.source * width, end)
    refused = False
    for entry in range(merge.first, merge.last):
        low = np.int64(merge.row[entry]) * width
        received, keep, refused = rows[low : low + width], float32(0.5), False
        if len(lists):
            user_row = out if begin > 0 else received
            worth = performance(received, user_row, places, lists, form)
            own = performance(out, out, places, lists, form)
            found[entry] = worth
            refused = own + worth == float32(0.0)
            keep = float32(1.0) if refused else own / (own + worth)
        if keep == float32(0.0):
            copy_floats(rows, at + begin, rows, low + begin, end - begin)
        else:
            for k in range(begin, end):
                out[k] = mix(out[k], received[k], keep)
    return refused


def fill_scores(rows, queries, form, out):
    """Fill `out` with the scores of queries."""
    bias = mix_rows(rows.user, rows.shared, form)
    for j in range(len(queries.items)):
        out[j] = query_score(rows, queries, j, bias, form)


def score_items(rows, row, user, offsets, queries, sizes, options, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.score`)."""
    dim, room, at = length(sizes.dims), new_room(sizes, options), room_places(sizes)
    for q in range(len(row)):
        theta, places = row[q] * sizes.width, row_places(user[q], sizes)
        own = stored_part(rows, theta + places.user, dim, USER, room, at.user)
        shared = stored_part(rows, theta + places.shared, sizes.n_shared, SHARED, room, at.shared)
        low, high = offsets[q], offsets[q + 1]
        some = Queries(queries.items[low:high], queries.contexts[low:high], queries.weights[low:high])
        given = TableRows(own, shared, rows, theta + places.items)
        fill_scores(given, some, FormulaRoom(room, sizes, options), out[low:high])


class TrainingLoops(NamedTuple):
    """The loops of training and of scores for one model."""

    run_tasks: Any
    score_items: Any
    fill_scores: Any


class TreatedLoops(NamedTuple):
    """The loops of local updates with terms, and of those by DP-SGD, with or without terms; None if there are none."""

    run_term_tasks: Any
    run_private_tasks: Any


class UpdateParts(NamedTuple):
    """A model's functions in a local update.

    Attributes
    ----------
    fill, factor : kernel
        In place of `fill_gradients` and `record_factor`.
    touched, loading : mapping
        By name, the functions that replace those of :func:`run_epoch` and of :func:`run_update`.
    """

    fill: Any
    factor: Any
    touched: Mapping[str, Any]
    loading: Mapping[str, Any]

    def specialise(self, task: Any, terms: tuple[ItemTerm, ...]) -> Any:
        """Return the local update `task` with the functions in place."""
        of_record = {"record_factor": self.factor}
        add = specialise(add_term_gradients, borrow, add_from=specialise_terms(terms), **of_record)
        step = specialise(descend, borrow, add_term_gradients=add, **of_record)
        epoch = specialise(run_epoch, borrow, fill_gradients=self.fill, descend=step, **self.touched)
        return specialise(
            task, borrow, run_update=specialise(run_update, borrow, run_epoch=epoch, **self.loading)
        )

    def specialise_terms(self, terms: tuple[ItemTerm, ...]) -> Any:
        """Return the loop over local updates with terms."""
        return specialise_tasks(new_term_workspace, self.specialise(train_term_task, terms))


@functools.cache
def _update_parts(score: Any, add_gradient: Any, kind: Kind, pairs: PairFunctions | None) -> UpdateParts:
    of = specialise_formula(score, add_gradient, kind)
    if kind == "affine":
        mix_rows = {"mix_rows": of.scoring["mix_rows"]}
        fill = specialise(fill_affine_gradients, borrow, add_gradient=of.gradient["add_gradient"], **mix_rows)
        return UpdateParts(fill, affine_record_factor, {}, {})
    if pairs is not None:
        fill, touch, own = specialise_pairs(of, pairs)
        return UpdateParts(fill, record_factor, {"touch_sample": touch}, own)
    return UpdateParts(specialise(fill_gradients, borrow, **of.gradient), record_factor, {}, {})


@functools.cache
def specialise_training(
    score: Any, add_gradient: Any, kind: Kind, pairs: PairFunctions | None
) -> TrainingLoops:
    """Return the loops with a model's own functions, which are plain Python, in place."""
    of = specialise_formula(score, add_gradient, kind)
    measure = specialise(performance, noinline, **of.scoring)
    weigh = specialise(merge_by_performance, inline, performance=measure)
    merge = specialise(merge_task, inline, merge_by_performance=weigh)
    train = _update_parts(score, add_gradient, kind, pairs).specialise(train_task, ())
    scores = specialise(fill_scores, noinline, **of.scoring)
    return TrainingLoops(
        specialise_tasks(new_workspace, train, merge), specialise(score_items, fill_scores=scores), scores
    )


@functools.cache
def specialise_treated(
    score: Any, add_gradient: Any, kind: Kind, pairs: PairFunctions | None, terms: tuple[ItemTerm, ...]
) -> TreatedLoops:
    """Return the loops of nodes with some terms or DP-SGD, with a model's own functions in place."""
    of = specialise_formula(score, add_gradient, kind)
    clipped = specialise(add_clipped_gradients, borrow, **of.gradient) if pairs is None else None
    return TreatedLoops(
        _update_parts(score, add_gradient, kind, pairs).specialise_terms(terms) if terms else None,
        None if clipped is None else specialise_private(clipped, terms),
    )
