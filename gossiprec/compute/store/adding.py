"""What is done with numbers of updates: plain loops, compiled where they are called (:mod:`gossiprec.jit`).

Loops over shared weights begin at 0 of views, because the compiler then does several numbers at a time.
"""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F32, F64, I32


def add_change(total: F64, base: F32, items: I32, rows: F32, shared: F32, share: float) -> None:
    """Add a share of what an update has changed of its base to the columns of a model."""
    width, first = rows.shape[1], len(base) - len(shared)
    for touched in range(len(items)):
        at = items[touched] * width
        for k in range(width):
            total[at + k] += share * (np.float64(rows[touched, k]) - np.float64(base[at + k]))
    into, before = total[first:], base[first:]
    for k in range(len(shared)):
        into[k] += share * (np.float64(shared[k]) - np.float64(before[k]))


def add_version(total: F64, version: F32, share: float) -> None:
    """Add a share of a version."""
    for k in range(len(total)):
        total[k] += np.float64(version[k]) * share


def rounded(total: F64, version: F32, share: float, found: F32) -> None:
    """Set `found` to what :func:`add_version` would make of the total."""
    for k in range(len(total)):
        found[k] = total[k] + np.float64(version[k]) * share


def is_finite(base: F32, items: I32, rows: F32, shared: F32) -> bool:
    """Return whether all that an update has changed of its base is numbers: that less itself is zero."""
    width, first, found = rows.shape[1], len(base) - len(shared), True
    for touched in range(len(items)):
        at = items[touched] * width
        for k in range(width):
            found &= np.isfinite(rows[touched, k] - base[at + k])
    before = base[first:]
    for k in range(len(shared)):
        found &= np.isfinite(shared[k] - before[k])
    return found
