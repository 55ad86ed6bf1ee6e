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


@noinline
def add_product(c, c_at, c_row, a, a_at, a_row, a_column, b, b_at, b_row, outer, inner, columns):
    """Add ``a b`` to ``c``, shapes (outer, inner), (inner, columns) and (outer, columns); fast in multiples of LANES.

    Parameters
    ----------
    c, a, b : ndarray of float32, flat
    c_at, a_at, b_at : int
        Where the matrices begin.
    c_row, a_row, b_row : int
        Distance from a row to the next.
    a_column : int
        Distance from a column of `a` to the next: 1, or more if `a_row` is 1 and the matrix is stored transposed.
    """
    whole = columns - columns % LANES
    for at in range(0, whole, LANES):
        o = 0
        while o + ROWS <= outer:
            rows_of_product(
                c, c_at + o * c_row + at, c_row, a, a_at + o * a_row, a_row, a_column, b, b_at + at, b_row, inner
            )  # fmt: skip
            o += ROWS
        while o < outer:
            row_of_product(
                c, c_at + o * c_row + at, c_row, a, a_at + o * a_row, a_row, a_column, b, b_at + at, b_row, inner
            )  # fmt: skip
            o += 1
    for o in range(outer if whole < columns else 0):
        for i in range(inner):
            factor = a[a_at + o * a_row + i * a_column]
            axpy(c, c_at + o * c_row + whole, b, b_at + i * b_row + whole, columns - whole, factor)


@noinline
def add_squares(c, a, a_at, b, inner, tiles):
    """Add ``sum_i (b[tile, i, k] - a[i])^2`` to ``c[tile, k]``, k below WIDE, for each of the `tiles`.

    Parameters
    ----------
    c, a, b : ndarray of float32, flat
    a_at : int
        Where `a` begins; its numbers are WIDE apart, like a column of a tile of `b`.
    """
    for tile in range(tiles):
        squares(c, tile * WIDE, WIDE, a, a_at, 0, WIDE, b, tile * inner * WIDE, WIDE, inner)


@noinline
def add_inner_products(c, c_at, c_row, a, a_at, a_row, b, b_at, b_row, outer, inner, length):
    """Add ``a b'`` to ``c``, shapes (outer, length), (inner, length) and (outer, inner); fast in multiples of LANES.

    Parameters
    ----------
    c, a, b : ndarray of float32, flat
    c_at, a_at, b_at : int
        Where the matrices begin.
    c_row, a_row, b_row : int
        Distance from a row to the next.
    """
    whole = length - length % LANES
    for o in range(0, outer - outer % ROWS, ROWS):
        i = 0
        while i + COLUMNS <= inner:
            square_of_inner(
                c, c_at + o * c_row + i, c_row, a, a_at + o * a_row, a_row, b, b_at + i * b_row, b_row, whole
            )
            i += COLUMNS
        while i < inner:
            for k in range(o, o + ROWS):
                one_inner(
                    c,
                    c_at + k * c_row + i,
                    c_row,
                    a,
                    a_at + k * a_row,
                    a_row,
                    b,
                    b_at + i * b_row,
                    b_row,
                    whole,
                )
            i += 1
    for o in range(outer - outer % ROWS, outer):
        for i in range(inner):
            one_inner(
                c, c_at + o * c_row + i, c_row, a, a_at + o * a_row, a_row, b, b_at + i * b_row, b_row, whole
            )
    for o in range(outer if whole < length else 0):
        for i in range(inner):
            c[c_at + o * c_row + i] += dot(
                a, a_at + o * a_row + whole, b, b_at + i * b_row + whole, length - whole
            )
