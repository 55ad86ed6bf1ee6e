"""Compiled GMF for observers: scores of kept rows, fits of user rows, and ranks of victims that withhold theirs.

Every adversary scores every such victim with its own user row: n_victims x n_adversaries models. Against all other
items, ``standardized`` needs only moments of the item rows, and ``ndcg`` only the best few references.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy import float32

from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.kernel_interface import FIT_NEGATIVES, FIT_RATE, FIT_STEPS
from gossiprec.models.gmf.kernels import logit
from gossiprec.native.jit import NO_DENORMALS, borrow, inline, kernel, length, noinline, swap_float_mode
from gossiprec.numerics.draw_kernels import sample_negatives
from gossiprec.numerics.lazy_adam import step_vector
from gossiprec.numerics.relevance import MEMBERS, NDCG, STANDARDIZED
from gossiprec.numerics.relevance_kernels import (
    FLAT,
    GAINS,
    SCRATCH,
    compute_relevance,
    entropy,
    nan_to_lowest,
)

CLASSES = 1024
"""Number of classes into which items are sorted by their scores for all adversaries, to find the best ones first."""


class LossRecipe(NamedTuple):
    """Whether the loss is the sum over its samples, not their mean."""

    summed: bool


@borrow
def score_kept_rows(vector, user, user_at, shared, shared_at, queries, dim, scores):
    """Fill `scores` from a kept vector ``[user | items | h | b]``, with any user row and shared weights.

    All kept items are scored, in the same order. The `dim` numbers after the scores are working memory.
    """
    mixed = scores[len(queries.items) : len(queries.items) + dim]
    for k in range(dim):
        mixed[k] = user[user_at + k] * shared[shared_at + k]
    bias = shared[shared_at + dim]
    for j in range(len(queries.items)):
        item = vector[(1 + j) * dim : (2 + j) * dim]
        z = float32(0.0)
        for k in range(dim):
            z += mixed[k] * item[k]
        scores[j] = z + bias


@noinline
def fit_user(a, rows, row, now, state, recipe, sizes):
    """Fit adversary a's user row to its targets by Adam, with the item table and shared weights of a version frozen."""
    _, users, starts, due, n_fits, refit_every, adversaries, samples = state
    offsets, all_positives, member, seed = samples
    dim, n_items = length(sizes.dims), sizes.n_items
    begin = sizes.n_users * dim
    shared = begin + n_items * dim
    node = adversaries[a]
    positives = all_positives[offsets[node] : offsets[node + 1]]
    n = len(positives) * (1 + FIT_NEGATIVES)
    items = np.empty(n, np.int32)
    sample_negatives(positives, member[node], n_items, node, n_fits[a], FIT_NEGATIVES, seed, items)
    features, error = np.empty((n, dim), float32), np.empty(n, float32)
    for s in range(n):
        for k in range(dim):
            features[s, k] = rows[row + begin + items[s] * dim + k] * rows[row + shared + k]
    bias = rows[row + shared + dim]
    user, m, v = users[a], np.zeros(dim), np.zeros(dim)
    for k in range(dim):
        user[k] = starts[a, k]
    gradient = np.empty(dim)
    for step in range(1, FIT_STEPS + 1 if n else 1):
        for s in range(n):
            z = bias
            for k in range(dim):
                z += features[s, k] * user[k]
            error[s] = -z
        for s in range(n):
            error[s] = float32(1.0) / (float32(1.0) + np.exp(error[s]))
        for s in range(0, n, 1 + FIT_NEGATIVES):
            error[s] -= float32(1.0)
        for k in range(dim):
            gradient[k] = 0.0
        for s in range(n):
            for k in range(dim):
                gradient[k] += error[s] * features[s, k]
        step_vector(user, m, v, gradient, 1 if recipe.summed else n, step, FIT_RATE)
    n_fits[a] += 1
    due[a] = now + refit_every


