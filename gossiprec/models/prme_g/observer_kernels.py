"""Compiled PRME-G for observers: adversaries score moves between places.

Rows are flat, as float32 or as the bits of float16; rows that observers keep are float32. `weights` has the weights
of the two squared distances in D (CDA paper, eq. 2) for every queried move; a score is ``-D``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.base.arrays import F32, I32
from gossiprec.models.base.kernel_interface import FIT_NEGATIVES, FIT_RATE, FIT_STEPS
from gossiprec.models.prme_g.kernels import distance_weights, squared_distance
from gossiprec.native.jit import NO_DENORMALS, inline, kernel, length, load_float32, noinline, swap_float_mode
from gossiprec.numerics.draw_kernels import sample_negatives
from gossiprec.numerics.lazy_adam import step_vector
from gossiprec.numerics.merge import widen_row
from gossiprec.numerics.relevance_kernels import SCRATCH, compute_relevance


@inline
def stored_squared_distance(rows, one, other, dim):
    """Return the squared distance of the stored vectors at `one` and `other`."""
    total = float32(0.0)
    for j in range(dim):
        gap = load_float32(rows[uint64(one) + uint64(j)]) - load_float32(rows[uint64(other) + uint64(j)])
        total += gap * gap
    return total


@inline
def user_squared_distance(rows, at, user, dim):
    """Return the squared distance of the stored vector at `at` and a user row."""
    total = float32(0.0)
    for j in range(dim):
        gap = load_float32(rows[uint64(at) + uint64(j)]) - user[uint64(j)]
        total += gap * gap
    return total


class MoveRecipe(NamedTuple):
    """The previous items of the adversaries' moves, the places of items, and the options of the loss."""

    previous: I32
    places: F32
    alpha: np.float32
    l2: float
    mean: bool


@inline
def score_kept_rows(vector, user, user_at, shared, shared_at, queries, recipe, sizes, scores):
    """Fill `scores` for moves among the kept rows ``[user | P S | P S ...]``, with any user row."""
    asked, contexts, weights, _ = queries
    dim = length(sizes.dims)
    for s in range(len(asked)):
        at = dim + asked[s] * 2 * dim
        distance = weights[s, 0] * squared_distance(vector, at, user, user_at, dim)
        if contexts[s] >= 0:
            before = 2 * dim + contexts[s] * 2 * dim
            distance += weights[s, 1] * squared_distance(vector, at + dim, vector, before, dim)
        scores[s] = -distance


@noinline
def transition_squared_distance(rows, table, item, before, dim):
    """Return the squared distance of two items of a stored table in the sequence space; 0 without a previous visit."""
    total = 0.0
    if before >= 0:
        one, other = table + np.int64(item) * 2 * dim + dim, table + np.int64(before) * 2 * dim + dim
        for k in range(dim):
            gap = load_float32(rows[uint64(one + k)]) - load_float32(rows[uint64(other + k)])
            total += gap * gap
    return total


