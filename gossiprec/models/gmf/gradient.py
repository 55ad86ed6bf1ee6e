"""The gradient of GMF: matrix factorisation with user row ``h * u``, and the derivatives by both factors."""

from __future__ import annotations

import numpy as np

from gossiprec.models.base.analytic_gradients import AnalyticGradient
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import axpy, dot, fill_range, logistic_gradient, scale_into, sum_range


def gradient(dim: int, *, summed: bool = False) -> AnalyticGradient:
    """Return the gradient for rows of `dim` numbers."""
    return AnalyticGradient(fill, np.array([dim], np.int64), summed=summed)


@kernel
def fill(core, items, slopes, item_slopes, samples, positives, shape, room):
    """Overwrite the slopes (:class:`AnalyticGradient`); the first row of `item_slopes` is used for logits.

    `core` is the user's row, the weight h, and the bias.
    """
    dim, n = items.shape
    logits = item_slopes[0]
    fill_range(logits, 0, n, core[2 * dim])
    for i in range(dim):
        axpy(logits, 0, items[i], 0, n, core[i] * core[dim + i])
    logistic_gradient(logits, 0, samples, positives, 0, n)
    slopes[2 * dim] = sum_range(logits, 0, n)
    for i in range(dim - 1, -1, -1):
        along = dot(logits, 0, items[i], 0, n)
        slopes[i], slopes[dim + i] = along * core[dim + i], along * core[i]
        scale_into(item_slopes[i], 0, logits, 0, n, core[i] * core[dim + i])
