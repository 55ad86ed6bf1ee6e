"""What a client's full batch takes besides matrix products, compiled: its samples, item by item, and Adam's step."""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.numerics.jit import NO_DENORMALS, kernel, swap_float_mode
from gossiprec.numerics.sampling import sample_negatives


@kernel
def draw_items(positives, member, node, update, negatives, seed, drawn, counts, touched, samples, labels):
    """Draw the samples of a local update; return how many items are in them.

    Parameters
    ----------
    positives : ndarray of int32
    member : ndarray of uint8
        See :class:`gossiprec.feeds.base.Feed`.
    drawn : ndarray of int32, shape (n_samples,)
        Room for the samples.
    counts : ndarray of int32, shape (n_items,)
        Zeros, as they are left.
    touched : ndarray of int32; samples, labels : ndarray of float32, shape (at least n_samples,)
        Filled with the items, ascending; each item's share of the samples, and that of its positive ones.
    """
    n_samples, n_items = len(positives) * (1 + negatives), len(counts)
    sample_negatives(positives, member, n_items, node, update, negatives, seed, drawn)
    for s in range(n_samples):
        counts[drawn[s]] += 1
    share = float32(1.0) / float32(n_samples)
    n_touched = 0
    for item in range(n_items):
        if counts[item]:
            touched[n_touched] = item
            samples[n_touched] = float32(counts[item]) * share
            is_positive = member[item >> 3] >> np.uint8(item & 7) & 1
            labels[n_touched] = samples[n_touched] if is_positive else float32(0.0)
            n_touched += 1
            counts[item] = 0
    return n_touched


@kernel
def step_adam(values, slopes, first, second, step, rate, beta1, beta2, epsilon):
    """Take step number `step` (from 1) of torch.optim.Adam, in place."""
    mode = swap_float_mode(NO_DENORMALS)
    # differences in double precision: 1 - 0.999 has few bits in single
    one, rest1 = float32(beta1), float32(1.0 - beta1)
    two, rest2 = float32(beta2), float32(1.0 - beta2)
    now, least = float32(rate / (1.0 - beta1**step)), float32(epsilon)
    correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
    for k in range(len(values)):
        g = slopes[k]
        m = one * first[k] + rest1 * g
        v = two * second[k] + rest2 * g * g
        first[k], second[k] = m, v
        values[k] -= now * m / (np.sqrt(v) * correction + least)
    swap_float_mode(mode)
