"""Compiled loops that rank victims by scores and blend and collect their momentum models, for any model.

Rule `ndcg` for many target sets is one pass over a victim's items, from the best down, for a block of sets. The number
of references of a set that came before is one byte. The bytes of all sets of a block are stored together and counted up
as vectors. Per victim and set this takes a seventh of the time of separate counts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint8

from gossiprec.adversaries.attacks.individual_kernels import blend_kept_model
from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.native.jit import NO_DENORMALS, copy_floats, inline, is_float32, kernel, swap_float_mode
from gossiprec.numerics.merge import BLOCK, blend, narrow_row, widen_row
from gossiprec.numerics.relevance import MEMBERS
from gossiprec.numerics.relevance_kernels import (
    FLAT,
    SCRATCH,
    WORTH,
    compute_relevance,
    entropy,
    mean_ndcg,
    nan_to_lowest,
    probability,
)


@inline
def mean_selected_rows(columns, picked, out):
    """Fill `out` with the mean of some rows of `columns`, for all victims together."""
    for v in range(len(out)):
        out[v] = 0.0
    for item in picked:
        column = columns[item]
        for v in range(len(out)):
            out[v] += column[v]
    for v in range(len(out)):
        out[v] /= len(picked)


@kernel
def rank_by_mean(scores, victims, offsets, items, n_targets, standardize, certain, latest):
    """Fill ``latest[target set, victim]`` with ``mean_score``, or ``standardized``, from scores (n_victims, n_items).

    Sums run over all victims together, item by item: whole vectors instead of single reads.
    """
    n = len(victims)
    columns = np.empty((scores.shape[1], n), float32)
    for item in range(len(columns)):
        for v in range(n):
            columns[item, v] = probability(scores[v, item]) if certain else scores[v, item]
    own, middle, spread = np.empty(n), np.empty(n), np.empty(n)
    for a in range(len(n_targets)):
        kept = items[offsets[a] : offsets[a + 1]]
        mean_selected_rows(columns, kept[: n_targets[a]], own)
        if standardize:
            references = kept[n_targets[a] :]
            mean_selected_rows(columns, references, middle)
            for v in range(n):
                spread[v] = 0.0
            for item in references:
                column = columns[item]
                for v in range(n):
                    spread[v] += (column[v] - middle[v]) ** 2
            for v in range(n):
                flat = spread[v] <= FLAT * middle[v] ** 2
                own[v] = 0.0 if flat else (own[v] - middle[v]) / math.sqrt(spread[v] / len(references))
        for v in range(n):
            latest[a, victims[v]] = nan_to_lowest(own[v])


@kernel
def rank_by_rule(scores, victims, offsets, items, n_targets, rule, latest):
    """Fill ``latest[target set, victim]`` with any rule, from scores (n_victims, n_items)."""
    picked, scratch = np.empty(scores.shape[1], float32), np.empty(SCRATCH, float32)
    for v in range(len(victims)):
        for a in range(len(n_targets)):
            kept = items[offsets[a] : offsets[a + 1]]
            for j in range(len(kept)):
                picked[j] = scores[v, kept[j]]
            own, others = picked[: n_targets[a]], picked[n_targets[a] : len(kept)]
            latest[a, victims[v]] = compute_relevance(rule, float32(0.0), own, others, scratch)


@kernel
def rank_by_membership(scores, victims, offsets, items, n_targets, thresholds, latest):
    """Fill ``latest[rule, target set, victim]``, one rule per threshold, from scores (n_victims, n_items)."""
    n = len(victims)
    columns = np.empty((scores.shape[1], n), float32)
    for item in range(len(columns)):
        for v in range(n):
            columns[item, v] = entropy(scores[v, item])
    total, count = np.empty(n), np.empty((len(thresholds), n), np.int32)
    for a in range(len(n_targets)):
        targets = items[offsets[a] : offsets[a] + n_targets[a]]
        total[:] = 0.0
        count[:] = 0
        for item in targets:
            column = columns[item]
            for v in range(n):
                total[v] += column[v]
            for r in range(len(thresholds)):
                for v in range(n):
                    count[r, v] += column[v] < thresholds[r]
        for r in range(len(thresholds)):
            for v in range(n):
                found = count[r, v] + 0.5 / (1.0 + total[v] / len(targets))
                latest[r, a, victims[v]] = -np.inf if np.isnan(found) else found


class PoolReceptions(NamedTuple):
    """Deliveries to pools: a message brings its sender's version, in row `row` of the flat `rows`.

    Of all pool deliveries of a plan, ``places[k]`` of those before number k are meant. `keys` round float16, and are
    empty for float32.
    """

    rows: Any
    row: Any
    pool: Any
    message: Any
    sender_of: Any
    keys: Any
    places: I64


class PoolMemory(NamedTuple):
    """The flat ``memory[momentum, pool, victim]``, stored like rows, and marks of the pairs that had a delivery."""

    memory: Any
    momenta: F32
    met: Bools
    changed: Bools


@kernel
def blend_rows(low, high, seen, hides, pools, begin, n, width):
    """Blend deliveries ``low .. high - 1`` into the pools' memory, `n` columns; the first one of a pair is copied.

    The user part of a victim that hides it, everything before `begin`, is not read. A coordinator's model is no
    victim's.
    """
    mode = swap_float_mode(NO_DENORMALS)
    rows, row, pool, message, sender_of, keys, places = seen
    memory, momenta, met, changed = pools
    fresh, blended = np.empty(BLOCK, float32), np.empty(BLOCK, float32)
    for s in range(places[low], places[high]):
        victim = np.int64(sender_of[message[s]])
        if victim >= met.shape[1]:
            continue
        for b in range(len(momenta)):
            keep = momenta[b] if met[pool[s], victim] else float32(0.0)
            held = ((b * met.shape[0] + pool[s]) * met.shape[1] + victim) * width
            at, first = np.int64(row[s]) * width, begin if hides[victim] else 0
            if is_float32(rows) and keep > float32(0.0):
                blend(memory[held + first : held + n], rows[at + first : at + n], keep)
            elif is_float32(rows):
                copy_floats(memory, held + first, rows, at + first, n - first)
            else:
                for low in range(first, n, BLOCK):
                    count = min(BLOCK, n - low)
                    widen_row(fresh, 0, rows, at + low, count)
                    if keep > float32(0.0):
                        widen_row(blended, 0, memory, held + low, count)
                        blend(blended, fresh[:count], keep)
                        narrow_row(memory, held + low, low, blended, 0, count, keys[s])
                    else:
                        narrow_row(memory, held + low, low, fresh, 0, count, keys[s])
        met[pool[s], victim] = changed[pool[s], victim] = True
    swap_float_mode(mode)


class StackedReceptions(NamedTuple):
    """Deliveries to single adversaries: rows, a version's row, both ends, the message; and which nodes hide user rows.

    `own`, (n, dim + n_shared), replaces the user rows and shared weights of victims that hide theirs; if it is empty,
    the adversaries' rows of `users` replace the user rows.
    """

    rows: Any
    row: I64
    adversary: I64
    victim: I64
    message: Any
    hides: Bools
    own: F32
    users: F32


class RowParts(NamedTuple):
    """The sizes of a flat row, as numbers: one kernel serves all layouts."""

    n_items: int
    n_users: int
    n_shared: int
    dim: int
    item_dim: int
    width: int

    @classmethod
    def of(cls, layout: Layout) -> RowParts:
        """Return the sizes of a layout."""
        return cls(
            layout.n_items, layout.n_users, layout.n_shared, layout.user_width, layout.item_width, layout.row_size
        )  # fmt: skip


@kernel
def collect_submodels(seen, kept, padded, small, parts):
    """Fill ``small[k, momentum]`` with the receiver's model of its victim after delivery k, in order.

    `kept` is an :class:`.individual_kernels.ObserverMemory`; a small model is ``[user | kept items, padded | shared]``.
    """
    mode = swap_float_mode(NO_DENORMALS)
    rows, row, adversary, victim, message, hides, own, users = seen
    n_items, n_users, n_shared, dim, item_dim, width = parts
    kept_offsets, kept_items, momenta = kept.kept_offsets, kept.kept_items, kept.momenta
    begin = n_users * dim
    shared = begin + n_items * item_dim
    fresh, wide = np.zeros(max(kept.lengths), float32), np.zeros(max(kept.lengths), float32)
    for k in range(len(row)):
        a, at = adversary[k], np.int64(row[k]) * width
        mine = kept_items[kept_offsets[a] : kept_offsets[a + 1]]
        tail, end = dim + len(mine) * item_dim, dim + padded[a] * item_dim
        if hides[victim[k]]:
            fresh[:dim] = float32(0.0)
        else:
            widen_row(fresh, 0, rows, at + (0 if n_users == 1 else victim[k] * dim), dim)
        for j in range(len(mine)):
            widen_row(fresh, dim + j * item_dim, rows, at + begin + mine[j] * item_dim, item_dim)
        widen_row(fresh, tail, rows, at + shared, n_shared)
        place = 0
        for b in range(len(momenta)):
            vector = fresh[: tail + n_shared]
            if momenta[b] > 0.0:
                blend_kept_model(kept, a, message[k], b, place, vector, wide)
                vector = wide[: tail + n_shared]
                place += 1
            out = small[k, b]
            copy_floats(out, 0, vector, 0, tail)
            copy_floats(out, end, vector, tail, n_shared)
            if hides[victim[k]] and len(own):
                copy_floats(out, 0, own[k], 0, dim)
                copy_floats(out, end, own[k], dim, n_shared)
            elif hides[victim[k]]:
                copy_floats(out, 0, users[a], 0, dim)
    swap_float_mode(mode)


@kernel
def apply_relevance_rules(scores, offsets, n_targets, rules, thresholds, found):
    """Fill ``found[k, rule]`` with the relevance of scores ``offsets[k]:offsets[k + 1]``, targets first."""
    scratch = np.empty(SCRATCH, float32)
    for k in range(len(n_targets)):
        own, others = (
            scores[offsets[k] : offsets[k] + n_targets[k]],
            scores[offsets[k] + n_targets[k] : offsets[k + 1]],
        )
        if rules[0] == MEMBERS:
            own = own.copy()
            for j in range(len(own)):
                own[j] = entropy(own[j])
        for r in range(len(rules)):
            found[k, r] = compute_relevance(rules[r], thresholds[r], own, others, scratch)


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