@noinline
def fit_user(a, rows, row, now, state, recipe, sizes):
    """Fit adversary a's user row to its moves by Adam, with the item tables of the version at `row` frozen.

    Only the preference space involves the user: the sequence space's part of a sample's difference is constant.
    """
    _, users, starts, due, n_fits, refit_every, adversaries, samples = state
    offsets, all_items, member, seed = samples
    previous, places, alpha, l2, mean = recipe
    dim, n_items = length(sizes.dims), sizes.n_items
    begin = sizes.n_users * dim
    node = adversaries[a]
    mine, before = all_items[offsets[node] : offsets[node + 1]], previous[offsets[node] : offsets[node + 1]]
    n, width = len(mine) * FIT_NEGATIVES, 1 + FIT_NEGATIVES
    items = np.empty(len(mine) * width, np.int32)
    sample_negatives(mine, member[node], n_items, node, n_fits[a], FIT_NEGATIVES, seed, items)
    features, pairs = np.empty((len(items), dim), float32), np.empty((n, 3))
    for s in range(len(items)):
        for k in range(dim):
            features[s, k] = load_float32(rows[uint64(row + begin + np.int64(items[s]) * 2 * dim + k)])
    for move in range(len(mine)):
        first = move * width
        near, step = distance_weights(places, items[first], before[move], alpha)
        come = transition_squared_distance(rows, row + begin, items[first], before[move], dim)
        for q in range(FIT_NEGATIVES):
            far, leap = distance_weights(places, items[first + 1 + q], before[move], alpha)
            gone = transition_squared_distance(rows, row + begin, items[first + 1 + q], before[move], dim)
            s = move * FIT_NEGATIVES + q
            pairs[s, 0], pairs[s, 1], pairs[s, 2] = near, far, leap * gone - step * come
    user, m, v, gradient = users[a], np.zeros(dim), np.zeros(dim), np.empty(dim)
    gaps = np.empty(len(items))
    for k in range(dim):
        user[k] = starts[a, k]
    for step in range(1, FIT_STEPS + 1 if n else 1):
        for s in range(len(items)):
            total = 0.0
            for k in range(dim):
                total += (features[s, k] - user[k]) ** 2
            gaps[s] = total
        for k in range(dim):
            gradient[k] = n * l2 * user[k]
        for s in range(n):
            at, other = s // FIT_NEGATIVES * width, s + s // FIT_NEGATIVES + 1
            near, far = pairs[s, 0], pairs[s, 1]
            slope = 2.0 / (1.0 + math.exp(far * gaps[other] - near * gaps[at] + pairs[s, 2]))
            for k in range(dim):
                pull = near * (user[k] - features[at, k]) - far * (user[k] - features[other, k])
                gradient[k] += slope * pull
        step_vector(user, m, v, gradient, n if mean else 1, step, FIT_RATE)
    n_fits[a] += 1
    due[a] = now + refit_every


@kernel
def rank_victims(victims, asked, latest, sizes):
    """Fill ``latest[rule, adversary, victim]`` for victims with models ``rows[row]``; `rows` is flat.

    A victim that withholds its user row is scored with each adversary's row of `users`.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim, rows, users = length(sizes.dims), victims.rows, victims.users
    items, contexts, weights = asked.items, asked.contexts, asked.weights
    begin, longest = sizes.n_users * dim, 0
    for a in range(len(asked.n_targets)):
        longest = max(longest, asked.offsets[a + 1] - asked.offsets[a])
    scores, scratch, user = np.empty(longest, float32), np.empty(SCRATCH, float32), np.empty(dim, float32)
    near = np.empty(sizes.n_items, float32)
    for v in range(len(victims.ids)):
        victim, low = victims.ids[v], np.int64(victims.row[v]) * sizes.width
        hidden, table = victims.hides[victim], low + begin
        if not hidden:
            widen_row(user, 0, rows, low + (0 if sizes.n_users == 1 else victim * dim), dim)
            for item in range(sizes.n_items):
                near[item] = user_squared_distance(rows, table + item * 2 * dim, user, dim)
        for a in range(len(asked.n_targets)):
            first, n = asked.offsets[a], asked.n_targets[a]
            count = asked.offsets[a + 1] - first
            for s in range(count):
                item, before = np.int64(items[first + s]), np.int64(contexts[first + s])
                at = table + item * 2 * dim
                gap = user_squared_distance(rows, at, users[a], dim) if hidden else near[item]
                distance = weights[first + s, 0] * gap
                if before >= 0:
                    start = table + before * 2 * dim + dim
                    distance += weights[first + s, 1] * stored_squared_distance(rows, at + dim, start, dim)
                scores[s] = -distance
            for r in range(len(asked.rules)):
                latest[r, a, victim] = compute_relevance(
                    asked.rules[r], float32(0.0), scores[:n], scores[n:count], scratch
                )
    swap_float_mode(mode)
