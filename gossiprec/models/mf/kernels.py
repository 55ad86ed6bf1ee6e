"""The gradients of matrix factorisation, by the rows of items and of the user, over labelled items and over pairs."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import AnalyticGradient, PairGradient
from gossiprec.models.base.loss_kernels import bpr_gradient
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import axpy, dot, fill_range, logistic_gradient, scale_into


def gradient(dim: int, *, summed: bool = False) -> AnalyticGradient:
    """Return the gradient for rows of `dim` numbers."""
    return AnalyticGradient(fill, np.array([dim], np.int64), summed=summed)


@kernel
def fill(core, items, slopes, item_slopes, samples, positives, shape, room):
    """Overwrite the slopes (:class:`AnalyticGradient`); the first row of `item_slopes` is used for logits."""
    dim, n = items.shape
    logits = item_slopes[0]
    fill_range(logits, 0, n, float32(0.0))
    for i in range(dim):
        axpy(logits, 0, items[i], 0, n, core[i])
    logistic_gradient(logits, 0, samples, positives, 0, n)
    for i in range(dim - 1, -1, -1):
        slopes[i] = dot(logits, 0, items[i], 0, n)
        scale_into(item_slopes[i], 0, logits, 0, n, core[i])


def pair_gradient(*, summed: bool = False) -> PairGradient:
    """Return the gradient of the mean over the pairs, or of their sum."""
    return PairGradient(fill_pairs, np.array([float(summed)]))


@kernel
def fill_pairs(core, items, slopes, item_slopes, liked, others, numbers):
    """Overwrite the slopes (:class:`PairGradient`); `numbers` holds 1 for the sum over the pairs, 0 for their mean."""
    n, dim = items.shape
    scores, pulls = np.empty(n, np.float32), np.empty(n, np.float32)
    for t in range(n):
        scores[t] = dot(core, 0, items[t], 0, dim)
    bpr_gradient(scores, liked, others, pulls)
    if numbers[0]:
        pulls *= float32(len(liked))
    fill_range(slopes, 0, dim, float32(0.0))
    for t in range(n):
        axpy(slopes, 0, items[t], 0, dim, pulls[t])
        scale_into(item_slopes[t], 0, core, 0, dim, pulls[t])
