"""Cosines of item vectors, scaled to 0 to 1: symmetric, and bit-identical in any grouping."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, F64, I64

GRID = 2.0**16
"""Directions are rounded to multiples of 1 / GRID, so that last bits of linear algebra do not matter."""
NOTHING = 1e-9
"""Length up to which a vector counts as zero, because it is only rounding."""


def rounded_unit_vectors(vectors: F64) -> F32:
    """Return vectors of length 1, shape (n_items, dim), rounded; zeros for zero vectors."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > NOTHING)
    return np.asarray(np.round(unit * GRID) / GRID, np.float32)


def shifted_cosines(unit: F32, items: I64) -> F32:
    """Return ``(1 + cos) / 2`` of some items and all items, shape (n, n_items).

    An item without a direction has 0 to all others. Every item has 1 to itself.

    Notes
    -----
    The sum is taken dimension by dimension, because the order of a matrix product depends on the number of rows.
    there are.
    """
    there = np.abs(unit).max(axis=1, initial=0) > 0
    found = np.zeros((len(items), len(unit)), np.float32)
    for column in np.ascontiguousarray(unit.T):
        found += column[items, None] * column
    found = np.clip((1 + found) / 2, 0, 1)
    found *= there[items, None] & there
    found[np.arange(len(items)), items] = 1
    return found
