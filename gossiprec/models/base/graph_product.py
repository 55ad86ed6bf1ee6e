"""The product of a symmetric sparse matrix and rows, and its gradient, which is the same product.

Rows of the product are divided among threads. Each number is summed by one thread, in the order of the matrix's
columns, so results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.machine import ThreadPoolLike
from gossiprec.native.jit import inline, kernel
from gossiprec.native.tiles import GATHERED, gather_sum

Rows = npt.NDArray[Any]


@kernel
def fill(matrix, wanted, rows, out, shape, begin, end):
    """Overwrite rows `begin` .. `end` - 1 of `out` with the rows `wanted` of the product.

    Parameters
    ----------
    matrix : tuple of ndarray
        The starts, columns and values of :class:`SymmetricMatrix`.
    rows, out : ndarray, flat
    shape : tuple of int
        The length of a row, and how many of its numbers :func:`gather_sum` sums.
    """
    starts, columns, values = matrix
    for k in range(begin, end):
        _sum_row(values, columns, starts[wanted[k]], starts[wanted[k] + 1], rows, out, k, shape)


@kernel
def fill_from_few(matrix, place, rows, out, shape, begin, end):
    """Overwrite rows `begin` .. `end` - 1 of the product with a matrix of which few rows are not zero.

    Parameters
    ----------
    place : ndarray of int32, shape (n,)
        The place of each row of that matrix in `rows`, or -1 for a row of zeros.
    """
    starts, columns, values = matrix
    longest = 0
    for i in range(begin, end):
        longest = max(longest, starts[i + 1] - starts[i])
    places, factors = np.empty(longest, np.int32), np.empty(longest, np.float32)
    for i in range(begin, end):
        n = 0
        for at in range(starts[i], starts[i + 1]):
            found = place[columns[at]]
            places[n], factors[n] = found, values[at]
            n += found >= 0
        _sum_row(factors, places, 0, n, rows, out, i, shape)


@inline
def _sum_row(factors, places, first, last, rows, out, k, shape):
    dim, whole = shape
    for column in range(0, whole, GATHERED):
        gather_sum(out, k * dim + column, factors, places, first, last, rows, dim, column)
    if whole == dim:
        return
    own = out[k * dim + whole : (k + 1) * dim]
    own[:] = 0
    for at in range(first, last):
        value, other = factors[at], rows[places[at] * dim + whole : (places[at] + 1) * dim]
        for column in range(len(own)):
            own[column] += value * other[column]


@kernel
def add_rows(rows, places, others):
    """Add row k of `others` to row ``places[k]`` of `rows`, for each k."""
    for k in range(len(places)):
        own, other = rows[places[k]], others[k]
        for column in range(len(own)):
            own[column] += other[column]


@dataclass(frozen=True, eq=False)
class SymmetricMatrix:
    """A symmetric sparse matrix in compressed row format, and the threads that multiply by it.

    Attributes
    ----------
    starts : ndarray of int64, shape (n + 1,)
    columns : ndarray of int32, shape (n_entries,)
        Ascending within a row.
    values : ndarray of float32, shape (n_entries,)
    threads : ThreadPoolLike
    """

    starts: I64
    columns: I32
    values: F32
    threads: ThreadPoolLike

    def times(self, rows: Rows, wanted: I64 | None = None, out: Rows | None = None) -> Rows:
        """Return the product, or its rows `wanted`.

        Parameters
        ----------
        rows : ndarray of float32 or float64, shape (n, d)
        wanted : ndarray of int64, shape (n_wanted,), optional
        out : ndarray of the shape and type of the result, optional
            Overwritten and returned: a new table of many rows costs as much as a tenth of the product.
        """
        chosen, bounds = self._all_rows if wanted is None else (wanted, self._bounds(wanted))
        return self._divided(fill, bounds, chosen, np.ascontiguousarray(rows), out)

    def times_few(self, place: I32, rows: Rows, out: Rows | None = None) -> Rows:
        """Return the product with a matrix that is zero but for the given rows (:func:`fill_from_few`)."""
        return self._divided(fill_from_few, self._all_rows[1], place, np.ascontiguousarray(rows), out)

    @functools.cached_property
    def _all_rows(self) -> tuple[I64, list[int]]:
        every = np.arange(len(self.starts) - 1)
        return every, self._bounds(every)

    def _bounds(self, chosen: I64) -> list[int]:
        """Return bounds of ranges of some rows, one per thread, with about equally many entries."""
        size = self.threads.size
        if size == 1 or not len(chosen):
            return [0] * size + [len(chosen)]
        work = np.cumsum(self.starts[chosen + 1] - self.starts[chosen] + 1)
        ends = np.searchsorted(work, np.arange(1, size) * (int(work[-1]) / size))
        return [0, *ends.tolist(), len(chosen)]

    def _divided(
        self, job: Callable[..., None], bounds: list[int], argument: Any, rows: Rows, out: Rows | None
    ) -> Rows:
        """Call a kernel in each thread, for the rows between its bounds."""
        dim = rows.shape[1]
        out = np.empty((bounds[-1], dim), rows.dtype) if out is None else out
        shape = dim, dim - dim % GATHERED if rows.dtype == np.float32 else 0
        matrix = self.starts, self.columns, self.values
        flat = rows.reshape(-1), out.reshape(-1)
        self.threads.run(lambda part: job(matrix, argument, *flat, shape, bounds[part], bounds[part + 1]))
        return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: SymmetricMatrix) -> Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(matrix.times(rows.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return sparse_product(slopes[0], ctx.matrix), None


def sparse_product(rows: Tensor, matrix: SymmetricMatrix) -> Tensor:
    """Return the product of a matrix and `rows`, shape (n, d)."""
    return _Product.apply(rows, matrix)
