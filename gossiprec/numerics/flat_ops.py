"""Compiled loops over ranges of flat arrays, and the compiled check that rows are finite.

Every loop begins at 0 of a view, which lets the compiler vectorise it.
"""

from __future__ import annotations

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import I64, Bools, Floats
from gossiprec.native.jit import borrow, float_of, inline, kernel, load_float32


@inline
def exp32(x):
    """Return e to the x, to a few units in the last place; x is clamped to -87 .. 88.

    x is taken apart into n log 2 + r with an integer n and |r| below log(2) / 2; e to the r is a polynomial of degree
    7 (Moshier's Cephes library, 1989, expf).
    """
    x = float32(-87.0) if x < float32(-87.0) else x  # in this order NaN stays NaN
    x = float32(88.0) if x > float32(88.0) else x
    n = np.floor(x * float32(1.44269504) + float32(0.5))
    r = x - n * float32(0.693359375) + n * float32(2.12194440e-4)  # log 2 in two parts
    p = float32(1.9875691500e-4)
    p = p * r + float32(1.3981999507e-3)
    p = p * r + float32(8.3334519073e-3)
    p = p * r + float32(4.1665795894e-2)
    p = p * r + float32(1.6666665459e-1)
    p = p * r + float32(5.0000001201e-1)
    p = p * r * r + r + float32(1.0)
    return p * float_of(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@inline
def sigmoid(x):
    """Return ``1 / (1 + exp(-x))``."""
    return float32(1.0) / (float32(1.0) + exp32(-x))


@inline
def tanh32(x):
    """Return tanh x, to a few units in the last place; near zero a polynomial of degree 11 (Cephes, tanhf)."""
    s = x * x
    p = float32(-5.70498872745e-3)
    p = p * s + float32(2.06390887954e-2)
    p = p * s + float32(-5.37397155531e-2)
    p = p * s + float32(1.33314422036e-1)
    p = p * s + float32(-3.33332819422e-1)
    near = p * s * x + x
    far = float32(1.0) - float32(2.0) / (exp32(float32(2.0) * x) + float32(1.0))
    return near if abs(x) < float32(0.625) else far


@inline
def fill_range(values, at, n, number):
    """Set `n` numbers to one number."""
    some = values[at : at + n]
    for k in range(len(some)):
        some[k] = number


@inline
def copy_range(values, at, others, others_at, n):
    """Copy `n` numbers from another array."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] = given[k]


@inline
def sum_range(values, at, n):
    """Return the sum of `n` numbers."""
    some, found = values[at : at + n], float32(0.0)
    for k in range(len(some)):
        found += some[k]
    return found


@inline
def dot(values, at, others, others_at, n):
    """Return the inner product of two ranges of `n` numbers."""
    some, given, found = values[at : at + n], others[others_at : others_at + n], float32(0.0)
    for k in range(len(some)):
        found += some[k] * given[k]
    return found


@inline
def axpy(values, at, others, others_at, n, factor):
    """Add `n` numbers of another array, times a factor."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] += given[k] * factor


@inline
def scale_into(values, at, others, others_at, n, factor):
    """Set `n` numbers to another range times a factor; the two ranges may be the same."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] = given[k] * factor


@inline
def multiply_range(values, at, factors, factors_at, n):
    """Multiply `n` numbers by another range."""
    some, given = values[at : at + n], factors[factors_at : factors_at + n]
    for k in range(len(some)):
        some[k] *= given[k]


@inline
def relu_range(values, at, n):
    """Set the negative ones of `n` numbers to zero."""
    some = values[at : at + n]
    for k in range(len(some)):
        x = some[k]
        some[k] = float32(0.0) if x < float32(0.0) else x


@inline
def relu_backward(values, at, others, others_at, n):
    """Set each of `n` numbers to zero if its counterpart in `others` is not above zero."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        x = some[k]
        some[k] = x if given[k] > float32(0.0) else float32(0.0)


@inline
def logistic_gradient(values, at, samples, positives, of, n):
    """Turn `n` logits into the derivatives of ``sum(samples * softplus(z) - positives * z)`` by them."""
    some, all_, liked = values[at : at + n], samples[of : of + n], positives[of : of + n]
    for k in range(len(some)):
        some[k] = all_[k] / (float32(1.0) + exp32(-some[k])) - liked[k]


def finite_rows(rows: Floats, places: I64) -> Bools:
    """Return whether each of some rows (float32 or float16) is finite, shape (n_places,)."""
    out = np.empty(len(places), np.bool_)
    fill_finite(rows.view(np.uint16) if rows.dtype == np.float16 else rows, places, out)
    return out


@borrow
def range_is_finite(values, begin, count):
    """Return whether values in a row are finite: zero times NaN or infinity makes the sum NaN."""
    total = float32(0.0)
    for k in range(count):  # unsigned: the compiler need not test for places from the end
        total += load_float32(values[uint64(begin) + uint64(k)]) * float32(0.0)
    return total == float32(0.0)


@kernel
def fill_finite(rows, places, out):
    """Fill `out` with whether each row is finite."""
    for k in range(len(places)):
        out[k] = range_is_finite(rows[places[k]], 0, rows.shape[1])
