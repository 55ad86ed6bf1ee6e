"""Shared compiled part of pairwise gradients: the derivatives by scores."""

from __future__ import annotations

from numpy import float32

from gossiprec.native.jit import inline
from gossiprec.numerics.flat_ops import exp32, fill_range


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
