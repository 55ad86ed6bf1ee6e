"""What gradients of sequences share, compiled: whose places are learnt, and how their scores are pulled."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.native.jit import inline, noinline
from gossiprec.numerics.exponential import exp32


@noinline
def count_target_positions(wanted):
    """Return how many places have an item to learn, and how many there are up to the last of these."""
    n_learnt, end = 0, 0
    for place in range(len(wanted)):
        if wanted[place] >= 0:
            n_learnt += 1
            end = place + 1
    return n_learnt, end


@noinline
def softmax_gradient(scores, n_items, wanted, others, in_batch, n_learnt, end):
    """Turn scores into the derivatives by them of the mean cross-entropy over `n_learnt` places.

    Parameters
    ----------
    scores : ndarray of float32, flat, shape (end * n_items,)
        Of all touched items at each place.
    wanted, others, in_batch
        Of :attr:`gossiprec.models.base.analytic_gradients.SequenceGradient.fill`.
    """
    counted, added = np.zeros(n_items, np.float32), np.empty(others.shape[1], np.int32)
    apart = len(others) > 1
    for other in others[0]:
        if other >= 0 and not apart:
            counted[other] = float32(1.0)
    for item in wanted[: end if in_batch else 0]:
        if item >= 0:
            counted[item] = float32(1.0)
    share = float32(1.0) / float32(max(n_learnt, 1))
    for place in range(end):
        row, item = scores[place * n_items : (place + 1) * n_items], wanted[place]
        if item < 0:
            row[:] = float32(0.0)
            continue
        n_added = 0
        if apart:
            n_added = _count(others[place], counted, added)
        before, counted[item] = counted[item], float32(1.0)
        _pull(row, counted, share)
        row[item] -= share
        counted[item] = before
        for k in range(n_added):
            counted[added[k]] = float32(0.0)


@inline
def _count(others, counted, added):
    """Let items count that do not yet; set `added` to them and return how many they are."""
    n_added = 0
    for other in others:
        if other >= 0 and counted[other] == float32(0.0):
            counted[other] = float32(1.0)
            added[n_added] = other
            n_added += 1
    return n_added


@inline
def _pull(scores, counted, share):
    """Turn scores into the shares that items counted (1, others 0) have of the sum of their exponentials."""
    most = float32(-np.inf)
    for k in range(len(scores)):
        x = scores[k] if counted[k] > float32(0.0) else float32(-np.inf)
        most = x if x > most else most
    total = float32(0.0)
    for k in range(len(scores)):
        x = exp32(scores[k] - most) * counted[k]
        scores[k] = x
        total += x
    factor = share / total
    for k in range(len(scores)):
        scores[k] *= factor
