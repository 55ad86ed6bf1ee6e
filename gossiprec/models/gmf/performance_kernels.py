"""Compiled merging of GMF by performance: the same numbers as :mod:`gossiprec.compute.train.performance_merge`."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.measures.ranking import CUTOFF
from gossiprec.native.jit import copy_floats, inline, noinline
from gossiprec.numerics.relevance_kernels import GAINS


@noinline
def performance(row, user_row, places, lists, dim, mixed):
    """Return HR@20 x NDCG@20 of the lists' first items, by `row` and a user of `user_row`."""
    user, begin, shared = places
    for k in range(dim):
        mixed[k] = user_row[user + k] * row[shared + k]
    bias = row[shared + dim]
    hits, total = 0, 0.0
    for entry in range(lists.shape[0]):
        mark, beaten, length = float32(0.0), 0, lists.shape[1]
        for place in range(lists.shape[1]):
            if lists[entry, place] < 0:  # PADDING: fewer candidates than other users
                length = place
                break
            at = begin + lists[entry, place] * dim
            z = bias
            for k in range(dim):
                z += mixed[k] * row[at + k]
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
def merge_by_performance(rows, source, target, begin, places, merge_row, first, last, lists, dim, found):
    """Merge entries first .. last in turn into row `target`, which starts as `source`, from column `begin` on.

    Returns
    -------
    refused : bool
        Whether neither the own version nor the last received one had any performance.
    """
    end, width = places[2] + dim + 1, rows.shape[1]
    mixed = np.empty(dim, float32)
    if target != source:
        copy_floats(rows, target * width, rows, source * width, end)
    refused = False
    for entry in range(first, last):
        out, received = rows[target], rows[merge_row[entry]]
        keep, refused = float32(0.5), False
        if len(lists):
            user_row = out if begin > 0 else received
            worth = performance(received, user_row, places, lists, dim, mixed)
            own = performance(out, out, places, lists, dim, mixed)
            found[entry] = worth
            refused = own + worth == float32(0.0)
            keep = float32(1.0) if refused else own / (own + worth)
        give = float32(1.0) - keep
        if keep == float32(0.0):
            copy_floats(rows, target * width + begin, rows, merge_row[entry] * width + begin, end - begin)
        else:
            for k in range(begin, end):
                out[k] = keep * out[k] + give * received[k]
    return refused
