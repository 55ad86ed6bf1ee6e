"""The loops of :mod:`gossiprec.models.base.gradient_kernels`: local updates by a model's compiled gradient.

Batches of labelled items use the loop of :mod:`gossiprec.models.base.template_kernels`, with another gradient. A list
is one batch in every epoch, so its items are loaded once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.item_records import NodeRow
from gossiprec.models.base.kernel_interface import LabelledBatch, SequenceBatch
from gossiprec.models.base.task_kernels import specialise_tasks
from gossiprec.models.base.template_formula import ITEM, OF_ITEM, START, room_places
from gossiprec.models.base.template_kernels import (
    UpdateParts,
    merge_task,
    new_workspace,
    record_factor,
    row_places,
    train_task,
)
from gossiprec.models.base.terms import ItemTerm, add_from, specialise_terms
from gossiprec.native.jit import inline, length, noinline, part, specialise
from gossiprec.numerics.flat_ops import axpy, copy_range
from gossiprec.numerics.lazy_adam import adam_step, advance_rows, fill_tables, new_tables, step_range

VALUES, FIRST, SECOND, SLOPES, START_VALUES = range(5)
"""Rows of the working arrays: numbers, Adam's two moments, the gradient, and the numbers before the local update."""


def fill(core, items, slopes, item_slopes, batch, shape, room):
    """Stand in for a model's :attr:`gossiprec.models.base.kernel_interface.CompiledGradient.fill`."""
    raise NotImplementedError


def fill_gradients(batch, touched, space, rule, sizes, options):
    """Fill the gradients of the batch's records and of the core.

    The working memory holds a batch's items as columns, their slopes, two weights of each, then the gradient's.
    """
    n, item_dim, records = len(touched), length(sizes.item_dims), space.records
    core, span, size = space.core, length(sizes.dims) + sizes.n_shared, length(sizes.item_dims) * len(touched)
    room = space.room[room_places(sizes).rest :]
    items, item_slopes = room[:size].reshape((item_dim, n)), room[size : 2 * size].reshape((item_dim, n))
    samples, positives = room[2 * size : 2 * size + n], room[2 * size + n : 2 * size + 2 * n]
    count, liked = space.error, space.slope  # `slope` is zero between two steps
    for c in touched:
        count[c] = float32(0.0)
    scale = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for s in batch:
        c = space.record_of[space.items[s]]
        count[c] += scale
        if s % (1 + rule.negatives) == 0:
            liked[c] += scale
    for t in range(n):
        c = touched[t]
        samples[t], positives[t] = count[c], liked[c]
        for k in range(item_dim):
            items[k, t] = records[4 * c * item_dim + k]
    fill(
        core[:span], items, core[3 * span : 4 * span], item_slopes, LabelledBatch(samples, positives),
        options.shape, room[2 * (size + n) :],
    )  # fmt: skip
    for t in range(n):
        at = (4 * touched[t] + 3) * item_dim
        for k in range(item_dim):
            records[at + k] = item_slopes[k, t]


class UpdateLoops(NamedTuple):
    """The loop of merges and local updates, and that of local updates with terms after their merges."""

    run_tasks: Any
    run_term_tasks: Any


@functools.cache
def specialise_batches(gradient: Any, terms: tuple[ItemTerm, ...]) -> UpdateLoops:
    """Return the loops over tasks for a gradient of labelled items."""
    parts = UpdateParts(specialise(fill_gradients, noinline, fill=gradient), record_factor, {}, {})
    train = parts.specialise(train_task, ())
    return UpdateLoops(
        specialise_tasks(new_workspace, train, inline(merge_task)), parts.specialise_terms(terms)
    )


