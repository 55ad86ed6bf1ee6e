"""Cosines of item vectors, brought into 0 to 1: the same to the bit in any grouping, and both ways round."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F32, F64, I64

GRID = 2.0**16
"""Directions are rounded to multiples of its inverse, so that last bits of linear algebra decide nothing."""
NOTHING = 1e-9
"""Length up to which a vector is none: rounding alone."""


def rounded_unit_vectors(vectors: F64) -> F32:
    """Return vectors of length 1, shape (n_items, dim), rounded; zeros where a vector is none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > NOTHING)
    return np.asarray(np.round(unit * GRID) / GRID, np.float32)


def shifted_cosines(unit: F32, items: I64) -> F32:
    """Return ``(1 + cos) / 2`` of some items and all items, shape (n, n_items).

    An item without a direction has 0 to all others. Every item has 1 to itself.

    Notes
    -----
    Dimension by dimension, not by a product of matrices: libraries take these in an order that depends on how many rows
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
