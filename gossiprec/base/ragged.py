"""Rows of unequal length, stored back to back in one array (compressed sparse rows)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64

Integers = npt.NDArray[np.integer]


def row_entries(offsets: I64, rows: I64) -> tuple[I64, I64]:
    """Return the indices of the entries of some rows, row after row, and for each the position of its row in `rows`."""
    counts = offsets[rows + 1] - offsets[rows]
    first = np.repeat(offsets[rows] - np.cumsum(counts) + counts, counts)
    return first + np.arange(counts.sum()), np.repeat(np.arange(len(rows)), counts)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of unequal length; other arrays with the same offsets may hold further values of the entries.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_rows + 1,)
        Row i is ``values[offsets[i]:offsets[i + 1]]``.
    values : ndarray, shape (offsets[-1], ...)
    """

    offsets: I64
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        """Return a view of a row (from 0; not from the end)."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def sizes(self) -> I64:
        """Length of each row, shape (n_rows,)."""
        return np.diff(self.offsets)

    @property
    def row_of_each_value(self) -> I64:
        """Row of each value, shape (offsets[-1],)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def first(self, count: int) -> Ragged:
        """Return the first rows, without a copy."""
        return Ragged(self.offsets[: count + 1], self.values[: self.offsets[count]])

    def with_values(self, values: npt.NDArray[Any]) -> Ragged:
        """Return rows of the same lengths that hold `values`, one for each value here."""
        return Ragged(self.offsets, values)

    @classmethod
    def from_sizes(cls, sizes: Integers, values: npt.NDArray[Any]) -> Ragged:
        """Return `values` cut into rows of these lengths."""
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return cls(offsets, values)

    @classmethod
    def from_parts(cls, parts: Sequence[npt.NDArray[Any]]) -> Ragged:
        """Return the rows in `parts`, of which there is at least one."""
        return cls.from_sizes(np.array([len(part) for part in parts]), np.concatenate(parts))

    @classmethod
    def from_pairs(cls, rows: Integers, values: npt.NDArray[Any], n_rows: int) -> Ragged:
        """Return the rows of (row, value) pairs; within a row the values keep their order.

        Raises
        ------
        ValueError
            If a row is not among 0 to ``n_rows - 1``.
        """
        sizes = np.bincount(rows, minlength=n_rows)
        if len(sizes) > n_rows:
            raise ValueError(f"found row {len(sizes) - 1}; expected 0 to {n_rows - 1}")
        return cls.from_sizes(sizes, values[np.argsort(rows, kind="stable")])

    @classmethod
    def sets_from_pairs(cls, rows: Integers, ids: Integers, n_rows: int) -> Ragged:
        """Return the sets of (row, id) pairs: each row's distinct ids (0 or more) as int32, ascending."""
        width = int(ids.max(initial=0)) + 1
        keys = np.sort(
            rows.astype(np.int64) * width + ids
        )  # np.unique would hash first, which takes ten times as long
        rows, ids = np.divmod(keys[np.diff(keys, prepend=-1) > 0], width)
        return cls.from_pairs(rows, ids.astype(np.int32), n_rows)
