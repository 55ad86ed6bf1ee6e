"""A sparse matrix times rows, compiled."""

from __future__ import annotations

from gossiprec.numerics.jit import kernel


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
