"""Finding rows with a number that is not finite, compiled."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.arrays import I64, Bools, Floats
from gossiprec.numerics.half import widen
from gossiprec.numerics.jit import kernel


def finite_rows(rows: Floats, places: I64) -> Bools:
    """Return whether all numbers of some rows, of float32 or float16, are finite, shape (n_places,)."""
    out = np.empty(len(places), np.bool_)
    fill_finite(rows.view(np.uint16) if rows.dtype == np.float16 else rows, places, out)
    return out


@kernel
def fill_finite(rows, places, out):
    """Fill `out`: zero times NaN or infinity is NaN, and so is a sum that it is in."""
    for k in range(len(places)):
        row, total = rows[places[k]], float32(0.0)
        for column in range(len(row)):
            total += widen(row[column]) * float32(0.0)
        out[k] = total == float32(0.0)
