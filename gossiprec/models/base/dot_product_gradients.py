"""Compiled derivatives of losses by scores, and gradients of models with dot products of rows as scores.

LightGCN at a client: layers on the graph of one user have a closed form. The user is linked to its n items in a batch,
by edges of weight c = 1 / sqrt(n). Let u be its row and s the sum of the items' rows times c. Then the layers of the
user are u, s, u, s ..., and the layers of each linked item after its own row v are c u, c s, c u ...; the layers of
other items are zero after their rows. Hence the means of layers are ::

    e_u = a u + b s,    e_i = q v_i + c (f u + g s) if the user has taken i,    e_j = q v_j otherwise,

with numbers that depend on the counts of even and odd layers (:func:`lightgcn_gradient`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.native.jit import inline, kernel, noinline
from gossiprec.numerics.flat_ops import (
    axpy,
    copy_range,
    dot,
    exp32,
    fill_range,
    scale_into,
)


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


def two_tower_gradient(*, in_batch: bool) -> CompiledGradient:
    """Return the gradient of a user's row against a list's items."""
    return CompiledGradient(fill_two_tower, np.array([in_batch], np.int64))


@kernel
def fill_two_tower(core, items, slopes, item_slopes, batch, shape, room):
    """Overwrite the slopes (:class:`CompiledGradient`); all places have the same scores."""
    n, dim = items.shape
    n_learnt, end = count_target_positions(batch.wanted)
    scores = np.empty(end * n, np.float32)
    for t in range(n if end else 0):
        scores[t] = dot(core, 0, items[t], 0, dim)
    for place in range(1, end):
        copy_range(scores, place * n, scores, 0, n)
    softmax_gradient(scores, n, batch.wanted, batch.others, shape[0] != 0, n_learnt, end)
    for place in range(1, end):
        axpy(scores, 0, scores, place * n, n, float32(1.0))
    fill_range(slopes, 0, dim, float32(0.0))
    for t in range(n):
        pull = scores[t] if end else float32(0.0)
        axpy(slopes, 0, items[t], 0, dim, pull)
        scale_into(item_slopes[t], 0, core, 0, dim, pull)


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


def mf_pair_gradient(*, summed: bool = False) -> CompiledGradient:
    """Return the gradient of the mean over the pairs, or of their sum."""
    return CompiledGradient(fill_mf_pairs, np.array([float(summed)]), summed=summed)


@kernel
def fill_mf_pairs(core, items, slopes, item_slopes, batch, numbers, room):
    """Overwrite the slopes (:class:`CompiledGradient`); `numbers` holds 1 for sums over the pairs, 0 for means."""
    liked, others = batch
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


def lightgcn_gradient(n_layers: int, first: int, l2: float) -> CompiledGradient:
    """Return the gradient for means of layers `first` .. `n_layers`: its numbers are a, b, q, f, g and `l2`."""
    means = range(first, n_layers + 1)
    even, odd = (len([k for k in means if k % 2 == rest]) for rest in (0, 1))
    # For items, layer 0 is the row itself; the other even layers are c s, odd ones c u.
    own = 1 if first == 0 else 0
    return CompiledGradient(
        fill_lightgcn, np.array([*(np.array([even, odd, own, odd, even - own]) / len(means)), l2])
    )


@kernel
def fill_lightgcn(core, items, slopes, item_slopes, batch, numbers, room):
    """Overwrite the slopes (:class:`CompiledGradient`)."""
    liked, others = batch
    n, dim = items.shape
    a, b, q = float32(numbers[0]), float32(numbers[1]), float32(numbers[2])
    times, taken = np.zeros(n, np.float32), np.zeros(n, np.float32)
    c = float32(1.0 / math.sqrt(_count_taken(liked, others, times, taken)))
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
def _count_taken(liked, others, times, taken):
    """Set each item's share of the pairs, and 1 for positives of any pair; return the number of these."""
    share, n_taken = float32(1.0) / float32(len(liked)), 0
    for p in range(len(liked)):
        times[liked[p]] += share
        times[others[p]] += share
        n_taken += taken[liked[p]] == float32(0.0)
        taken[liked[p]] = float32(1.0)
    return n_taken
