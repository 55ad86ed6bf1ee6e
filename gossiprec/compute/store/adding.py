"""What is done with numbers of updates: plain loops, compiled where they are called (:mod:`gossiprec.jit`).

They begin at 0 of views, because the compiler then does several numbers at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.arrays import F32, F64, I32, Bools
from gossiprec.jit import compiled
from gossiprec.servers.base import Threads

if TYPE_CHECKING:
    from gossiprec.compute.store.updates import Update


def weighted_sum(updates: Sequence[Update], shares: Sequence[float], threads: Threads) -> F32:
    """Return the sum of what some updates make of their versions, each times its share, rounded from float64.

    Changes are added up in their order, then each version once. Every thread has some items and some shared weights.
    """
    n_columns, n_shared, width = len(updates[0].base), len(updates[0].shared), updates[0].rows.shape[1]
    found, of_versions, size = np.empty(n_columns, np.float32), dict[int, float](), threads.size
    n_items = (n_columns - n_shared) // max(width, 1)
    versions = {id(update.base): update.base for update in updates}
    for update, share in zip(updates, shares, strict=True):
        of_versions[id(update.base)] = of_versions.get(id(update.base), 0.0) + share
    *others, (last, of_last) = of_versions.items()

    def add_up(part: int) -> None:
        items, weights = ((n * part // size, n * (part + 1) // size) for n in (n_items, n_shared))
        rows, there = np.empty((items[1] - items[0], width)), np.zeros(items[1] - items[0], np.bool_)
        rest, add = np.zeros((1, weights[1] - weights[0])), compiled(add_change)
        for update, share in zip(updates, shares, strict=True):
            add(
                rows,
                there,
                rest,
                items[0],
                weights[0],
                update.base,
                update.items,
                update.rows,
                update.shared,
                share,
            )
        first = n_columns - n_shared
        for total, known, low, high in (
            (rows, there, items[0] * width, items[1] * width),
            (rest, np.ones(1, np.bool_), first + weights[0], first + weights[1]),
        ):
            for version, of_version in others:
                compiled(add_version)(total, known, versions[version][low:high], of_version)
            compiled(add_rounded)(total, known, versions[last][low:high], of_last, found[low:high])

    threads.run(add_up)
    return found


def add_change(
    total: F64, there: Bools, rest: F64, first_item: int, first: int, base: F32, items: I32, rows: F32,
    shared: F32, share: float,
) -> None:  # fmt: skip
    """Add a share of what an update has changed of some items, and of shared weights.

    Parameters
    ----------
    total : ndarray of float64, shape (n_items, item_width)
        Of the items from `first_item`; what is in rows that are not `there` yet counts as zeros.
    there : ndarray of bool, shape (n_items,)
    rest : ndarray of float64, shape (1, n_weights)
        Of the weights from `first`.
    """
    width, last_item = rows.shape[1], first_item + len(total)
    for touched in range(len(items)):
        if first_item <= items[touched] < last_item:
            row, before = items[touched] - first_item, items[touched] * width
            for k in range(0 if there[row] else width):
                total[row, k] = 0.0
            there[row] = True
            for k in range(width):
                total[row, k] += share * (np.float64(rows[touched, k]) - np.float64(base[before + k]))
    into = rest[0]
    now, sent = shared[first : first + len(into)], base[len(base) - len(shared) + first :]
    for k in range(len(into)):
        into[k] += share * (np.float64(now[k]) - np.float64(sent[k]))


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
    """Set `found` to what :func:`add_version` would make of the total."""
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


def is_finite(base: F32, items: I32, rows: F32, shared: F32) -> bool:
    """Return whether all that an update has changed of its base is numbers."""
    width, first, found = rows.shape[1], len(base) - len(shared), True
    for touched in range(len(items)):
        at = items[touched] * width
        for k in range(width):
            found &= np.isfinite(rows[touched, k] - base[at + k])
    before = base[first:]
    for k in range(len(shared)):
        found &= np.isfinite(shared[k] - before[k])
    return found
