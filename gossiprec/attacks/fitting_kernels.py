"""Fitting fictive users, compiled, for GMF.

The state of the fictive users is a tuple (see :meth:`gossiprec.attacks.fictive.FictiveUsers.kernel_state`):
``(own, users, start, due, n_fits, refit_every, adversaries, offsets, positives, member, seed)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.attacks.fictive import NEGATIVES, RATE, STEPS
from gossiprec.numerics.jit import NO_DENORMALS, kernel, outline, swap_float_mode
from gossiprec.numerics.sampling import sample_negatives


@outline
def fit_user(a, theta, begin, shared, now, state, dim):
    """Fit adversary a's user row to its targets by Adam, with the item table and shared weights of a version frozen."""
    _, users, starts, due, n_fits, refit_every, adversaries, offsets, all_positives, member, seed = state
    node = adversaries[a]
    positives = all_positives[offsets[node] : offsets[node + 1]]
    n = len(positives) * (1 + NEGATIVES)
    items = np.empty(n, np.int32)
    sample_negatives(
        positives, member[node], (shared - begin) // dim, node, n_fits[a], NEGATIVES, seed, items
    )
    features, error = np.empty((n, dim), float32), np.empty(n, float32)
    for s in range(n):
        for k in range(dim):
            features[s, k] = theta[begin + items[s] * dim + k] * theta[shared + k]
    bias = theta[shared + dim]
    user, m, v = users[a], np.zeros(dim), np.zeros(dim)
    for k in range(dim):
        user[k] = starts[a, k]
    gradient = np.empty(dim)
    for step in range(1, STEPS + 1 if n else 1):
        for s in range(n):
            z = bias
            for k in range(dim):
                z += features[s, k] * user[k]
            error[s] = -z
        for s in range(n):
            error[s] = float32(1.0) / (float32(1.0) + np.exp(error[s]))
        for s in range(0, n, 1 + NEGATIVES):
            error[s] -= float32(1.0)
        for k in range(dim):
            gradient[k] = 0.0
        for s in range(n):
            for k in range(dim):
                gradient[k] += error[s] * features[s, k]
        for k in range(dim):
            g = gradient[k] / n
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            away = math.sqrt(v[k] / (1.0 - 0.999**step)) + 1e-8
            user[k] -= RATE * m[k] / (1.0 - 0.9**step) / away
    n_fits[a] += 1
    due[a] = now + refit_every


@kernel
def fit_users(rows, row_of, late, now, n_items, n_users, state, dims):
    """Fit the user rows of some adversaries, adversary a's with version ``row_of[a]``."""
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    for a in late:
        fit_user(a, rows[row_of[a]], begin, begin + n_items * dim, now, state, dim)
    swap_float_mode(mode)
