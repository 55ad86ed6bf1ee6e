"""The loops of :mod:`gossiprec.models.base.kernel_template`: compiled models that score item by item.

Loops are templates: :func:`specialise_model` puts a model's `score` and `add_gradient` in place of the stubs of this
module. Merges, samples and optimizers are the same for all. The loss is the cross-entropy of labelled items. An item
has one score in a batch, however often it is in it, so a step computes one score and one gradient per item.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32
from gossiprec.models.base.dp_sgd_kernels import TINY, specialise_private
from gossiprec.models.base.item_records import (
    NodeRow,
    begin_epoch,
    end_epoch,
    load_records,
    store_records,
    sync_records,
)
from gossiprec.models.base.kernel_interface import FIT_NEGATIVES, FIT_RATE, FIT_STEPS
from gossiprec.models.base.task_kernels import specialise_tasks
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    constants,
    copy_floats,
    inline,
    length,
    noinline,
    part,
    specialise,
    swap_float_mode,
)
from gossiprec.numerics.draw_kernels import sample_negatives, shuffle
from gossiprec.numerics.lazy_adam import (
    AdamTables,
    adam_step,
    new_tables,
    step_record,
    step_vector,
)
from gossiprec.numerics.merge import Merge, merge_into
from gossiprec.numerics.relevance import MEMBERS
from gossiprec.numerics.relevance_kernels import SCRATCH, compute_relevance, entropy

USER, ITEM, SHARED, OF_USER, OF_ITEM, OF_SHARED, ROOM, SUM = range(8)
"""The kinds of arrays that a model's functions get; none overlaps another (:func:`gossiprec.native.jit.part`)."""


class ScoredRows(NamedTuple):
    """The numbers that a score depends on, or the derivatives by them: a user's row, an item's, shared weights."""

    user: F32
    item: F32
    shared: F32


def score(p, room, shape):
    """Stand in for the model's: return the logit of an item."""
    raise NotImplementedError


def add_gradient(p, error, slopes, room, shape):
    """Stand in for the model's: add the gradient of the logit, times `error`, to `slopes`."""
    raise NotImplementedError


class FormulaInputs(NamedTuple):
    """The further inputs of a formula.

    Attributes
    ----------
    room : ndarray of float32
        Working memory of one thread, with arbitrary contents.
    shape : tuple
        Sizes that the model chooses, by :func:`gossiprec.native.jit.as_type`: the compiler knows them.
    summed : bool
        Whether the loss is the sum over the samples.
    penalty : ndarray of float32, shape (n_nodes,)
        Of each node: factor of the squared drift of a batch's items.
    starts : ndarray of float32
        Room for the records' first values; empty if no item is drawn back.
    """

    room: F32
    shape: tuple[Any, ...]
    summed: bool
    penalty: F32
    starts: F32


class TemplateWorkspace(NamedTuple):
    """The working arrays of a thread: those of :mod:`.item_records`, and those of a step.

    Attributes
    ----------
    slope, chance
        d loss / d logit of each record, and its probability.
    core
        The user's row and the shared weights as one record.
    no_moments
        In place of a node's moments under plain gradient descent.
    """

    items: np.ndarray
    order: np.ndarray
    record_of: np.ndarray
    held: np.ndarray
    touched: np.ndarray
    at_step: np.ndarray
    records: F32
    slope: F32
    chance: F32
    core: F32
    tables: AdamTables
    moves: F32
    no_moments: F32


