"""What is done with numbers of updates: plain loops, compiled where they are called (:mod:`gossiprec.jit`)."""

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
    for k in range(len(shared)):
        total[first + k] += share * (np.float64(shared[k]) - np.float64(base[first + k]))


def add_version(total: F64, version: F32, share: float, found: F32) -> None:
    """Add a share of a version, and set `found` to the rounded total."""
    for k in range(len(total)):
        total[k] += np.float64(version[k]) * share
        found[k] = total[k]


def is_finite(base: F32, items: I32, rows: F32, shared: F32) -> bool:
    """Return whether all that an update has changed of its base is numbers."""
    width, first, others = rows.shape[1], len(base) - len(shared), 0
    for touched in range(len(items)):
        at = items[touched] * width
        for k in range(width):
            others += not np.isfinite(rows[touched, k] - base[at + k])
    for k in range(len(shared)):
        others += not np.isfinite(shared[k] - base[first + k])
    return others == 0
