"""Compiled performance of received PRME-G models.

Its results are bit-identical to :meth:`Executor.resolve_performance_weights` in the interpreter.

Candidates are scored without a previous visit, so only an item's vector in the preference space counts: half of its
part of a row.
"""

from __future__ import annotations

import numpy as np
from numpy import float32, uint64

from gossiprec.measures.ranking import CUTOFF
from gossiprec.native.jit import borrow, kernel, length, load_float32, strict_math
from gossiprec.numerics.float16_rows import widen_row
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
                other[:dim] = own[:dim]
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
