"""Ward's method by chains of nearest neighbours, which need no matrix of distances."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.native.jit import kernel, noinline
from gossiprec.native.tiles import WIDE
from gossiprec.numerics.small_matmul import add_squares


@kernel
def ward_merges(means, pairs, heights):
    """Merge clusters of one row each until one is left, in the order of chains, not of heights.

    Parameters
    ----------
    means : ndarray of float32, shape (n_tiles, d, WIDE)
        The rows, one per column, and further ones that fill the last tile; overwritten. The remaining clusters are
        kept together, so that many distances are computed at once, each summed in the order of d.
    pairs : ndarray of int64, shape (n - 1, 2)
        Filled with a row of each of the two clusters that are merged.
    heights : ndarray of float32, shape (n - 1,)
        Filled with half of what each merge adds to the sum of squared distances to means, times two: sorted by
        height, the merges are in the order of Ward's method.
    """
    n = len(pairs) + 1
    sizes, apart = np.ones(n, np.float32), np.zeros(len(means) * WIDE, np.float32)
    row, place = np.arange(n), np.arange(n)  # the row of each column, and the column of each row
    chain, length, n_left = np.empty(n, np.int64), 0, n
    for merge in range(n - 1):
        if length == 0:
            chain[0], length = row[0], 1
        while True:  # each link is shorter than the one before, so that the chain ends
            last = chain[length - 1]
            before = place[chain[length - 2]] if length > 1 else -1
            _fill_heights(means, sizes, place[last], apart, n_left)
            found = _least(apart[:n_left], before)
            if found == before:
                break
            chain[length] = row[found]
            length += 1
        length -= 2
        own, height = place[last], apart[found]
        pairs[merge, 0], pairs[merge, 1], heights[merge] = last, row[found], height
        total = sizes[own] + sizes[found]
        n_left -= 1
        mine, other = means[own // WIDE, :, own % WIDE], means[found // WIDE, :, found % WIDE]
        moved = means[n_left // WIDE, :, n_left % WIDE]
        for t in range(len(mine)):
            mine[t] = (sizes[own] * mine[t] + sizes[found] * other[t]) / total
            other[t] = moved[t]
        sizes[own] = total
        sizes[found] = sizes[n_left]
        row[found] = row[n_left]
        place[row[found]] = found


@noinline
def _fill_heights(means, sizes, own, apart, n):
    """Fill the heights at which a cluster would be merged with each of `n`; infinite for itself."""
    for k in range(n):
        apart[k] = float32(0.0)
    dim, size, flat = means.shape[1], sizes[own], means.ravel()
    add_squares(apart, flat, own // WIDE * dim * WIDE + own % WIDE, flat, dim, (n + WIDE - 1) // WIDE)
    for k in range(n):
        apart[k] *= size * sizes[k] / (size + sizes[k])
    apart[own] = np.inf


@noinline
def _least(heights, before):
    """Return the index of the least height; on ties `before`, or else the first."""
    bits, least = (
        heights.view(np.int32),
        np.int32(0x7FFFFFFF),
    )  # the bits of numbers from 0 on have the same order
    for k in range(len(bits)):
        least = min(least, bits[k])
    if before >= 0 and bits[before] == least:
        return before
    found = 0
    while bits[found] != least:
        found += 1
    return found