@borrow
def mix_fictive(victims, a, theta, shared, mixed):
    """Fill `mixed` with adversary a's user row times shared weights, its own or the victim's; return the bias."""
    shared_of, user, dim = victims.shared_of, victims.users[a], len(mixed)
    for k in range(dim):
        mixed[k] = user[k] * (shared_of[a, k] if len(shared_of) else theta[shared + k])
    return shared_of[a, dim] if len(shared_of) else theta[shared + dim]


@borrow
def item_moments(theta, begin, shared, dim, centre, second):
    """Fill `centre` and `second` with the mean of the item rows and the sum of their centred outer products."""
    n_items = (shared - begin) // dim
    for k in range(dim):
        centre[k] = 0.0
        for other in range(dim):
            second[k, other] = 0.0
    for item in range(n_items):
        for k in range(dim):
            centre[k] += theta[begin + item * dim + k]
    for k in range(dim):
        centre[k] /= n_items
    for item in range(n_items):
        low = begin + item * dim
        for k in range(dim):
            away = theta[low + k] - centre[k]
            for other in range(k + 1):
                second[k, other] += away * (theta[low + other] - centre[other])
    for k in range(dim):
        for other in range(k):
            second[other, k] = second[k, other]


@borrow
def standardized_among_all(scores, bias, mixed, n_items, dim, centre, second):
    """Return ``standardized`` of target scores against all other items, from the moments of the items.

    Scores are linear in the item rows: with y the scores minus their mean over all items, the references' sums of y
    and y^2 are the sums over all items, 0 and ``mixed' second mixed``, minus the sums over the targets.
    """
    middle, squares = 0.0, 0.0
    for k in range(dim):
        middle += mixed[k] * centre[k]
        for other in range(dim):
            squares += mixed[k] * second[k, other] * mixed[other]
    own, own_squares = 0.0, 0.0
    for score in scores:
        y = (score - bias) - middle
        own += y
        own_squares += y * y
    n_references = n_items - len(scores)
    rest = -own / n_references
    spread = squares - own_squares - n_references * rest * rest
    if np.isnan(squares):
        return squares
    if spread <= max(1e-12 * squares, FLAT * (middle + rest + bias) ** 2):
        return 0.0
    return (own / len(scores) - rest) / math.sqrt(spread / n_references)


@inline
def build_column_table(theta, begin, dim, users, weights, table, place):
    """Fill `table` with the item rows as columns, beginning with the best by the mean of the user rows.

    `place` is each item's column. The best references then come early, and most later ones are skipped; so their
    order need not be exact, and they are counted into classes of similar scores instead of being sorted.
    """
    n_items = table.shape[1]
    mean, worth = np.zeros(dim, float32), np.empty(n_items, float32)
    low, high = float32(np.inf), float32(-np.inf)
    for a in range(len(users)):
        for k in range(dim):
            mean[k] += users[a, k] * weights[k]
    for item in range(n_items):
        worth[item] = float32(0.0)
        for k in range(dim):
            worth[item] += mean[k] * theta[begin + item * dim + k]
        low, high = min(low, worth[item]), max(high, worth[item])
    scale = float32(CLASSES - 1) / (high - low)
    start = np.zeros(CLASSES + 1, np.int64)
    for item in range(n_items):
        down = (high - worth[item]) * scale
        place[item] = np.int64(down) if 0.0 <= down < CLASSES else CLASSES - 1
        start[place[item] + 1] += 1
    for c in range(CLASSES):
        start[c + 1] += start[c]
    for item in range(n_items):
        c = place[item]
        place[item] = start[c]
        start[c] += 1
        for k in range(dim):
            table[k, place[item]] = theta[begin + item * dim + k]


