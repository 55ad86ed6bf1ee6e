"""The gradient of NCF, layer by layer in blocks of items; the user's half of the first layer is computed once.

References
----------
Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors", Nature 1986.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import AnalyticGradient
from gossiprec.native.jit import kernel, noinline
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import (
    copy_range,
    dot,
    fill_range,
    logistic_gradient,
    relu_backward,
    relu_range,
    sum_range,
)
from gossiprec.numerics.small_matmul import add_inner_products, add_product, pad_to_tile

BLOCK = 256
"""Items per block: the values between layers stay in the cache."""
STRIDE = BLOCK + 16
"""Distance between rows; with a power of two, rows would compete for the same cache lines."""


def gradient(widths: tuple[int, ...], *, summed: bool = False) -> AnalyticGradient:
    """Return the gradient of a perceptron of these widths; the first is the width of both embeddings together."""
    shape = np.array([widths[0] // 2, *widths[1:]], np.int64)
    return AnalyticGradient(fill, shape, 2 * int(shape.sum()) * STRIDE + int(shape[1]), summed)


@kernel
def fill(core, items, slopes, item_slopes, samples, positives, shape, room):
    """Overwrite the slopes (:class:`AnalyticGradient`); `shape` is d, the widths of hidden layers, and 1.

    `room` holds the values after each layer, one row per unit, beginning with the items' rows; then the derivatives
    of the loss by these values; then the user's contribution to each unit of the first layer.
    """
    dim, first, n_rows = shape[0], shape[1], shape.sum()
    values, pulls = room[: n_rows * STRIDE], room[n_rows * STRIDE : 2 * n_rows * STRIDE]
    of_user = room[2 * n_rows * STRIDE :]
    for o in range(first):
        of_user[o] = dot(core, dim + 2 * dim * o, core, 0, dim)
    slopes[:] = float32(0.0)
    for begin in range(0, items.shape[1], BLOCK):
        n = min(BLOCK, items.shape[1] - begin)
        wide = pad_to_tile(n)
        for i in range(dim):
            copy_range(values, i * STRIDE, items[i], begin, n)
            fill_range(values, i * STRIDE + n, wide - n, float32(0.0))
        logits, end = _forward(core, shape, values, of_user, wide)
        copy_range(pulls, logits, values, logits, n)
        logistic_gradient(pulls, logits, samples, positives, begin, n)
        fill_range(pulls, logits + n, wide - n, float32(0.0))
        _backward(core, slopes, shape, values, pulls, logits, end, wide)
        for i in range(dim):
            copy_range(item_slopes[i], begin, pulls, i * STRIDE, n)
    _add_of_user(core, slopes, dim, first)


@noinline
def _forward(core, shape, values, of_user, wide):
    """Compute all layers; return the positions of the logits and of the end of the weights."""
    at, weights = 0, shape[0]
    for k in range(1, len(shape)):
        inner, outer = shape[k - 1], shape[k]
        row = inner if k > 1 else 2 * inner
        offsets, above = weights + outer * row, at + inner * STRIDE
        for o in range(outer):
            offset = core[offsets + o] + (float32(0.0) if k > 1 else of_user[o])
            fill_range(values, above + o * STRIDE, wide, offset)
        of_items = weights + row - inner  # for the first layer, the items' half
        add_product(
            Matrix(values, above, STRIDE, 1), Matrix(core, of_items, row, 1), Matrix(values, at, STRIDE, 1),
            outer, inner, wide,
        )  # fmt: skip
        for o in range(outer if k + 1 < len(shape) else 0):
            relu_range(values, above + o * STRIDE, wide)
        at, weights = above, offsets + outer
    return at, weights


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
def _add_of_user(core, slopes, dim, first):
    """Set the slopes of the user's row, and of the user's half of the first layer."""
    offsets = dim + 2 * dim * first
    for o in range(first):
        line = dim + 2 * dim * o
        for i in range(dim):
            slopes[line + i] = slopes[offsets + o] * core[i]
            slopes[i] += slopes[offsets + o] * core[line + i]
