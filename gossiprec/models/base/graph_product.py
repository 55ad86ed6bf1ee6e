"""The product of a symmetric sparse matrix and rows, and its gradient, which is the same product."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.native.jit import kernel


@kernel
def fill(starts, columns, values, rows, out):
    """Overwrite `out` with the product; each number is summed in the order of the matrix's columns."""
    dim = rows.shape[1]
    for i in range(len(starts) - 1):
        own = out[i]
        own[:] = 0
        for at in range(starts[i], starts[i + 1]):
            value, other = values[at], rows[columns[at]]
            for k in range(dim):
                own[k] += value * other[k]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, starts: I64, columns: I32, values: F32) -> Tensor:
        ctx.matrix = starts, columns, values
        found = np.empty(tuple(rows.shape), rows.detach().numpy().dtype)
        fill(starts, columns, values, rows.detach().contiguous().numpy(), found)
        return torch.from_numpy(found)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        return sparse_product(slopes[0], *ctx.matrix), None, None, None


def sparse_product(rows: Tensor, starts: I64, columns: I32, values: F32) -> Tensor:
    """Return the product of a symmetric matrix, given by rows, and `rows`, shape (n, d)."""
    found: Tensor = _Product.apply(rows, starts, columns, values)
    return found