class DrawnSequences(NamedTuple):
    """The lists of some local updates.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        The beginning of each list's places.
    previous, wanted : ndarray of int32, shape (offsets[-1],)
        The item before each place, and the item at the place; -1 if there is none.
    other_offsets, other_rows : ndarray of int64, shapes (n + 1,) and (n,)
        The beginning of each list's negatives, and the number of equal rows into which they are divided.
    others : ndarray of int32, shape (other_offsets[-1],)
    keep_offsets : ndarray of int64, shape (n + 1,)
    keep : ndarray of float32, shape (keep_offsets[-1], item_width)
        The model's draws for each place: list after list, step after step.
    """

    offsets: I64
    previous: I32
    wanted: I32
    other_offsets: I64
    other_rows: I64
    others: I32
    keep_offsets: I64
    keep: F32

    @classmethod
    def of(cls, drawn: Sequence[Any], keep: Sequence[F32], width: int) -> DrawnSequences:
        """Return the samples of a feed of lists as one set of arrays, given the draws of every step."""
        none = np.zeros(0, np.int32)
        wanted = [samples["items"].ravel() for samples in drawn]
        others = [samples["negatives"].ravel() for samples in drawn]
        before = [samples["previous"].ravel() for samples in drawn if "previous" in samples]
        offsets, other_offsets = (np.cumsum([0, *map(len, parts)]) for parts in (wanted, others))
        all_wanted, rows = (
            np.concatenate([none, *wanted]),
            np.concatenate([np.zeros((0, width), np.float32), *keep]),
        )
        return cls(
            offsets,
            np.concatenate(before) if before else np.full(len(all_wanted), -1, np.int32),
            all_wanted,
            other_offsets,
            np.array([_rows(samples["negatives"]) for samples in drawn], np.int64),
            np.concatenate([none, *others]),
            offsets * (len(rows) // max(len(all_wanted), 1)),
            rows,
        )


def _rows(negatives: I32) -> int:
    return negatives.shape[1] if negatives.ndim == 3 else 1


class SequenceInputs(NamedTuple):
    """The further inputs of lists.

    Attributes
    ----------
    tasks : ndarray of int64, shape (n,)
        The tasks that have lists, in the order in which they run.
    at : ndarray of int64, shape (1,)
        The number of the next one.
    lists : DrawnSequences
    everything : bool
        Whether all items are candidates.
    all_items : ndarray of int32, shape (1, n_items or 0)
    room, shape
        Of the gradient.
    strengths : ndarray of float32, shape (n_nodes, n_terms)
    seed : int
        Of the rounding of float16, which merges know.
    """

    tasks: I64
    at: I64
    lists: DrawnSequences
    everything: bool
    all_items: I32
    room: F32
    shape: Any
    strengths: F32
    seed: np.uint64


class ListWorkspace(NamedTuple):
    """The working arrays of a thread.

    Attributes
    ----------
    cores
        Rows of the core.
    number
        The number of each item among those of a list.
    moments
        In place of a node's moments under plain gradient descent.
    block
        Of merges of float16, which these models do not have.
    """

    cores: F32
    number: I32
    moments: F32
    block: F32


@inline
def new_list_workspace(most, versions, rule, sizes, options):
    """Return the working arrays."""
    span = length(sizes.dims) + sizes.n_shared
    return ListWorkspace(
        np.empty((4, span), float32), np.full(sizes.n_items, -1, np.int32),
        np.zeros(0 if rule.adam else sizes.width, float32), np.empty(0, float32),
    )  # fmt: skip


@noinline
def number_items(columns, number):
    """Return all items in some columns, ascending, and set the columns to places there; -1 means none.

    `number` is -1 before and after.
    """
    n, most = 0, 0
    for column in columns:
        most += len(column)
    touched = np.empty(most, np.int32)
    for column in columns:
        for item in column:
            if item >= 0 and number[item] < 0:
                number[item] = 0
                touched[n] = item
                n += 1
    found = np.sort(touched[:n])
    for t in range(n):
        number[found[t]] = t
    for column in columns:
        for k in range(len(column)):
            column[k] = number[column[k]] if column[k] >= 0 else -1
    for t in range(n):
        number[found[t]] = -1
    return found


@noinline
def exchange_items(tile, row, begin, items, dim, adam, store):
    """Copy the rows of items, with moments, to the tile; back if `store`."""
    for t in range(len(items)):
        low = begin + np.int64(items[t]) * dim
        for which, whole in ((VALUES, row.theta), (FIRST, row.first), (SECOND, row.second)):
            if which != VALUES and not adam:
                continue
            if store:
                copy_range(whole, low, tile[which], t * dim, dim)
            else:
                copy_range(tile[which], t * dim, whole, low, dim)


@noinline
def exchange_list_core(cores, row, places, dim, adam, store):
    """Copy the user's row and the shared weights, with moments, to the core; back if `store`."""
    n_shared = cores.shape[1] - dim
    for which, whole in ((VALUES, row.theta), (FIRST, row.first), (SECOND, row.second)):
        if which != VALUES and not adam:
            continue
        if store:
            copy_range(whole, places.user, cores[which], 0, dim)
            copy_range(whole, places.shared, cores[which], dim, n_shared)
        else:
            copy_range(cores[which], 0, whole, places.user, dim)
            copy_range(cores[which], dim, whole, places.shared, n_shared)


@noinline
def step_parts(parts, step, rule):
    """Take optimizer step number `step` (from 1) of all numbers, along their gradients."""
    if rule.adam:
        adam = adam_step(step, rule.rate, rule.beta1, rule.beta2, rule.epsilon)
        step_range(parts[VALUES], parts[FIRST], parts[SECOND], parts[SLOPES], adam)
    else:
        axpy(parts[VALUES], 0, parts[SLOPES], 0, parts.shape[1], float32(-rule.rate))


@noinline
def move_untouched(row, begin, end, done, rule):
    """Move the item table by the steps of a local update without gradient; touched rows are overwritten later."""
    tables = new_tables(rule.epochs)
    fill_tables(tables, done, rule.epochs, rule.rate, rule.beta1, rule.beta2)
    advance_rows(
        row.theta[begin:end],
        row.first[begin:end],
        row.second[begin:end],
        tables,
        0,
        rule.epochs,
        float32(rule.epsilon),
    )


def add_term_gradients(tile, drawn, n, strengths):
    """Add the gradients of the terms, by some items of the tile."""
    slopes, items, start = tile[SLOPES], tile[VALUES], tile[START_VALUES]
    for t in drawn:
        of_item, item = part(slopes, t * n, n, OF_ITEM), part(items, t * n, n, ITEM)
        add_from(of_item, item, part(start, t * n, n, START), strengths, 0)


def train_list(index, columns, versions, samples, rule, sizes, options, space):
    """Run the local update of a list: one step for each epoch."""
    i, dim, item_dim = columns.node[index], length(sizes.dims), length(sizes.item_dims)
    lists, k = options.lists, options.at[0]
    while options.tasks[k] != index:
        k += 1
    options.at[0] = k + 1
    n_places = lists.offsets[k + 1] - lists.offsets[k]
    if n_places == 0:
        return
    previous = lists.previous[lists.offsets[k] : lists.offsets[k + 1]].copy()
    wanted = lists.wanted[lists.offsets[k] : lists.offsets[k + 1]].copy()
    flat = lists.others[lists.other_offsets[k] : lists.other_offsets[k + 1]].copy()
    others, touched = options.all_items, options.all_items[0]
    if options.everything:
        drawn = number_items((previous.copy(), wanted.copy(), flat), space.number)
    else:
        touched = number_items((previous, wanted, flat), space.number)
        others = flat.reshape((lists.other_rows[k], len(flat) // lists.other_rows[k]))
        drawn = np.arange(len(touched)).astype(np.int32)
    low, places = np.int64(columns.target[index]) * sizes.width, row_places(i, sizes)
    theta = versions.rows[low : low + sizes.width]
    row = NodeRow(theta, space.moments, space.moments)
    if rule.adam:
        row = NodeRow(theta, versions.first[i], versions.second[i])
    n, strengths = len(touched), options.strengths[i]
    tile = np.empty((5, n * item_dim), float32)
    exchange_list_core(space.cores, row, places, dim, rule.adam, False)
    exchange_items(tile, row, places.items, touched, item_dim, rule.adam, False)
    if rule.adam and not options.everything:
        move_untouched(row, places.items, places.shared, versions.steps[i], rule)
    copy_range(tile[START_VALUES], 0, tile[VALUES], 0, n * item_dim)
    items, item_slopes = tile[VALUES].reshape((n, item_dim)), tile[SLOPES].reshape((n, item_dim))
    n_kept = (lists.keep_offsets[k + 1] - lists.keep_offsets[k]) // rule.epochs
    for step in range(rule.epochs):
        low = lists.keep_offsets[k] + step * n_kept
        batch = SequenceBatch(previous, wanted, others, lists.keep[low : low + n_kept])
        fill(space.cores[VALUES], items, space.cores[SLOPES], item_slopes, batch, options.shape, options.room)
        add_term_gradients(tile, drawn, item_dim, strengths)
        versions.steps[i] += 1
        step_parts(space.cores, versions.steps[i], rule)
        step_parts(tile, versions.steps[i], rule)
    exchange_items(tile, row, places.items, touched, item_dim, rule.adam, True)
    exchange_list_core(space.cores, row, places, dim, rule.adam, True)


@functools.cache
def specialise_sequences(gradient: Any, terms: tuple[ItemTerm, ...]) -> UpdateLoops:
    """Return the loops over tasks for a gradient of lists."""

    def train(some: tuple[ItemTerm, ...]) -> Any:
        add = specialise(add_term_gradients, noinline, add_from=specialise_terms(some))
        return specialise(train_list, noinline, fill=gradient, add_term_gradients=add)

    return UpdateLoops(
        specialise_tasks(new_list_workspace, train(()), inline(merge_task)),
        specialise_tasks(new_list_workspace, train(terms)),
    )
