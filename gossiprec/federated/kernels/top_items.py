"""Scores of all items by some vectors, and the best of them."""

from __future__ import annotations

import numpy as np

from gossiprec.native.jit import inline, kernel, noinline
from gossiprec.numerics.small_matmul import Matrix, add_product

_MOST = 2047
"""The highest digit: eleven bits, so that the counts stay in the first-level cache."""


@kernel
def add_scores(scores, items, vectors):
    """Add to scores, shape (n_items, n), the scalar products of items, (n_items, d), with columns of vectors, (d, n).

    Each product is summed in the order of d, independently of the other columns; fast in multiples of LANES.
    """
    (n_items, dim), n = items.shape, scores.shape[1]
    found, rows = Matrix(scores.reshape(-1), 0, n, 1), Matrix(items.reshape(-1), 0, dim, 1)
    add_product(found, rows, Matrix(vectors.reshape(-1), 0, n, 1), n_items, dim, n)


@kernel
def find_top(scores, found):
    """Fill `found`, int32, with the indices of the highest scores, ascending; on ties the lower index wins.

    The lowest of these scores is found digit by digit, from the highest; each step keeps the scores that agree with it.
    """
    keys = np.empty(len(scores), np.uint32)
    _set_keys(scores.view(np.uint32), keys)
    left, some = len(found), keys
    for shift in (21, 10, 0):
        left, some = _of_digit(some, shift, left)
    lowest, n = some[0], 0
    for k in range(len(keys) if len(found) else 0):
        if keys[k] > lowest or (keys[k] == lowest and left > 0):
            left -= keys[k] == lowest
            found[n] = k
            n += 1


@inline
def _set_keys(bits, keys):
    """Set integer keys in the order of the floats with these bits; both zeros are equal."""
    for k in range(len(bits)):
        x = np.int64(bits[k])
        keys[k] = 2**31 + x if x < 2**31 else 2**32 - x


@noinline
def _of_digit(keys, shift, number):
    """Return the rank of the `number`-th highest key among the keys with its digit, and these keys."""
    counts = np.zeros(_MOST + 1, np.int64)
    for key in keys:
        counts[(key >> shift) & _MOST] += 1
    digit = _MOST
    while counts[digit] < number:
        number -= counts[digit]
        digit -= 1
    some, n = np.empty(max(counts[digit], 1), np.uint32), 0
    for key in keys:
        if (key >> shift) & _MOST == digit:
            some[n] = key
            n += 1
    return number, some
