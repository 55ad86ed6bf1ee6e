"""Rows at addresses of their own: memory is taken when a row is first written, and can be given back."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I64

# MAP_NORESERVE, which Python does not name
_NO_RESERVE = {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)
_LARGE = 2**22
"""Bytes from which on large pages are asked for, as numpy does."""


class Addresses:
    """Zeroed rows.

    Parameters
    ----------
    n_rows, row_size : int
    kind : dtype
    sparse : bool
        Most rows are never to take memory: no large pages.

    Attributes
    ----------
    rows : ndarray, shape (n_rows, row_size)

    Raises
    ------
    OSError, OverflowError
        If the system refuses so many addresses.
    """

    def __init__(self, n_rows: int, row_size: int, kind: npt.DTypeLike, *, sparse: bool) -> None:
        self._row_bytes = row_size * np.dtype(kind).itemsize
        size = max(n_rows * self._row_bytes, 1)
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        if hasattr(mmap, "MADV_HUGEPAGE") and size > _LARGE and not sparse:
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        found = np.frombuffer(self._memory, kind, n_rows * row_size)
        self.rows: npt.NDArray[Any] = found.reshape(n_rows, row_size)

    def discard(self, rows: I64) -> None:
        """Give back the memory of rows (ascending), as far as they fill pages: they may read as zeros then."""
        if not len(rows) or not hasattr(mmap, "MADV_DONTNEED"):
            return
        ends, page = np.flatnonzero(np.diff(rows) != 1), mmap.PAGESIZE
        begin = -(-rows[np.append(0, ends + 1)] * self._row_bytes // page) * page
        end = (rows[np.append(ends, -1)] + 1) * self._row_bytes // page * page
        for low, high in zip(begin.tolist(), end.tolist(), strict=True):
            if low < high:
                self._memory.madvise(mmap.MADV_DONTNEED, low, high - low)
