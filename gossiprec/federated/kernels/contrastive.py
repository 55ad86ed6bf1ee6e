"""Compiled gradients of contrastive losses; rows of embeddings are columns here, as in kernels of models.

The losses are those of :mod:`gossiprec.models.base.contrastive`.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.contrastive import TINY
from gossiprec.native.jit import noinline
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import exp32
from gossiprec.numerics.small_matmul import add_inner_products, add_product, pad_to_tile

AT_ONCE = 64
"""Number of rows for which similarities to all others are computed together."""
LEAST_TEMPERATURE = 0.025
"""Below it, ``exp((cosine - 1) / temperature)`` of dissimilar rows is smaller than a float32 can be."""


@noinline
def gather_columns(items, places, found):
    """Set the first columns of `found` to some columns of `items`, and the others to zero."""
    for i in range(len(items)):
        row, into = items[i], found[i]
        for k in range(len(places)):
            into[k] = row[places[k]]
        into[len(places) :] = float32(0.0)


@noinline
def scatter_add_columns(item_slopes, places, slopes):
    """Add columns to the columns of `item_slopes` that they were taken from."""
    for i in range(len(item_slopes)):
        row, added = item_slopes[i], slopes[i]
        for k in range(len(places)):
            row[places[k]] += added[k]


@noinline
def normalise_columns(columns, norms):
    """Divide each column by its Euclidean norm, or by TINY if it is smaller; `norms` is filled with the divisors."""
    norms[:] = float32(0.0)
    for i in range(len(columns)):
        row = columns[i]
        for k in range(len(row)):
            norms[k] += row[k] * row[k]
    for k in range(len(norms)):
        norms[k] = max(np.sqrt(norms[k]), float32(TINY))
    for i in range(len(columns)):
        row = columns[i]
        for k in range(len(row)):
            row[k] /= norms[k]


@noinline
def normalise_backward(units, norms, slopes):
    """Turn derivatives by columns of norm 1 into derivatives by the columns before :func:`normalise_columns`."""
    along = np.zeros(len(norms), np.float32)
    for i in range(len(units)):
        row, slope = units[i], slopes[i]
        for k in range(len(row)):
            along[k] += row[k] * slope[k]
    for k in range(len(norms)):
        if norms[k] <= float32(TINY):
            along[k] = float32(0.0)
    for i in range(len(units)):
        row, slope = units[i], slopes[i]
        for k in range(len(row)):
            slope[k] = (slope[k] - along[k] * row[k]) / norms[k]


@noinline
def add_signed_noise(columns, uniform, which, size):
    """Add noise of norm `size` with the signs of the columns, in proportions ``uniform[:, which]``, a row each."""
    n = len(uniform)
    for k in range(n):
        squares = float32(0.0)
        for i in range(len(columns)):
            if columns[i, k] != float32(0.0):
                squares += uniform[k, which, i] ** 2
        scale = float32(size) / max(np.sqrt(squares), float32(TINY))
        for i in range(len(columns)):
            x = columns[i, k]
            sign = float32(x > float32(0.0)) - float32(x < float32(0.0))
            columns[i, k] = x + scale * uniform[k, which, i] * sign


@noinline
def info_nce_gradient(one, other, n, temperature, weight, of_one, of_other):
    """Fill in `weight` times the derivatives of InfoNCE by both views of `n` rows.

    Parameters
    ----------
    one, other : ndarray of float32, shape (d, padded(n))
        The views, zero beyond n; columns of norm 1 afterwards.
    of_one, of_other : ndarray of float32, shape (d, padded(n))
    """
    dim, wide = one.shape
    norms, other_norms = np.empty(wide, np.float32), np.empty(wide, np.float32)
    normalise_columns(one, norms)
    normalise_columns(other, other_norms)
    of_one[:], of_other[:] = float32(0.0), float32(0.0)
    flat, others, slopes, other_slopes = one.ravel(), other.ravel(), of_one.ravel(), of_other.ravel()
    near = np.empty(AT_ONCE * wide, np.float32)
    sharp, scale = float32(1.0 / temperature), float32(weight / temperature)
    for begin in range(0, n, AT_ONCE):
        some = min(AT_ONCE, n - begin)
        near[: some * wide] = float32(0.0)
        add_product(
            Matrix(near, 0, wide, 1), Matrix(flat, begin, 1, wide), Matrix(others, 0, wide, 1),
            some, dim, wide,
        )  # fmt: skip
        for a in range(some):
            row = near[a * wide : a * wide + n]
            total = float32(0.0)
            for k in range(len(row)):
                row[k] = exp32((row[k] - float32(1.0)) * sharp)
                total += row[k]
            share = scale / total
            for k in range(len(row)):
                row[k] *= share
            row[begin + a] -= scale
            near[a * wide + n : (a + 1) * wide] = float32(0.0)
        add_inner_products(
            Matrix(slopes, begin, wide, 1), Matrix(others, 0, wide, 1), Matrix(near, 0, wide, 1),
            dim, some, wide,
        )  # fmt: skip
        add_product(
            Matrix(other_slopes, 0, wide, 1), Matrix(flat, begin, wide, 1), Matrix(near, 0, wide, 1),
            dim, some, wide,
        )  # fmt: skip
    normalise_backward(one, norms, of_one)
    normalise_backward(other, other_norms, of_other)


@noinline
def add_noisy_views(client, size, temperature, weight):
    """Add `weight` times the derivatives of InfoNCE of two views of positive items with signed noise of norm `size`.

    Parameters
    ----------
    client : KernelStep
        With proportions of the noises, float32 of shape (n_positives, 2, d), for the positives.
    """
    uniform = client.of_samples
    n = len(uniform)
    places = client.places[:: len(client.places) // n]
    shape = (len(client.items), pad_to_tile(n))
    one, other = np.empty(shape, np.float32), np.empty(shape, np.float32)
    of_one, of_other = np.empty(shape, np.float32), np.empty(shape, np.float32)
    gather_columns(client.items, places, one)
    other[:] = one
    add_signed_noise(one, uniform, 0, size)
    add_signed_noise(other, uniform, 1, size)
    info_nce_gradient(one, other, n, temperature, weight, of_one, of_other)
    scatter_add_columns(client.item_slopes, places, of_one)
    scatter_add_columns(client.item_slopes, places, of_other)
