"""The gradient of matrix factorisation over pairs: as for labelled items, with other derivatives by scores."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.analytic_gradients import PairGradient
from gossiprec.models.base.pair_kernels import bpr_gradient
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import axpy, dot, fill_range, scale_into


def gradient(*, summed: bool = False) -> PairGradient:
    """Return the gradient of the mean over the pairs, or of their sum."""
    return PairGradient(fill, np.array([float(summed)]))


@kernel
def fill(core, items, slopes, item_slopes, liked, others, numbers):
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
