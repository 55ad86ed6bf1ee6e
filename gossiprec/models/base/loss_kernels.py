"""Shared compiled parts of the gradients of pairs and of sequences: the derivatives of losses by scores."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.native.jit import inline, noinline
from gossiprec.numerics.flat_ops import exp32, fill_range


@noinline
def count_target_positions(wanted):
    """Return the number of places with an item to learn, and the number of places up to the last of them."""
    n_learnt, end = 0, 0
    for place in range(len(wanted)):
        if wanted[place] >= 0:
            n_learnt += 1
            end = place + 1
    return n_learnt, end


@noinline
def softmax_gradient(scores, n_items, wanted, others, in_batch, n_learnt, end):
    """Replace scores by the derivatives, by them, of the mean cross-entropy over `n_learnt` places.

    Parameters
    ----------
    scores : ndarray of float32, flat, shape (end * n_items,)
        Scores of all touched items at each place.
    wanted, others, in_batch
        As in :class:`gossiprec.models.base.kernel_interface.SequenceBatch`.
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
    """Mark items that do not count yet as counted; set `added` to them and return their number."""
    n_added = 0
    for other in others:
        if other >= 0 and counted[other] == float32(0.0):
            counted[other] = float32(1.0)
            added[n_added] = other
            n_added += 1
    return n_added


@inline
def _pull(scores, counted, share):
    """Replace scores by the softmax over counted items (1 if counted, else 0), times `share`."""
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


@inline
def bpr_gradient(scores, liked, others, pulls):
    """Overwrite `pulls` with the derivatives, by scores z, of the mean BPR loss of pairs (i, j).

    The loss of a pair is ``-log sigmoid(z_i - z_j)``.

    Parameters
    ----------
    scores, pulls : ndarray of float32, shape (n_items,)
    liked, others : ndarray of int32, shape (n_pairs,)
        i and j.
    """
    share = float32(1.0) / float32(len(liked))
    fill_range(pulls, 0, len(pulls), float32(0.0))
    for p in range(len(liked)):
        i, j = liked[p], others[p]
        slope = share / (float32(1.0) + exp32(scores[i] - scores[j]))
        pulls[i] -= slope
        pulls[j] += slope
