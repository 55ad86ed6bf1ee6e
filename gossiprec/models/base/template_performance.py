"""Weights of merges by performance, before the merges: bit-identical to those of the interpreter.

Only the items of a receiver's lists are scored, in small models ``[own user | items | shared]``, as in
:meth:`gossiprec.compute.executors.base.Executor.resolve_performance_weights`. Contexts are unknown.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.template_formula import (
    SHARED,
    USER,
    FormulaRoom,
    Kind,
    Queries,
    TableRows,
    new_room,
)
from gossiprec.models.base.template_kernels import fill_scores, row_places, specialise_training
from gossiprec.models.base.template_pairs import PairFunctions
from gossiprec.native.jit import borrow, inline, length, part, specialise, strict_math
from gossiprec.numerics.flat_ops import copy_range
from gossiprec.numerics.merge import widen_row
from gossiprec.numerics.relevance_kernels import GAINS

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
        mark, beaten, size = scores[place_of[lists[entry, 0]]], 0, lists.shape[1]
        for place in range(1, lists.shape[1]):
            if lists[entry, place] < 0:  # PADDING: fewer candidates than other users
                size = place
                break
            beaten += scores[place_of[lists[entry, place]]] < mark
        rank = size - 1 - beaten
        gained[entry] = GAINS[rank] if rank < CUTOFF else 0.0
        hits += rank < CUTOFF
    n = lists.shape[0]
    return float32(hits / n * (numpy_order_sum(gained[:n]) / n))


class JudgeRoom(NamedTuple):
    """The working arrays of a thread.

    Attributes
    ----------
    form : FormulaRoom
    place_of, kept, places
        Place of each item among the kept ones, the kept items, and 0, 1, 2, ...
    contexts, weights
        Of queries: unknown contexts, and the weights of such queries.
    own, other
        Small models.
    scores, gained
        Of the kept items, and of the lists.
    """

    form: Any
    place_of: I64
    kept: I64
    places: Any
    contexts: Any
    weights: F32
    own: F32
    other: F32
    scores: F32
    gained: F64


@inline
def new_judge_room(tasks, columns, lists, unknown, sizes, options):
    """Return the working arrays; `unknown` are the weights of a query of unknown context, shape (1, n_weights)."""
    most, n_items = 0, sizes.n_items
    for index in tasks:
        node = columns.node[index]
        most = max(most, lists.offsets[node + 1] - lists.offsets[node])
    size = min(n_items, most * lists.items.shape[1])
    weights = np.empty((size, unknown.shape[1]), float32)
    for j in range(size):
        weights[j] = unknown[0]
    width = length(sizes.dims) + size * length(sizes.item_dims) + sizes.n_shared
    return JudgeRoom(
        FormulaRoom(new_room(sizes, options), sizes, options),
        np.full(n_items if most else 0, -1, np.int64),
        np.empty(size, np.int64),
        np.arange(size).astype(np.int32),
        np.full(size, -1, np.int32),
        weights,
        np.empty(width, float32),
        np.empty(width, float32),
        np.empty(size, float32),
        np.empty(most),
    )


@borrow
def load_submodel(rows, low, places, space, count, model):
    """Fill `model` with the user row, the kept items and the shared weights of the version at `low` of `rows`."""
    sizes = space.form.sizes
    dim, n = length(sizes.dims), length(sizes.item_dims)
    widen_row(model, 0, rows, low + places.user, dim)
    for c in range(count):
        widen_row(model, dim + c * n, rows, low + places.items + space.kept[c] * n, n)
    widen_row(model, dim + count * n, rows, low + places.shared, sizes.n_shared)


def judge(model, count, lists, space):
    """Return the performance of a small model of `count` items."""
    sizes = space.form.sizes
    dim, at = length(sizes.dims), length(sizes.dims) + count * length(sizes.item_dims)
    rows = TableRows(part(model, 0, dim, USER), part(model, at, sizes.n_shared, SHARED), model, dim)
    queries = Queries(space.places[:count], space.contexts[:count], space.weights[:count])
    fill_scores(rows, queries, space.form, space.scores[:count])
    return performance(space.scores, lists, space.place_of, space.gained)


@borrow
def keep_items(lists, space):
    """List the items of lists; return their number."""
    count = 0
    for entry in range(lists.shape[0]):
        for place in range(lists.shape[1]):
            item = lists[entry, place]
            if item < 0:  # PADDING
                break
            if space.place_of[item] < 0:
                space.place_of[item] = count
                space.kept[count] = item
                count += 1
    return count


def weigh_merges(tasks, columns, rows, lists, unknown, sizes, options):
    """Compute the weights of the tasks' merges by performance; `rows` is flat, float32 or the bits of float16."""
    space = new_judge_room(tasks, columns, lists, unknown, sizes, options)
    dim, n, keep_of = length(sizes.dims), length(sizes.item_dims), columns.merge_keep
    for index in tasks:
        first, last, i = columns.merge_offsets[index], columns.merge_offsets[index + 1], columns.node[index]
        if first == last or not keep_of[first] < float32(0.0):
            continue
        mine = lists.items[lists.offsets[i] : lists.offsets[i + 1]]
        if not len(mine):
            keep_of[first:last] = float32(0.5)
            continue
        count, places = keep_items(mine, space), row_places(i, sizes)
        own, other, width = space.own, space.other, dim + sizes.n_shared
        width += count * n
        load_submodel(rows, np.int64(columns.source[index]) * sizes.width, places, space, count, own)
        for entry in range(first, last):
            low = np.int64(columns.merge_row[entry]) * sizes.width
            load_submodel(rows, low, places, space, count, other)
            if sizes.n_users == 1:
                copy_range(other, 0, own, 0, dim)
            before, worth = judge(own, count, mine, space), judge(other, count, mine, space)
            total = before + worth
            keep = before / total if total > float32(0.0) else float32(1.0)
            keep_of[entry], columns.found[entry] = keep, worth
            columns.refused[index] = total == float32(0.0)
            merge_models(own[:width], other[:width], keep)
        for c in range(count):
            space.place_of[space.kept[c]] = -1


@functools.cache
def specialise_performance(score: Any, add_gradient: Any, kind: Kind, pairs: PairFunctions | None) -> Any:
    """Return the loop with a model's own functions, which are plain Python, in place."""
    scores = specialise_training(score, add_gradient, kind, pairs).fill_scores
    return specialise(weigh_merges, judge=specialise(judge, inline, fill_scores=scores))
