"""Sums and checks of updates, as plain loops that are compiled when called (:mod:`gossiprec.native.loop_jit`).

One call handles many updates, because a call costs as much as a small update. Rows are addressed by places in flat
arrays and not as views, of which each counts references: sums of eight numbers took eight times as long. Places are
unsigned, because only then the compiler vectorises the loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.native.loop_jit import jit_cached
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.servers.base import ThreadPoolLike

if TYPE_CHECKING:
    from gossiprec.compute.store.update import Update

AT_ONCE = 2**20
"""Numbers, approximately, in the updates that are concatenated at once."""


class UpdateBatch(NamedTuple):
    """Updates of one version, concatenated.

    Attributes
    ----------
    base : ndarray of float32, shape (n_columns,)
        The version.
    places : ndarray of int64, shape (n_updates + 1,)
        Where the items and rows of each begin.
    items : ndarray of int32, shape (places[-1],); rows : ndarray of float32, shape (places[-1], item_width)
    shared : ndarray of float32, shape (n_updates, n_shared)
    """

    base: F32
    places: I64
    items: I32
    rows: F32
    shared: F32


def batch_updates(updates: Sequence[Update], memory: BufferPool) -> Iterator[tuple[slice, UpdateBatch]]:
    """Yield consecutive ranges of updates, each of one version and of bounded size, as batches."""
    sizes = np.array([update.rows.size + update.shared.size for update in updates])
    begins, size = [0], 0
    for number in range(1, len(updates)):
        size += sizes[number - 1]
        if updates[number].base is not updates[number - 1].base or size + sizes[number] > AT_ONCE:
            begins.append(number)
            size = 0
    for begin, end in zip(begins, [*begins[1:], len(updates)], strict=True):
        some = updates[begin:end]
        places = np.zeros(len(some) + 1, np.int64)
        np.cumsum([len(update.items) for update in some], out=places[1:])
        n, width, n_shared = int(places[-1]), some[0].rows.shape[1], len(some[0].shared)
        touched, rows, shared = memory.empty((n,), (n, width), (len(some), n_shared))
        items = touched.view(np.int32)
        np.concatenate([update.items for update in some], out=items)
        np.concatenate([update.rows for update in some], out=rows)
        np.stack([update.shared for update in some], out=shared)
        yield slice(begin, end), UpdateBatch(some[0].base, places, items, rows, shared)


def are_finite(updates: Sequence[Update], memory: BufferPool) -> Bools:
    """Return whether the change of each update is finite, shape (n_updates,)."""
    found = np.ones(len(updates), np.bool_)
    for some, several in batch_updates(updates, memory) if updates else ():
        jit_cached(check_finite_updates)(several, found[some])
    return found


def sum_deltas(
    updates: Sequence[Update], weights: F64, threads: ThreadPoolLike, memory: BufferPool
) -> tuple[F64, F64, F64]:
    """Return the weighted sum of changes, each rounded as in :attr:`Update.change`.

    Returns
    -------
    total : ndarray of float64, shape (n_items, item_width)
    mass : ndarray of float64, shape (n_items,)
        For each item, the total weight of the updates that touched it.
    shared : ndarray of float64, shape (n_shared,)
    """
    n_shared, width, size = len(updates[0].shared), updates[0].rows.shape[1], threads.size
    n_items = (len(updates[0].base) - n_shared) // max(width, 1)
    total, mass, shared = np.zeros((n_items, width)), np.zeros(n_items), np.zeros(n_shared)
    for some, several in batch_updates(updates, memory):

        def add_up(part: int, several: UpdateBatch = several, shares: F64 = weights[some]) -> None:
            items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
            jit_cached(add_weighted_deltas)(
                total[items], mass[items], shared[numbers], items.start, numbers.start, several, shares
            )

        threads.run(add_up)
    return total, mass, shared


def _part(n: int, part: int, size: int) -> slice:
    return slice(n * part // size, n * (part + 1) // size)


def weighted_sum(updates: Sequence[Update], shares: F64, threads: ThreadPoolLike, memory: BufferPool) -> F32:
    """Return the weighted sum of the models of some updates, rounded from float64.

    Changes are added up in their order, then each version once. Every thread has some items and some shared weights.
    """
    n_columns, n_shared, width = len(updates[0].base), len(updates[0].shared), updates[0].rows.shape[1]
    of_versions, size = dict[int, float](), threads.size
    (found,) = memory.empty((n_columns,))
    n_items = (n_columns - n_shared) // max(width, 1)
    versions = {id(update.base): update.base for update in updates}
    for update, share in zip(updates, shares.tolist(), strict=True):
        of_versions[id(update.base)] = of_versions.get(id(update.base), 0.0) + share
    *others, (last, of_last) = of_versions.items()

    total, there, shared = np.empty((n_items, width)), np.zeros(n_items, np.bool_), np.zeros((1, n_shared))
    for some, several in batch_updates(updates, memory):

        def add_up(part: int, several: UpdateBatch = several, each: F64 = shares[some]) -> None:
            items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
            jit_cached(add_update_shares)(
                total[items], there[items], shared[:, numbers], items.start, numbers.start, several, each
            )

        threads.run(add_up)

    def finish(part: int) -> None:
        items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
        first = n_columns - n_shared
        for sums, known, low, high in (
            (total[items], there[items], items.start * width, items.stop * width),
            (shared[:, numbers], np.ones(1, np.bool_), first + numbers.start, first + numbers.stop),
        ):
            for version, of_version in others:
                jit_cached(add_version)(sums, known, versions[version][low:high], of_version)
            jit_cached(add_rounded)(sums, known, versions[last][low:high], of_last, found[low:high])

    threads.run(finish)
    return found


def add_update_shares(
    total: F64, there: Bools, rest: F64, first_item: int, first: int, updates: UpdateBatch, shares: F64
) -> None:
    """Add each update's change of some items and of shared weights, times its share.

    Parameters
    ----------
    total : ndarray of float64, shape (n_items, item_width)
        Of the items from `first_item`; rows that are not `there` yet count as zeros.
    there : ndarray of bool, shape (n_items,)
    rest : ndarray of float64, shape (1, n_weights)
        Of the weights from `first`.
    """
    base, places, items, rows, shared = updates
    last_item, width = first_item + len(total), np.uint64(rows.shape[1])
    sums, trained = total.reshape(-1), rows.reshape(-1)
    into, sent = rest[0], base[len(base) - shared.shape[1] + first :]
    for number in range(len(shares)):
        share = shares[number]
        for touched in range(places[number], places[number + 1]):
            if first_item <= items[touched] < last_item:
                row = items[touched] - first_item
                at, before = np.uint64(row) * width, np.uint64(items[touched]) * width
                now = np.uint64(touched) * width
                if not there[row]:
                    total[row] = 0.0
                    there[row] = True
                for k in range(width):
                    sums[at + k] += share * (np.float64(trained[now + k]) - np.float64(base[before + k]))
        weights = shared[number, first : first + len(into)]
        for k in range(len(into)):
            into[k] += share * (np.float64(weights[k]) - np.float64(sent[k]))


def add_weighted_deltas(
    total: F64, mass: F64, rest: F64, first_item: int, first: int, updates: UpdateBatch, weights: F64
) -> None:
    """Add weighted changes, in single precision, of some items and shared weights; add the weights to `mass`.

    Parameters
    ----------
    total : ndarray of float64, shape (n_items, item_width); mass : ndarray of float64, shape (n_items,)
        Of the items from `first_item`.
    rest : ndarray of float64, shape (n_weights,)
        Of the weights from `first`.
    """
    base, places, items, rows, shared = updates
    last_item, width = first_item + len(total), np.uint64(rows.shape[1])
    sums, trained = total.reshape(-1), rows.reshape(-1)
    sent = base[len(base) - shared.shape[1] + first :]
    for number in range(len(weights)):
        weight = weights[number]
        for touched in range(places[number], places[number + 1]):
            if first_item <= items[touched] < last_item:
                item = items[touched] - first_item
                mass[item] += weight
                at, before = np.uint64(item) * width, np.uint64(items[touched]) * width
                now = np.uint64(touched) * width
                for k in range(width):
                    sums[at + k] += weight * np.float64(trained[now + k] - base[before + k])
        numbers = shared[number, first : first + len(rest)]
        for k in range(len(rest)):
            rest[k] += weight * np.float64(numbers[k] - sent[k])


def add_version(total: F64, there: Bools, version: F32, share: float) -> None:
    """Add a share of a version to all rows."""
    width = total.shape[1]
    for row in range(len(total)):
        into, of_version = total[row], version[row * width : (row + 1) * width]
        for k in range(0 if there[row] else width):
            into[k] = 0.0
        there[row] = True
        for k in range(width):
            into[k] += np.float64(of_version[k]) * share


def add_rounded(total: F64, there: Bools, version: F32, share: float, found: F32) -> None:
    """Set `found` to the total plus a share of a version, without changing the total."""
    width = total.shape[1]
    for row in range(len(total)):
        place = row * width
        into, of_version = found[place : place + width], version[place : place + width]
        if there[row]:
            for k in range(width):
                into[k] = total[row, k] + np.float64(of_version[k]) * share
        else:
            for k in range(width):
                into[k] = 0.0 + np.float64(of_version[k]) * share


def check_finite_updates(updates: UpdateBatch, finite: Bools) -> None:
    """Set `finite` to False for each update of which the change is not finite."""
    base, places, items, rows, shared = updates
    width, trained = np.uint64(rows.shape[1]), rows.reshape(-1)
    sent = base[len(base) - shared.shape[1] :]
    for number in range(len(finite)):
        others = 0
        for touched in range(places[number], places[number + 1]):
            before, now = np.uint64(items[touched]) * width, np.uint64(touched) * width
            for k in range(width):
                others += 0 if np.isfinite(trained[now + k] - base[before + k]) else 1
        weights = shared[number]
        for k in range(len(weights)):
            others += 0 if np.isfinite(weights[k] - sent[k]) else 1
        finite[number] = others == 0
