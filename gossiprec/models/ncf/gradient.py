"""The gradient of NCF and NeuMF, layer by layer in blocks of items; the user's half of the first is computed once.

References
----------
Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors", Nature 1986.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.native.jit import inline, kernel, noinline
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import (
    axpy,
    copy_range,
    dot,
    fill_range,
    logistic_gradient,
    relu_backward,
    relu_range,
    scale_into,
    sum_range,
)
from gossiprec.numerics.small_matmul import add_inner_products, add_product, pad_to_tile

BLOCK = 256
"""Items per block: the values between layers stay in the cache."""
STRIDE = BLOCK + 16
"""Distance between rows; with a power of two, rows would compete for the same cache lines."""


def gradient(widths: tuple[int, ...], n_factors: int = 0, *, summed: bool = False) -> CompiledGradient:
    """Return the gradient of a perceptron of these widths; the first is the width of both embeddings together.

    With factors, their products with weights are added to the logit, as in NeuMF.
    """
    layers = np.array([widths[0] // 2, *widths[1:]], np.int64)
    room = 2 * int(layers.sum()) * STRIDE + int(layers[1])
    shape = np.array([n_factors, *layers], np.int64)
    return CompiledGradient(fill, shape, room, summed, score_all_items)


@kernel
def fill(core, items, slopes, item_slopes, batch, shape, room):
    """Overwrite the slopes (:class:`CompiledGradient`).

    `shape` is the number of factors, d, the widths of hidden layers, and 1. `room` holds the values after each layer,
    one row per unit, beginning with the items' rows; then the derivatives of the loss by these values; then the user's
    contribution to each unit of the first layer.
    """
    n_factors, shape = shape[0], shape[1:]
    dim, first, n_rows = shape[0], shape[1], shape.sum()
    matrices = dim + n_factors
    values, pulls = room[: n_rows * STRIDE], room[n_rows * STRIDE : 2 * n_rows * STRIDE]
    of_user, factor_weights = room[2 * n_rows * STRIDE :], len(core) - n_factors
    for o in range(first):
        of_user[o] = dot(core, matrices + 2 * dim * o, core, 0, dim)
    slopes[:] = float32(0.0)
    for begin in range(0, items.shape[1], BLOCK):
        n = min(BLOCK, items.shape[1] - begin)
        wide = pad_to_tile(n)
        for i in range(dim):
            copy_range(values, i * STRIDE, items[i], begin, n)
            fill_range(values, i * STRIDE + n, wide - n, float32(0.0))
        logits, end = _forward(core, matrices, shape, values, of_user, wide)
        copy_range(pulls, logits, values, logits, n)
        for k in range(n_factors):
            axpy(pulls, logits, items[dim + k], begin, n, core[dim + k] * core[factor_weights + k])
        logistic_gradient(pulls, logits, batch.samples, batch.positives, begin, n)
        for k in range(n_factors):
            u, w = core[dim + k], core[factor_weights + k]
            along = dot(pulls, logits, items[dim + k], begin, n)
            slopes[dim + k] += w * along
            slopes[factor_weights + k] += u * along
            scale_into(item_slopes[dim + k], begin, pulls, logits, n, u * w)
        fill_range(pulls, logits + n, wide - n, float32(0.0))
        _backward(core, slopes, shape, values, pulls, logits, end, wide)
        for i in range(dim):
            copy_range(item_slopes[i], begin, pulls, i * STRIDE, n)
    _add_of_user(core, slopes, matrices, dim, first)


@noinline
def _forward(core, matrices, shape, values, of_user, wide):
    """Compute all layers; return the positions of the logits and of the end of the weights."""
    dim, first = shape[0], shape[1]
    at, offsets = dim * STRIDE, matrices + 2 * dim * first
    for o in range(first):
        fill_range(values, at + o * STRIDE, wide, core[offsets + o] + of_user[o])
    add_product(
        Matrix(values, at, STRIDE, 1), Matrix(core, matrices + dim, 2 * dim, 1), Matrix(values, 0, STRIDE, 1),
        first, dim, wide,
    )  # fmt: skip
    for o in range(first):
        relu_range(values, at + o * STRIDE, wide)
    return _upper_layers(core, shape, values, at, offsets + first, wide)


@inline
def _upper_layers(core, shape, values, at, weights, wide):
    """Compute the layers after the first; return the positions of the logits and of the end of the weights."""
    for k in range(2, len(shape)):
        inner, outer = shape[k - 1], shape[k]
        offsets, above = weights + outer * inner, at + inner * STRIDE
        for o in range(outer):
            fill_range(values, above + o * STRIDE, wide, core[offsets + o])
        add_product(
            Matrix(values, above, STRIDE, 1), Matrix(core, weights, inner, 1), Matrix(values, at, STRIDE, 1),
            outer, inner, wide,
        )  # fmt: skip
        for o in range(outer if k + 1 < len(shape) else 0):
            relu_range(values, above + o * STRIDE, wide)
        at, weights = above, offsets + outer
    return at, weights


@kernel
def score_all_items(users, shared, tables, found, shape):
    """Fill `found`, shape (n_users, n_items), with the logits (:attr:`CompiledGradient.score_all_items`).

    The items' half of the first layer is the same for all users and computed once.
    """
    n_factors, shape = shape[0], shape[1:]
    dim, first, n_items = shape[0], shape[1], len(tables)
    wide = pad_to_tile(n_items)
    columns, of_items = np.zeros(dim * wide, np.float32), np.empty(first * wide, np.float32)
    values = np.empty(shape.sum() * STRIDE, np.float32)
    for j in range(n_items):
        for i in range(dim):
            columns[i * wide + j] = tables[j, i]
    for o in range(first):
        fill_range(of_items, o * wide, wide, shared[2 * dim * first + o])
    add_product(
        Matrix(of_items, 0, wide, 1),
        Matrix(shared, dim, 2 * dim, 1),
        Matrix(columns, 0, wide, 1),
        first,
        dim,
        wide,
    )
    for u in range(len(users)):
        for begin in range(0, n_items, BLOCK):
            n = min(BLOCK, wide - begin)
            for o in range(first):
                of_user = dot(shared, 2 * dim * o, users[u], 0, dim)
                _add_user(values, o * STRIDE, of_items, o * wide + begin, n, of_user)
            at, _ = _upper_layers(shared, shape, values, 0, (2 * dim + 1) * first, n)
            copy_range(found[u], begin, values, at, min(n, n_items - begin))
        for k in range(n_factors):
            factor = users[u, dim + k] * shared[len(shared) - n_factors + k]
            for j in range(n_items):
                found[u, j] += factor * tables[j, dim + k]


@inline
def _add_user(values, at, others, others_at, n, of_user):
    """Set `n` values after the first layer to the items' half plus the user's, or zero."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        x = given[k] + of_user
        some[k] = float32(0.0) if x < float32(0.0) else x