@borrow
def ndcg_among_all(targets, table, place, mixed, bias, own, scores, best):
    """Return ``ndcg`` of the targets against all other items; `own`, all False, marks their columns temporarily."""
    for item in targets:
        own[place[item]] = True
    for j in range(len(scores)):
        scores[j] = bias
    for k in range(len(mixed)):
        weight, column = mixed[k], table[k]
        for j in range(len(scores)):
            scores[j] += weight * column[j]
    count, least = 0, float32(-np.inf)
    for j in range(len(scores)):
        score = scores[j]
        if (score > least or count < CUTOFF) and not own[j]:
            rank = count if count < CUTOFF else CUTOFF - 1
            while rank > 0 and best[rank - 1] < score:
                best[rank] = best[rank - 1]
                rank -= 1
            best[rank] = score
            count = min(count + 1, CUTOFF)
            if count == CUTOFF:
                least = best[CUTOFF - 1]
    total = 0.0
    for item in targets:
        own[place[item]] = False
        score = scores[place[item]]
        if count < CUTOFF or score > best[CUTOFF - 1]:
            rank = 0
            while rank < count and not best[rank] < score:
                rank += 1
            if rank < CUTOFF:
                total += GAINS[rank]
    return total / len(targets)


@kernel
def rank_hidden_victims(victims, asked, latest, sizes):
    """Fill ``latest[rule, target set, victim]`` with the relevance of the victims to the adversaries' user rows."""
    mode = swap_float_mode(NO_DENORMALS)
    dim, n_items, offsets, rules = length(sizes.dims), sizes.n_items, asked.offsets, asked.rules
    begin = sizes.n_users * dim
    shared = begin + n_items * dim
    centre, second = np.empty(dim), np.empty((dim, dim))
    table, mixed, scratch = (
        np.empty((dim, n_items), float32),
        np.empty(dim, float32),
        np.empty(SCRATCH, float32),
    )
    picked, scores = np.empty(n_items, float32), np.empty(n_items, float32)
    place, marks = np.empty(n_items, np.int64), np.zeros(n_items, np.bool_)
    for v in range(len(victims.ids)):
        victim, theta = victims.ids[v], victims.rows[victims.row[v]]
        item_moments(theta, begin, shared, dim, centre, second)
        sound = True
        for value in theta[begin:shared]:
            sound &= np.isfinite(value)
        if (rules == NDCG).any():
            build_column_table(theta, begin, dim, victims.users, theta[shared : shared + dim], table, place)
        for a in range(len(asked.n_targets)):
            bias = mix_fictive(victims, a, theta, shared, mixed)
            kept, n_own = asked.items[offsets[a] : offsets[a + 1]], asked.n_targets[a]
            brief = len(kept) == n_items and sound
            n = n_own if brief else len(kept)
            for j in range(n):
                picked[j] = logit(mixed, bias, theta, begin + kept[j] * dim, dim)
            if rules[0] == MEMBERS:
                for j in range(n_own):
                    picked[j] = entropy(picked[j])
            own = picked[:n_own]
            for r in range(len(rules)):
                if brief and rules[r] == STANDARDIZED:
                    value = standardized_among_all(own, bias, mixed, n_items, dim, centre, second)
                    latest[r, a, victim] = nan_to_lowest(value)
                elif brief and rules[r] == NDCG:
                    latest[r, a, victim] = ndcg_among_all(
                        kept[:n_own], table, place, mixed, bias, marks, scores, scratch
                    )
                else:
                    latest[r, a, victim] = compute_relevance(
                        rules[r], asked.thresholds[r], own, picked[n_own:n], scratch
                    )
    swap_float_mode(mode)


@kernel
def hidden_victim_entropies(victims, a, kept, sizes, out):
    """Fill `out`, (n_victims, n_kept), with the entropies of some items by the victims' items and a's user row."""
    dim = length(sizes.dims)
    begin = sizes.n_users * dim
    shared = begin + sizes.n_items * dim
    mixed = np.empty(dim, float32)
    for v in range(len(victims.row)):
        theta = victims.rows[victims.row[v]]
        bias = mix_fictive(victims, a, theta, shared, mixed)
        for j in range(len(kept)):
            out[v, j] = entropy(logit(mixed, bias, theta, begin + kept[j] * dim, dim))
