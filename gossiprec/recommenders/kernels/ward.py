"""Ward's method by chains of nearest neighbours, which need no matrix of distances."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.numerics.jit import kernel, outline


@kernel
def merges_of(means, pairs, heights):
    """Merge clusters of one row each until one is left; in the order of chains, not of heights.

    Parameters
    ----------
    means : ndarray of float32, shape (n, d)
        The rows; overwritten by means of clusters.
    pairs : ndarray of int64, shape (n - 1, 2)
        Filled with a row of each of the two clusters that are merged.
    heights : ndarray of float32, shape (n - 1,)
        Filled with half of what each merge adds to the sum of squared distances to means, times two: what is merged in
        the order of heights is what Ward's method merges one after the other.
    """
    n = len(means)
    sizes, left = np.ones(n, np.float32), np.arange(n)
    place = np.arange(n)
    chain, length, n_left = np.empty(n, np.int64), 0, n
    for merge in range(n - 1):
        if length == 0:
            chain[0], length = left[0], 1
        while True:  # each link is shorter than the one before, so that the chain ends
            last = chain[length - 1]
            before = chain[length - 2] if length > 1 else -1
            near, height = _nearest(means, sizes, left[:n_left], last, before)
            if near == before:
                break
            chain[length] = near
            length += 1
        length -= 2
        pairs[merge, 0], pairs[merge, 1], heights[merge] = last, near, height
        total = sizes[last] + sizes[near]
        for t in range(means.shape[1]):
            means[last, t] = (sizes[last] * means[last, t] + sizes[near] * means[near, t]) / total
        sizes[last] = total
        n_left -= 1
        moved = left[n_left]
        left[place[near]] = moved
        place[moved] = place[near]


@outline
def _nearest(means, sizes, left, own, before):
    """Return the cluster nearest to one, of equal ones `before` or else the first, and how far it is."""
    found, least = -1, float32(np.inf)
    for k in range(len(left)):
        other = left[k]
        if other == own:
            continue
        square = float32(0.0)
        for t in range(means.shape[1]):
            apart = means[own, t] - means[other, t]
            square += apart * apart
        height = square * (sizes[own] * sizes[other] / (sizes[own] + sizes[other]))
        if height < least or (height == least and other == before):
            found, least = other, height
    return found, least
