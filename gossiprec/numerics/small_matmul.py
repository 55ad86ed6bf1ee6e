"""Products of small matrices in compiled code, tile by tile in vector registers.

Matrices are in flat arrays, each with an offset and a row stride. The sums of a tile are kept in registers while
a loop adds to them. BLAS starts threads of its own, and its rounding may depend on the other rows of a product.
"""

from __future__ import annotations

from gossiprec.native.jit import inline, noinline
from gossiprec.native.tiles import (
    COLUMNS,
    LANES,
    ROWS,
    WIDE,
    Matrix,
    one_inner,
    row_of_product,
    rows_of_product,
    square_of_inner,
    squares,
)
from gossiprec.numerics.flat_ops import axpy, dot


@inline
def pad_to_tile(n):
    """Return `n` rounded up to whole tiles."""
    return (n + LANES - 1) // LANES * LANES


@inline
def _from(m, row, column):
    """Return the part of a matrix from a row and a column on."""
    return Matrix(m.values, m.at + row * m.row + column * m.column, m.row, m.column)


@noinline
def add_product(c, a, b, outer, inner, columns):
    """Add ``a b`` to ``c``, shapes (outer, inner), (inner, columns) and (outer, columns); fast in multiples of LANES.

    Parameters
    ----------
    c, a, b : Matrix
        Of float32. The column distance of `a` may be above 1 if its row distance is 1: it is stored transposed.
    """
    whole = columns - columns % LANES
    for at in range(0, whole, LANES):
        o, right = 0, _from(b, 0, at)
        while o + ROWS <= outer:
            rows_of_product(_from(c, o, at), _from(a, o, 0), right, inner)
            o += ROWS
        while o < outer:
            row_of_product(_from(c, o, at), _from(a, o, 0), right, inner)
            o += 1
    for o in range(outer if whole < columns else 0):
        for i in range(inner):
            factor = a.values[a.at + o * a.row + i * a.column]
            axpy(
                c.values,
                c.at + o * c.row + whole,
                b.values,
                b.at + i * b.row + whole,
                columns - whole,
                factor,
            )


@noinline
def add_squares(c, a, a_at, b, inner, tiles):
    """Add ``sum_i (b[tile, i, k] - a[i])^2`` to ``c[tile, k]``, k below WIDE, for each of the `tiles`.

    Parameters
    ----------
    c, a, b : ndarray of float32, flat
    a_at : int
        Offset of `a`; its numbers are WIDE apart, like a column of a tile of `b`.
    """
    for tile in range(tiles):
        squares(
            Matrix(c, tile * WIDE, WIDE, 1), Matrix(a, a_at, 0, WIDE), Matrix(b, tile * inner * WIDE, WIDE, 1),
            inner,
        )  # fmt: skip


@noinline
def add_inner_products(c, a, b, outer, inner, length):
    """Add ``a b'`` to ``c``, shapes (outer, length), (inner, length) and (outer, inner); fast in multiples of LANES.

    Parameters
    ----------
    c, a, b : Matrix
        Of float32.
    """
    whole = length - length % LANES
    for o in range(0, outer - outer % ROWS, ROWS):
        i = 0
        while i + COLUMNS <= inner:
            square_of_inner(_from(c, o, i), _from(a, o, 0), _from(b, i, 0), whole)
            i += COLUMNS
        while i < inner:
            for k in range(o, o + ROWS):
                one_inner(_from(c, k, i), _from(a, k, 0), _from(b, i, 0), whole)
            i += 1
    for o in range(outer - outer % ROWS, outer):
        for i in range(inner):
            one_inner(_from(c, o, i), _from(a, o, 0), _from(b, i, 0), whole)
    for o in range(outer if whole < length else 0):
        for i in range(inner):
            c.values[c.at + o * c.row + i] += dot(
                a.values, a.at + o * a.row + whole, b.values, b.at + i * b.row + whole, length - whole
            )