@noinline
def _backward(core, slopes, shape, values, pulls, at, weights, wide):
    """Add the slopes of weights and offsets; leave the slopes of the items in the first rows of `pulls`."""
    for k in range(len(shape) - 1, 0, -1):
        inner, outer = shape[k - 1], shape[k]
        row = inner if k > 1 else 2 * inner
        weights -= outer * (row + 1)
        of_items, below = weights + row - inner, at - inner * STRIDE
        for o in range(outer):
            slopes[weights + outer * row + o] += sum_range(pulls, at + o * STRIDE, wide)
        add_inner_products(
            Matrix(slopes, of_items, row, 1), Matrix(pulls, at, STRIDE, 1), Matrix(values, below, STRIDE, 1),
            outer, inner, wide,
        )  # fmt: skip
        for i in range(inner):
            fill_range(pulls, below + i * STRIDE, wide, float32(0.0))
        add_product(
            Matrix(pulls, below, STRIDE, 1), Matrix(core, of_items, 1, row), Matrix(pulls, at, STRIDE, 1),
            inner, outer, wide,
        )  # fmt: skip
        for i in range(inner if k > 1 else 0):
            relu_backward(pulls, below + i * STRIDE, values, below + i * STRIDE, wide)
        at = below


@noinline
def _add_of_user(core, slopes, matrices, dim, first):
    """Set the slopes of the user's row, and of the user's half of the first layer."""
    offsets = matrices + 2 * dim * first
    for o in range(first):
        line = matrices + 2 * dim * o
        for i in range(dim):
            slopes[line + i] = slopes[offsets + o] * core[i]
            slopes[i] += slopes[offsets + o] * core[line + i]
