"""The gradient of LightGCN at a client, over pairs: layers on the graph of one user have a closed form.

The user is linked to its n items in a batch, by edges of weight c = 1 / sqrt(n). Let u be its row and s the sum of
the items' rows times c. Then the layers of the user are u, s, u, s ..., and the layers of each linked item after its
own row v are c u, c s, c u ...; the layers of other items are zero after their rows. Hence the means of layers are ::

    e_u = a u + b s,    e_i = q v_i + c (f u + g s) if the user has taken i,    e_j = q v_j otherwise,

with numbers that depend on the counts of even and odd layers (:func:`gradient`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import PairGradient
from gossiprec.models.base.loss_kernels import bpr_gradient
from gossiprec.native.jit import kernel, noinline
from gossiprec.numerics.flat_ops import axpy, dot, scale_into


def gradient(n_layers: int, first: int, l2: float) -> PairGradient:
    """Return the gradient for means of layers `first` .. `n_layers`: its numbers are a, b, q, f, g and `l2`."""
    means = range(first, n_layers + 1)
    even, odd = (len([k for k in means if k % 2 == rest]) for rest in (0, 1))
    # For items, layer 0 is the row itself; the other even layers are c s, odd ones c u.
    own = 1 if first == 0 else 0
    return PairGradient(fill, np.array([*(np.array([even, odd, own, odd, even - own]) / len(means)), l2]))


@kernel
def fill(core, items, slopes, item_slopes, liked, others, numbers):
    """Overwrite the slopes (:class:`PairGradient`)."""
    n, dim = items.shape
    a, b, q = float32(numbers[0]), float32(numbers[1]), float32(numbers[2])
    times, taken = np.zeros(n, np.float32), np.zeros(n, np.float32)
    c = float32(1.0 / math.sqrt(_count(liked, others, times, taken)))
    f, g, l2 = c * float32(numbers[3]), c * float32(numbers[4]), float32(numbers[5])
    scores, pulls = np.empty(n, np.float32), np.empty(n, np.float32)
    rows = np.zeros((4, dim), np.float32)
    total, user, near, slope = rows[0], rows[1], rows[2], rows[3]
    for t in range(n):
        axpy(total, 0, items[t], 0, dim, c * taken[t])  # s
    for mean, of_user, of_total in ((user, a, b), (near, f, g)):
        scale_into(mean, 0, core, 0, dim, of_user)
        axpy(mean, 0, total, 0, dim, of_total)
    shared = dot(user, 0, near, 0, dim)
    for t in range(n):
        scores[t] = q * dot(user, 0, items[t], 0, dim) + taken[t] * shared
    bpr_gradient(scores, liked, others, pulls)
    of_taken = dot(pulls, 0, taken, 0, n)
    scale_into(slope, 0, near, 0, dim, of_taken)  # by e_u
    for t in range(n):
        axpy(slope, 0, items[t], 0, dim, q * pulls[t])
    scale_into(slopes, 0, slope, 0, dim, a)
    axpy(slopes, 0, user, 0, dim, f * of_taken)
    axpy(slopes, 0, core, 0, dim, l2)
    scale_into(total, 0, slope, 0, dim, b * c)  # now the slope by s, times c
    axpy(total, 0, user, 0, dim, g * of_taken * c)
    for t in range(n):
        scale_into(item_slopes[t], 0, user, 0, dim, q * pulls[t])
        axpy(item_slopes[t], 0, total, 0, dim, taken[t])
        axpy(item_slopes[t], 0, items[t], 0, dim, l2 * times[t])


@noinline
def _count(liked, others, times, taken):
    """Set each item's share of the pairs, and 1 for positives of any pair; return the number of these."""
    share, n_taken = float32(1.0) / float32(len(liked)), 0
    for p in range(len(liked)):
        times[liked[p]] += share
        times[others[p]] += share
        n_taken += taken[liked[p]] == float32(0.0)
        taken[liked[p]] = float32(1.0)
    return n_taken
