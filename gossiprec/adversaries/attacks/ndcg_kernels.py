"""Rule `ndcg` for many target sets: one pass over a victim's items, from the best down, for a block of sets.

The number of references of a set that came before is one byte. The bytes of all sets of a block are stored together
and counted up as vectors. Per victim and set this takes a seventh of the time of separate counts.
"""

from __future__ import annotations

import numpy as np
from numpy import float32, uint8

from gossiprec.base.arrays import F32, I64
from gossiprec.measures.ranking import CUTOFF
from gossiprec.native.jit import inline, kernel
from gossiprec.numerics.relevance_kernels import SCRATCH, WORTH, mean_ndcg

SETS = 512
"""Number of target sets per block: one byte for each set and item stays in the second-level cache."""
OFTEN = 16
"""Number of items after which the loop checks whether any set can still gain."""


def rank_items_descending(scores: F32) -> I64:
    """Return the items of each model from the best score down, items of equal score next to each other.

    Parameters
    ----------
    scores : ndarray of float32, shape (n_models, n_items)
        If a model has a NaN, its row is meaningless.

    Notes
    -----
    The bits of a float are in the order of floats once all bits but the sign are inverted in negative ones. With the
    item below them they are one number, and sorting numbers takes a third of the time of sorting indices.
    """
    bits = (-scores).view(np.int32)
    packed = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    packed <<= 32
    packed |= np.arange(scores.shape[1])
    packed.sort(axis=1)
    packed &= 0xFFFFFFFF
    return packed


@inline
def mark_target_items(offsets, items, n_targets, first, count, is_reference, begin, sets):
    """Note which of the target sets from `first` on contain each item.

    As a reference: ``is_reference[item, set]``; as a target: ``sets[begin[item]:begin[item + 1]]``.
    """
    is_reference[:] = uint8(0)
    begin[:] = 0
    for a in range(count):
        low = offsets[first + a]
        middle = low + n_targets[first + a]
        for item in items[low:middle]:
            begin[item + 2] += 1
        for item in items[middle : offsets[first + a + 1]]:
            is_reference[item, a] = uint8(1)
    for item in range(1, len(begin)):
        begin[item] += begin[item - 1]
    for a in range(count):
        low = offsets[first + a]
        for item in items[low : low + n_targets[first + a]]:
            sets[begin[item + 1]] = a
            begin[item + 1] += 1


@inline
def accumulate_ndcg(scores, order, is_reference, begin, sets, ahead, total):
    """Fill `total` with the NDCG sums of a block of target sets for one model.

    `ahead` holds the number of references of each set that came before: 0 at first, or the cutoff for unused sets. On
    ties references come first: ties count against a target.
    """
    k, due = 0, 0
    while k < len(order):
        stop = k + 1
        while stop < len(order) and scores[order[stop]] == scores[order[k]]:
            stop += 1
        for item in order[k:stop]:
            found = is_reference[item]
            for a in range(SETS):
                ahead[a] += found[a] & uint8(ahead[a] < uint8(CUTOFF))
        for item in order[k:stop]:
            for entry in range(begin[item], begin[item + 1]):
                owner = np.int64(sets[entry])
                total[owner] += WORTH[np.int64(ahead[owner])]
        k = stop
        if k >= due:
            due = k + OFTEN
            fewest = uint8(CUTOFF)
            for a in range(SETS):
                fewest = min(fewest, ahead[a])
            if fewest == uint8(CUTOFF):
                return


@kernel
def rank_by_ndcg(scores, order, victims, offsets, items, n_targets, latest):
    """Fill ``latest[target set, victim]`` with ``ndcg``, from scores (n_victims, n_items) and items from the best down.

    Within a set no item occurs twice.
    """
    n_items, most = scores.shape[1], 0
    for a in range(len(n_targets)):
        most = max(most, n_targets[a])
    is_reference, begin = np.empty((n_items, SETS), uint8), np.empty(n_items + 2, np.int64)
    sets = np.empty(min(SETS, len(n_targets)) * most, np.uint16)
    ahead, total = np.empty(SETS, uint8), np.empty(SETS)
    picked, scratch = np.empty(n_items, float32), np.empty(SCRATCH, float32)
    for first in range(0, len(n_targets), SETS):
        count = min(SETS, len(n_targets) - first)
        mark_target_items(offsets, items, n_targets, first, count, is_reference, begin, sets)
        for v in range(len(victims)):
            if not np.isnan(scores[v]).any():
                ahead[:count], ahead[count:], total[:] = uint8(0), uint8(CUTOFF), 0.0
                accumulate_ndcg(scores[v], order[v], is_reference, begin, sets, ahead, total)
                for a in range(count):
                    latest[first + a, victims[v]] = total[a] / n_targets[first + a]
                continue
            for a in range(first, first + count):
                kept = items[offsets[a] : offsets[a + 1]]
                for j in range(len(kept)):
                    picked[j] = scores[v, kept[j]]
                own, others = picked[: n_targets[a]], picked[n_targets[a] : len(kept)]
                latest[a, victims[v]] = mean_ndcg(own, others, scratch)
