"""The clipped gradients of compiled GMF, for nodes with noise (DP-SGD).

The gradient of a sample is ``e [h * v | u * h | u * v, 1]`` with e = d loss / d logit, hence its squared norm is ``e^2
(|u * h|^2 + sum_k (h_k^2 + u_k^2) v_k^2 + 1)``: no sample's gradient is ever stored.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.dp_sgd_kernels import TINY
from gossiprec.native.jit import inline, length


@inline
def add_clipped_gradients(batch, parts, space, rule, sizes, clip, options):
    """Add the batch's clipped gradients to the gradient."""
    user, table, shared = parts
    dim, negatives = length(sizes.dims), rule.negatives
    items, gradient, error, small = space.items, space.gradient, space.error, space.small
    mixed, square, pull = small[:dim], small[dim : 2 * dim], small[2 * dim : 3 * dim]
    constant, bias, total = float32(1.0), shared[dim], float32(0.0)
    for k in range(dim):
        mixed[k] = user[k] * shared[k]
        square[k] = user[k] * user[k] + shared[k] * shared[k]
        pull[k] = float32(0.0)
        constant += mixed[k] * mixed[k]
    for s in range(len(batch)):
        low = items[batch[s]] * dim
        z, norm = bias, constant
        for k in range(dim):
            x = table[low + k]
            z += mixed[k] * x
            norm += square[k] * x * x
        label = float32(1.0) if batch[s] % (1 + negatives) == 0 else float32(0.0)
        e = float32(1.0) / (float32(1.0) + np.exp(-z)) - label
        e *= min(float32(1.0), clip / (abs(e) * np.sqrt(norm) + TINY))
        error[s] = e
        total += e
        for k in range(dim):
            pull[k] += e * table[low + k]
    for s in range(len(batch)):
        low, e = (1 + items[batch[s]]) * dim, error[s]
        for k in range(dim):
            gradient[low + k] += e * mixed[k]
    begin = dim + len(table)
    for k in range(dim):
        gradient[k] += pull[k] * shared[k]
        gradient[begin + k] += pull[k] * user[k]
    gradient[begin + dim] += total
