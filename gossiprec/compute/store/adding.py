"""What is done with numbers of updates: plain loops, compiled where they are called (:mod:`gossiprec.jit`).

They begin at 0 of views, because the compiler then does several numbers at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.arrays import F32, F64, I32
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
        middle, add = (items[1] - items[0]) * width, compiled(add_change)
        total = np.zeros(middle + weights[1] - weights[0])
        for update, share in zip(updates, shares, strict=True):
            add(total, *items, *weights, update.base, update.items, update.rows, update.shared, share)
        first = n_columns - n_shared
        for into, low, high in (
            (total[:middle], items[0] * width, items[1] * width),
            (total[middle:], first + weights[0], first + weights[1]),
        ):
            for version, of_version in others:
                compiled(add_version)(into, versions[version][low:high], of_version)
            compiled(add_rounded)(into, versions[last][low:high], of_last, found[low:high])

    threads.run(add_up)
    return found


def add_change(
    total: F64, first_item: int, last_item: int, first: int, last: int, base: F32, items: I32, rows: F32,
    shared: F32, share: float,
) -> None:  # fmt: skip
    """Add a share of what an update has changed of some items, and of shared weights first .. last - 1."""
    width = rows.shape[1]
    for touched in range(len(items)):
        if first_item <= items[touched] < last_item:
            at, before = (items[touched] - first_item) * width, items[touched] * width
            for k in range(width):
                total[at + k] += share * (np.float64(rows[touched, k]) - np.float64(base[before + k]))
    into = total[(last_item - first_item) * width :]
    now, sent = shared[first:last], base[len(base) - len(shared) + first :]
    for k in range(len(into)):
        into[k] += share * (np.float64(now[k]) - np.float64(sent[k]))


def add_version(total: F64, version: F32, share: float) -> None:
    """Add a share of a version."""
    for k in range(len(total)):
        total[k] += np.float64(version[k]) * share


def add_rounded(total: F64, version: F32, share: float, found: F32) -> None:
    """Set `found` to what :func:`add_version` would make of the total."""
    for k in range(len(total)):
        found[k] = total[k] + np.float64(version[k]) * share


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