@inline
def new_workspace(most, versions, rule, sizes):
    """Return the working arrays for nodes with up to `most` positives."""
    dim, item_dim, n_items = length(sizes.dims), length(sizes.item_dims), sizes.n_items
    n = most * (1 + rule.negatives)
    size = n if rule.batch_size == 0 else min(rule.batch_size, n)
    tables = new_tables(0 if size == 0 else (n + size - 1) // size)
    held = min(n, n_items)
    return TemplateWorkspace(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.full(n_items, -1, np.int64),
        np.empty(held, np.int64),
        np.empty(held, np.int64),
        np.empty(held, np.int64),
        np.empty(held * 4 * item_dim, float32),
        np.zeros(held, float32),
        np.empty(held, float32),
        np.empty(4 * (dim + sizes.n_shared), float32),
        tables,
        np.empty((len(tables.sums), 16), float32),
        np.zeros(0 if rule.adam else versions.rows.shape[1], float32),
    )


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
def clear(values):
    """Set all values to zero."""
    for k in range(len(values)):
        values[k] = float32(0.0)


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
    slope, chance, items, record_of = space.slope, space.chance, space.items, space.record_of
    span, shape = dim + sizes.n_shared, constants(options.shape)
    room = part(options.room, 0, len(options.room), ROOM)
    user, shared = part(core, 0, dim, USER), part(core, dim, sizes.n_shared, SHARED)
    for k in range(3 * span, 4 * span):
        core[k] = float32(0.0)
    scale = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for c in touched:
        z = score(ScoredRows(user, part(records, 4 * c * item_dim, item_dim, ITEM), shared), room, shape)
        slope[c], chance[c] = float32(0.0), scale / (float32(1.0) + np.exp(-z))
    for s in batch:
        c = record_of[items[s]]
        slope[c] += chance[c] - (scale if s % (1 + rule.negatives) == 0 else float32(0.0))
    of_user, of_shared = (
        part(core, 3 * span, dim, OF_USER),
        part(core, 3 * span + dim, sizes.n_shared, OF_SHARED),
    )
    for c in touched:
        p = ScoredRows(user, part(records, 4 * c * item_dim, item_dim, ITEM), shared)
        of_item = part(records, (4 * c + 3) * item_dim, item_dim, OF_ITEM)
        clear(of_item)
        add_gradient(p, slope[c], ScoredRows(of_user, of_item, of_shared), room, shape)


@borrow
def add_drift(touched, records, starts, pull, item_dim):
    """Add ``pull * (theta - start)`` to the gradients of the touched records."""
    for c in touched:
        at = 4 * c * item_dim
        for k in range(item_dim):
            records[at + 3 * item_dim + k] += pull * (records[at + k] - starts[c * item_dim + k])


@borrow
def descend(step, touched, space, rule, sizes):
    """Take optimizer step number `step` (from 1) of the touched records and the core, along their gradients."""
    item_dim, records, core = length(sizes.item_dims), space.records, space.core
    span, rate = length(sizes.dims) + sizes.n_shared, float32(rule.rate)
    if rule.adam:
        adam = adam_step(step, rule.rate, rule.beta1, rule.beta2, rule.epsilon)
        for c in touched:
            step_record(records, c, item_dim, float32(1.0), adam)
        step_record(core, 0, span, float32(1.0), adam)
        return
    for c in touched:
        at = 4 * c * item_dim
        for k in range(item_dim):
            records[at + k] -= rate * records[at + 3 * item_dim + k]
    for k in range(span):
        core[k] -= rate * core[3 * span + k]


def run_epoch(n, count, done, pull, table, space, rule, sizes, options):
    """Pass once over the samples in their order; return the number of steps (see ``models/gmf/kernels.py``)."""
    records, at_step = space.records, space.at_step
    epsilon, adam, item_dim = float32(rule.epsilon), rule.adam, length(sizes.item_dims)
    size = n if rule.batch_size == 0 else rule.batch_size
    n_steps = (n + size - 1) // size
    one_segment = begin_epoch(n_steps, done, count, table, space, rule)
    for b in range(n_steps):
        batch = space.order[b * size : min(n, (b + 1) * size)]
        touched = space.touched[: sync_records(batch, b, space, item_dim, adam, one_segment, epsilon)]
        fill_gradients(batch, touched, space, rule, sizes, options)
        if pull > float32(0.0):
            add_drift(touched, records, options.starts, pull, item_dim)
        descend(done + b + 1, touched, space, rule, sizes)
        for c in touched:
            at_step[c] = b + 1
    end_epoch(n_steps, count, space, item_dim, rule, one_segment)
    return n_steps


@borrow
def exchange_core(theta, m, v, places, space, sizes, store):
    """Copy the user's row and the shared weights, with moments, to the core; back if `store`."""
    core, dim = space.core, length(sizes.dims)
    span = dim + sizes.n_shared
    for k in range(span):
        at = places.user + k if k < dim else places.shared + k - dim
        if store:
            theta[at], m[at], v[at] = core[k], core[span + k], core[2 * span + k]
        else:
            core[k], core[span + k], core[2 * span + k] = theta[at], m[at], v[at]


def train_task(index, columns, versions, samples, rule, sizes, options, space):
    """Run a local update; with `once` all updates use the negatives of update 0."""
    i, update, item_dim = columns.node[index], columns.update[index], length(sizes.item_dims)
    positives = samples.positives[samples.offsets[i] : samples.offsets[i + 1]]
    theta, m, v = versions.rows[columns.target[index]], space.no_moments, space.no_moments
    if rule.adam:
        m, v = versions.first[i], versions.second[i]
    row, places, pull = NodeRow(theta, m, v), row_places(i, sizes), float32(2.0) * options.penalty[i]
    begin, end = places.items, places.shared
    n = len(positives) * (1 + rule.negatives)
    size = n if rule.batch_size == 0 else rule.batch_size
    drawn = 0 if rule.once else update
    sample_negatives(
        positives, samples.member[i], sizes.n_items, i, drawn, rule.negatives, samples.seed, space.items
    )
    exchange_core(theta, m, v, places, space, sizes, False)
    count = load_records(n, begin, item_dim, row, space)
    if pull > float32(0.0):
        for c in range(count):
            copy_floats(options.starts, c * item_dim, space.records, c * 4 * item_dim, item_dim)
    table = NodeRow(theta[begin:end], m[begin:end], v[begin:end])
    for epoch in range(rule.epochs):
        shuffle(space.order, n, i, update * rule.epochs + epoch, samples.seed, n > size)
        versions.steps[i] += run_epoch(n, count, versions.steps[i], pull, table, space, rule, sizes, options)
    store_records(count, begin, item_dim, row, space)
    exchange_core(theta, m, v, places, space, sizes, True)


def add_clipped_gradients(batch, parts, space, rule, sizes, clip, options):
    """Add the batch's clipped gradients to the gradient (:mod:`gossiprec.models.base.dp_sgd_kernels`)."""
    dim, item_dim, n_shared = length(sizes.dims), length(sizes.item_dims), sizes.n_shared
    items, small, gradient = space.items, space.small, space.gradient
    room, shape = part(options.room, 0, len(options.room), ROOM), constants(options.shape)
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


@inline
def merge_task(index, columns, versions, sizes, merging, space):
    """Merge the deliveries of a task; their weights are known."""
    rows, source, target = versions.rows, columns.source[index], columns.target[index]
    places, width = row_places(columns.node[index], sizes), versions.rows.shape[1]
    begin, end = places.items if sizes.n_users == 1 else 0, places.shared + sizes.n_shared
    low, high = columns.merge_offsets[index], columns.merge_offsets[index + 1]
    merge_into(rows, Merge(source, target, begin, end, columns.merge_row, columns.merge_keep, low, high))
    if sizes.n_users == 1 and target != source:
        copy_floats(rows, target * width, rows, source * width, length(sizes.dims))


def fill_scores(user, shared, table, begin, items, sizes, options, out):
    """Fill `out` with the logits of items, of which row j is at ``begin + j * item_width`` of a flat table."""
    item_dim, shape = length(sizes.item_dims), constants(options.shape)
    room = part(options.room, 0, len(options.room), ROOM)
    for j in range(len(items)):
        at = begin + np.int64(items[j]) * item_dim
        out[j] = score(ScoredRows(user, part(table, at, item_dim, ITEM), shared), room, shape)


def score_items(rows, row, user, offsets, items, sizes, options, out):
    """Fill `out` with predicted scores (see :meth:`gossiprec.compute.executors.base.Executor.score`)."""
    dim = length(sizes.dims)
    for q in range(len(row)):
        theta, places = rows[row[q]], row_places(user[q], sizes)
        own, shared = part(theta, places.user, dim, USER), part(theta, places.shared, sizes.n_shared, SHARED)
        low, high = offsets[q], offsets[q + 1]
        fill_scores(own, shared, theta, places.items, items[low:high], sizes, options, out[low:high])


def rank_victims(victims, asked, latest, sizes, options):
    """Fill ``latest[rule, target set, victim]`` with the relevance of the victims to the adversaries' user rows."""
    mode = swap_float_mode(NO_DENORMALS)
    dim, offsets, longest = length(sizes.dims), asked.offsets, 0
    for a in range(len(asked.n_targets)):
        longest = max(longest, offsets[a + 1] - offsets[a])
    picked, scratch = np.empty(longest, float32), np.empty(SCRATCH, float32)
    for v in range(len(victims.ids)):
        theta, places = victims.rows[victims.row[v]], row_places(0, sizes)
        for a in range(len(asked.n_targets)):
            shared = part(theta, places.shared, sizes.n_shared, SHARED)
            if len(victims.shared_of):
                shared = part(victims.shared_of[a], 0, sizes.n_shared, SHARED)
            items, n = asked.items[offsets[a] : offsets[a + 1]], asked.n_targets[a]
            user = part(victims.users[a], 0, dim, USER)
            fill_scores(user, shared, theta, places.items, items, sizes, options, picked)
            if asked.rules[0] == MEMBERS:
                for j in range(n):
                    picked[j] = entropy(picked[j])
            for r in range(len(asked.rules)):
                latest[r, a, victims.ids[v]] = compute_relevance(
                    asked.rules[r], asked.thresholds[r], picked[:n], picked[n : len(items)], scratch
                )
    swap_float_mode(mode)


def fill_entropies(victims, a, items, sizes, options, out):
    """Fill `out`, (n_victims, n_items), with entropies of items by the victims' items and a's user row."""
    for v in range(len(victims.row)):
        theta, places = victims.rows[victims.row[v]], row_places(0, sizes)
        shared = part(theta, places.shared, sizes.n_shared, SHARED)
        if len(victims.shared_of):
            shared = part(victims.shared_of[a], 0, sizes.n_shared, SHARED)
        user = part(victims.users[a], 0, length(sizes.dims), USER)
        fill_scores(user, shared, theta, places.items, items, sizes, options, out[v])
        for j in range(len(items)):
            out[v, j] = entropy(out[v, j])


N_OF_QUERY = 3
"""Numbers of each query before the shape: the widths of an item's row, of the shared weights, and of the room."""


def score_kept_rows(vector, user, user_at, shared, shared_at, queries, dim, scores):
    """Fill `scores` from a kept vector ``[user | items | shared]``; sizes are in the constants of the queries."""
    if len(queries.items) == 0:
        return
    about = queries.weights[0]
    item_dim, n_shared = np.int64(about[0]), np.int64(about[1])
    memory, shape = np.empty(np.int64(about[2]), float32), np.empty(len(about) - N_OF_QUERY, np.int64)
    for k in range(len(shape)):
        shape[k] = np.int64(about[N_OF_QUERY + k])
    room = part(memory, 0, len(memory), ROOM)
    own, weights = part(user, user_at, dim, USER), part(shared, shared_at, n_shared, SHARED)
    for j in range(len(queries.items)):
        at = dim + np.int64(queries.items[j]) * item_dim
        scores[j] = score(ScoredRows(own, part(vector, at, item_dim, ITEM), weights), room, shape)


def fit_user(a, rows, row, now, state, recipe, sizes):
    """Fit adversary a's user row to its targets by Adam, with the item table and shared weights of a version frozen."""
    samples, node, dim = state.samples, state.adversaries[a], length(sizes.dims)
    item_dim, places, n_shared = length(sizes.item_dims), row_places(0, sizes), sizes.n_shared
    positives = samples.positives[samples.offsets[node] : samples.offsets[node + 1]]
    n = len(positives) * (1 + FIT_NEGATIVES)
    items, memory = np.empty(n, np.int32), np.empty(len(recipe.room), float32)
    sample_negatives(
        positives, samples.member[node], sizes.n_items, node, state.n_fits[a], FIT_NEGATIVES, samples.seed,
        items,
    )  # fmt: skip
    user, m, v, gradient = state.users[a], np.zeros(dim), np.zeros(dim), np.zeros(dim)
    slopes = np.zeros(dim + item_dim + n_shared, float32)
    of = ScoredRows(
        part(slopes, 0, dim, OF_USER), part(slopes, dim, item_dim, OF_ITEM),
        part(slopes, dim + item_dim, n_shared, OF_SHARED),
    )  # fmt: skip
    room, shape = part(memory, 0, len(memory), ROOM), constants(recipe.shape)
    for k in range(dim):
        user[k] = state.start[a, k]
    for step in range(1, FIT_STEPS + 1 if n else 1):
        slopes[:] = float32(0.0)
        for s in range(n):
            at = row + places.items + np.int64(items[s]) * item_dim
            p = ScoredRows(
                part(user, 0, dim, USER), part(rows, at, item_dim, ITEM),
                part(rows, row + places.shared, n_shared, SHARED),
            )  # fmt: skip
            error = float32(1.0) / (float32(1.0) + np.exp(-score(p, room, shape)))
            if s % (1 + FIT_NEGATIVES) == 0:
                error -= float32(1.0)
            add_gradient(p, error, of, room, shape)
        for k in range(dim):
            gradient[k] = slopes[k]
        step_vector(user, m, v, gradient, 1 if recipe.summed else n, step, FIT_RATE)
    state.n_fits[a] += 1
    state.due[a] = now + state.refit_every


class ModelLoops(NamedTuple):
    """The loops for one model."""

    run_tasks: Any
    run_private_tasks: Any
    score_items: Any
    rank_victims: Any
    fill_entropies: Any
    score_kept: Any
    fit_user: Any


@functools.cache
def specialise_model(score: Any, add_gradient: Any) -> ModelLoops:
    """Return the loops with a model's own functions, which are plain Python, in place."""
    of_score = {"score": borrow(score)}
    calls = score.__name__ in add_gradient.__code__.co_names  # back-propagation begins with the score
    called = {score.__name__: of_score["score"]} if calls else {}
    both = {**of_score, "add_gradient": specialise(add_gradient, borrow, **called)}
    gradients = specialise(fill_gradients, borrow, **both)
    epoch = specialise(run_epoch, borrow, fill_gradients=gradients)
    scores = specialise(fill_scores, borrow, **of_score)
    return ModelLoops(
        specialise_tasks(new_workspace, specialise(train_task, borrow, run_epoch=epoch), merge_task),
        specialise_private(specialise(add_clipped_gradients, borrow, **both)),
        specialise(score_items, fill_scores=scores),
        specialise(rank_victims, fill_scores=scores),
        specialise(fill_entropies, fill_scores=scores),
        specialise(score_kept_rows, inline, **of_score),
        specialise(fit_user, noinline, **both),
    )
