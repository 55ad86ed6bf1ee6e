"""The order of rows by several columns: what `numpy.lexsort` gives, sooner where numbers are whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I64

Column = npt.NDArray[Any]
BITS = 63
"""Of a whole number of 64 bits that is not negative."""


def order_by(*columns: Column) -> I64:
    """Return the places of rows in the order of the first column, then the second, and so on; equal rows stay in order.

    Parameters
    ----------
    columns : ndarray of int or float, shape (n_rows,)
        At least one; none holds NaN.

    Notes
    -----
    Columns of whole numbers and the row's place go into one number as far as they fit: a sort of numbers is done with
    vector instructions, a sort of places is not. A million rows take a fifth to a half of the time of a `lexsort`.
    """
    n_rows = len(columns[0])
    order = np.arange(n_rows)
    for key in reversed(_joined(columns, BITS - n_rows.bit_length()) if n_rows else []):
        key = key[order]
        if (key[1:] < key[:-1]).any():
            order = order[_stable(key)]
    return order


def _joined(columns: Sequence[Column], room: int) -> list[Column]:
    """Return fewer columns that order rows alike: neighbours of whole numbers joined where `room` bits hold both."""
    joined: list[Column] = []
    widths: list[int] = []
    for column in columns:
        width = _width(column)
        if joined and widths[-1] + width <= room:
            joined[-1] = _from_zero(joined[-1]) << width | _from_zero(column)
            widths[-1] += width
        else:
            joined.append(column)
            widths.append(width)
    return joined


def _width(column: Column) -> int:
    """Return how many bits hold the differences of a column; more than there are, of what is no signed number."""
    if not np.issubdtype(column.dtype, np.signedinteger):
        return BITS + 1
    return (int(column.max()) - int(column.min())).bit_length()


def _from_zero(column: Column) -> I64:
    """Return the differences of a column to its smallest number."""
    return column.astype(np.int64) - int(column.min())


def _stable(key: Column) -> I64:
    """Return the places of a column's numbers in ascending order, equal ones as they come."""
    bits = len(key).bit_length()
    if _width(key) + bits > BITS:
        return np.argsort(key, kind="stable")
    packed = _from_zero(key) << bits | np.arange(len(key))
    packed.sort()
    return packed & ((1 << bits) - 1)
