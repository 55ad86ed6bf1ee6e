"""Fitting fictive users, compiled, for PRME-G.

The state of the fictive users is that of :mod:`gossiprec.attacks.fitting_kernels`, with moves in place of positives. A
recipe is ``(previous, places, alpha, l2, mean)``: where the moves began, where items are, and the options of the model.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32, uint64

from gossiprec.attacks.fictive import NEGATIVES, RATE, STEPS
from gossiprec.models.prme_g.kernels import place_weights
from gossiprec.numerics.half import widen
from gossiprec.numerics.jit import NO_DENORMALS, kernel, outline, swap_float_mode
from gossiprec.numerics.sampling import sample_negatives


@outline
def leap_square(rows, table, item, before, dim):
    """Return the squared distance of two items of a stored table in the sequence space; 0 without a visit before."""
    total = 0.0
    if before >= 0:
        one, other = table + np.int64(item) * 2 * dim + dim, table + np.int64(before) * 2 * dim + dim
        for k in range(dim):
            gap = widen(rows[uint64(one + k)]) - widen(rows[uint64(other + k)])
            total += gap * gap
    return total


@outline
def fit_mover(a, rows, row, begin, now, state, recipe, dim):
    """Fit adversary a's user row to its moves by Adam, with the item tables of the version at `row` frozen.

    Only the preference space knows the user: what the sequence space adds to a sample's difference stays.
    """
    _, users, starts, due, n_fits, refit_every, adversaries, offsets, all_items, member, seed = state
    previous, places, alpha, l2, mean = recipe
    node, n_items = adversaries[a], len(places)
    mine, before = all_items[offsets[node] : offsets[node + 1]], previous[offsets[node] : offsets[node + 1]]
    n, width = len(mine) * NEGATIVES, 1 + NEGATIVES
    items = np.empty(len(mine) * width, np.int32)
    sample_negatives(mine, member[node], n_items, node, n_fits[a], NEGATIVES, seed, items)
    features, pairs = np.empty((len(items), dim), float32), np.empty((n, 3))
    for s in range(len(items)):
        for k in range(dim):
            features[s, k] = widen(rows[uint64(row + begin + np.int64(items[s]) * 2 * dim + k)])
    for move in range(len(mine)):
        first = move * width
        near, step = place_weights(places, items[first], before[move], alpha)
        come = leap_square(rows, row + begin, items[first], before[move], dim)
        for q in range(NEGATIVES):
            far, leap = place_weights(places, items[first + 1 + q], before[move], alpha)
            gone = leap_square(rows, row + begin, items[first + 1 + q], before[move], dim)
            s = move * NEGATIVES + q
            pairs[s, 0], pairs[s, 1], pairs[s, 2] = near, far, leap * gone - step * come
    user, m, v, gradient = users[a], np.zeros(dim), np.zeros(dim), np.empty(dim)
    gaps = np.empty(len(items))
    for k in range(dim):
        user[k] = starts[a, k]
    for step in range(1, STEPS + 1 if n else 1):
        for s in range(len(items)):
            total = 0.0
            for k in range(dim):
                total += (features[s, k] - user[k]) ** 2
            gaps[s] = total
        for k in range(dim):
            gradient[k] = n * l2 * user[k]
        for s in range(n):
            at, other = s // NEGATIVES * width, s + s // NEGATIVES + 1
            near, far = pairs[s, 0], pairs[s, 1]
            slope = 2.0 / (1.0 + math.exp(far * gaps[other] - near * gaps[at] + pairs[s, 2]))
            for k in range(dim):
                pull = near * (user[k] - features[at, k]) - far * (user[k] - features[other, k])
                gradient[k] += slope * pull
        for k in range(dim):
            g = gradient[k] / n if mean else gradient[k]
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            away = math.sqrt(v[k] / (1.0 - 0.999**step)) + 1e-8
            user[k] -= RATE * m[k] / (1.0 - 0.9**step) / away
    n_fits[a] += 1
    due[a] = now + refit_every


@kernel
def fit_movers(rows, width, row_of, late, now, n_users, state, recipe, dims):
    """Fit the user rows of some adversaries, adversary a's with version ``row_of[a]``."""
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    for a in late:
        fit_mover(a, rows, np.int64(row_of[a]) * width, n_users * dim, now, state, recipe, dim)
    swap_float_mode(mode)
