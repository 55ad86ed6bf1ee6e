"""The loops of observers for models of the template: scores of kept rows, fits of user rows, ranks and entropies.

Every adversary scores every victim that withholds its user row with its own: n_victims x n_adversaries models. If the
score is affine in the item's row (:mod:`.template_formula`), ``standardized`` against all other items needs only
moments of the item rows, and ``ndcg`` only the best few references.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, Bools
from gossiprec.measures.ranking import CUTOFF
from gossiprec.models.base.kernel_interface import FIT_NEGATIVES, FIT_RATE, FIT_STEPS
from gossiprec.models.base.template_formula import (
    ITEM,
    OF_ITEM,
    OF_SHARED,
    OF_USER,
    ROOM,
    SHARED,
    USER,
    ScoredRows,
    add_gradient,
    item_score,
    mix_rows,
    new_room,
    room_places,
    score,
    specialise_formula,
)
from gossiprec.models.base.template_kernels import fill_scores, row_places, specialise_training
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    constants,
    inline,
    length,
    noinline,
    part,
    specialise,
    swap_float_mode,
)
from gossiprec.numerics.draw_kernels import sample_negatives
from gossiprec.numerics.flat_ops import range_is_finite
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


def score_kept_rows(vector, user, user_at, shared, shared_at, queries, recipe, sizes, scores):
    """Fill `scores` from a kept vector ``[user | items | shared]``, with any user row and shared weights."""
    dim, item_dim = length(sizes.dims), length(sizes.item_dims)
    own, weights = part(user, user_at, dim, USER), part(shared, shared_at, sizes.n_shared, SHARED)
    bias = mix_rows(own, weights, queries.room, sizes, recipe)
    for j in range(len(queries.items)):
        item = part(vector, dim + np.int64(queries.items[j]) * item_dim, item_dim, ITEM)
        scores[j] = item_score(own, item, weights, bias, queries.room, sizes, recipe)


def fit_user(a, rows, row, now, state, recipe, sizes):
    """Fit adversary a's user row to its targets by Adam, with the item table and shared weights of a version frozen."""
    samples, node, dim = state.samples, state.adversaries[a], length(sizes.dims)
    item_dim, places, n_shared = length(sizes.item_dims), row_places(0, sizes), sizes.n_shared
    positives = samples.positives[samples.offsets[node] : samples.offsets[node + 1]]
    n = len(positives) * (1 + FIT_NEGATIVES)
    items, memory = np.empty(n, np.int32), np.empty(recipe.n_room, float32)
    sample_negatives(
        positives, samples.member[node], sizes.n_items, node, state.n_fits[a], FIT_NEGATIVES, samples.seed,
        items,
    )  # fmt: skip
    user, m, v, gradient = state.users[a], np.zeros(dim), np.zeros(dim), np.zeros(dim)
    slopes = np.zeros(dim + item_dim + n_shared, float32)
    of = ScoredRows(
        part(slopes, 0, dim, OF_USER), part(slopes, dim, item_dim, OF_ITEM),
        part(slopes, dim + item_dim, n_shared, OF_SHARED),
    )  # fmt: skip
    room, shape = part(memory, 0, len(memory), ROOM), constants(recipe.shape)
    for k in range(dim):
        user[k] = state.start[a, k]
    for step in range(1, FIT_STEPS + 1 if n else 1):
        slopes[:] = float32(0.0)
        for s in range(n):
            at = row + places.items + np.int64(items[s]) * item_dim
            p = ScoredRows(
                part(user, 0, dim, USER), part(rows, at, item_dim, ITEM),
                part(rows, row + places.shared, n_shared, SHARED),
            )  # fmt: skip
            error = float32(1.0) / (float32(1.0) + np.exp(-score(p, room, shape)))
            if s % (1 + FIT_NEGATIVES) == 0:
                error -= float32(1.0)
            add_gradient(p, error, of, room, shape)
        for k in range(dim):
            gradient[k] = slopes[k]
        step_vector(user, m, v, gradient, 1 if recipe.summed else n, step, FIT_RATE)
    state.n_fits[a] += 1
    state.due[a] = now + state.refit_every


class RankRoom(NamedTuple):
    """The working arrays of ranks.

    Attributes
    ----------
    room, picked, scratch
        Of the model's functions, scores of queried items, and the array of a relevance.
    mixed : ndarray of float32
        The part m of `room` (:mod:`.template_formula`).
    centre, second, table, place, marks, scores
        Moments of a victim's item rows, the rows as columns, the column of each item, marks and scores of columns; for
        affine scores only.
    """

    room: F32
    picked: F32
    scratch: F32
    mixed: F32
    centre: Any
    second: Any
    table: F32
    place: Any
    marks: Bools
    scores: F32


@inline
def new_rank_room(longest, sizes, options):
    """Return the working arrays for up to `longest` queries of an adversary."""
    room, item_dim, n_items = new_room(sizes, options), length(sizes.item_dims), sizes.n_items
    at = room_places(sizes).mixed
    return RankRoom(
        room,
        np.empty(max(longest, n_items), float32),
        np.empty(SCRATCH, float32),
        room[at : at + item_dim],
        np.empty(item_dim),
        np.empty((item_dim, item_dim)),
        np.empty((item_dim, n_items), float32),
        np.empty(n_items, np.int64),
        np.zeros(n_items, np.bool_),
        np.empty(n_items, float32),
    )


@borrow
def item_moments(theta, begin, n_items, centre, second):
    """Fill `centre` and `second` with the mean of the item rows and the sum of their centred outer products."""
    dim = len(centre)
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
def standardized_among_all(scores, bias, mixed, n_items, centre, second):
    """Return ``standardized`` of target scores against all other items, from the moments of the items.

    Scores are linear in the item rows: with y the scores minus their mean over all items, the references' sums of y
    and y^2 are the sums over all items, 0 and ``mixed' second mixed``, minus the sums over the targets.
    """
    middle, squares = 0.0, 0.0
    for k in range(len(mixed)):
        middle += mixed[k] * centre[k]
        for other in range(len(mixed)):
            squares += mixed[k] * second[k, other] * mixed[other]
    own, own_squares = 0.0, 0.0
    for z in scores:
        y = (z - bias) - middle
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
def build_column_table(theta, begin, mean, table, place):
    """Fill `table` with the item rows as columns, beginning with the best by the product with `mean`.

    `place` is each item's column. With the mean over adversaries the best references come early, and most later ones
    are skipped; so their order need not be exact, and they are counted into classes of similar scores instead of being
    sorted.
    """
    dim, n_items = table.shape
    worth = np.empty(n_items, float32)
    low, high = float32(np.inf), float32(-np.inf)
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
def ndcg_among_all(targets, bias, mixed, space):
    """Return ``ndcg`` of the targets against all other items; marks are temporary."""
    table, place, own, scores, best = space.table, space.place, space.marks, space.scores, space.scratch
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
        z = scores[j]
        if (z > least or count < CUTOFF) and not own[j]:
            rank = count if count < CUTOFF else CUTOFF - 1
            while rank > 0 and best[rank - 1] < z:
                best[rank] = best[rank - 1]
                rank -= 1
            best[rank] = z
            count = min(count + 1, CUTOFF)
            if count == CUTOFF:
                least = best[CUTOFF - 1]
    total = 0.0
    for item in targets:
        own[place[item]] = False
        z = scores[place[item]]
        if count < CUTOFF or z > best[CUTOFF - 1]:
            rank = 0
            while rank < count and not best[rank] < z:
                rank += 1
            if rank < CUTOFF:
                total += GAINS[rank]
    return total / len(targets)


@borrow
def examine_victim(rows, at, victims, shared_of_victim, rules, space, sizes, options):
    """Prepare nothing: each query is scored. Return False."""
    return False


def examine_affine_victim(rows, at, victims, shared_of_victim, rules, space, sizes, options):
    """Prepare the relevance against all other items, by moments and columns; return whether the items are finite."""
    n, dim = sizes.n_items, length(sizes.dims)
    item_moments(rows, at, n, space.centre, space.second)
    if (rules == NDCG).any():
        mean, n_shared = np.zeros(length(sizes.item_dims), float32), sizes.n_shared
        shared = part(rows, shared_of_victim, n_shared, SHARED)
        for a in range(len(victims.users)):
            mix_rows(part(victims.users[a], 0, dim, USER), shared, space.room, sizes, options)
            for k in range(len(mean)):
                mean[k] += space.mixed[k]
        build_column_table(rows, at, mean, space.table, space.place)
    return range_is_finite(rows, at, n * length(sizes.item_dims))


@borrow
def relevance_by_rule(rule, threshold, kept, n, size, bias, brief, space, sizes):
    """Return the relevance of the scores of `size` queries, of which the first `n` are of targets."""
    return compute_relevance(rule, threshold, space.picked[:n], space.picked[n:size], space.scratch)


@borrow
def affine_relevance_by_rule(rule, threshold, kept, n, size, bias, brief, space, sizes):
    """Return the relevance; only the targets are scored if it is against all other items (`brief`)."""
    own = space.picked[:n]
    if brief and rule == STANDARDIZED:
        return nan_to_lowest(
            standardized_among_all(own, bias, space.mixed, sizes.n_items, space.centre, space.second)
        )
    if brief and rule == NDCG:
        return ndcg_among_all(kept[:n], bias, space.mixed, space)
    return compute_relevance(rule, threshold, own, space.picked[n:size], space.scratch)


def rank_victims(victims, asked, latest, sizes, options):
    """Fill ``latest[rule, target set, victim]`` with the relevance of the victims to the adversaries' user rows."""
    mode = swap_float_mode(NO_DENORMALS)
    dim, item_dim, offsets, rules, longest = (
        length(sizes.dims),
        length(sizes.item_dims),
        asked.offsets,
        asked.rules,
        0,
    )
    for a in range(len(asked.n_targets)):
        longest = max(longest, offsets[a + 1] - offsets[a])
    space, rows, places = new_rank_room(longest, sizes, options), victims.rows, row_places(0, sizes)
    room, picked = space.room, space.picked
    for v in range(len(victims.ids)):
        low = np.int64(victims.row[v]) * sizes.width
        at, shared_at = low + places.items, low + places.shared
        sound = examine_victim(rows, at, victims, shared_at, rules, space, sizes, options)
        for a in range(len(asked.n_targets)):
            shared = part(rows, shared_at, sizes.n_shared, SHARED)
            if len(victims.shared_of):
                shared = part(victims.shared_of[a], 0, sizes.n_shared, SHARED)
            user = part(victims.users[a], 0, dim, USER)
            bias = mix_rows(user, shared, room, sizes, options)
            kept, n = asked.items[offsets[a] : offsets[a + 1]], asked.n_targets[a]
            brief = sound and len(kept) == sizes.n_items
            size = n if brief else len(kept)
            for j in range(size):
                item = part(rows, at + np.int64(kept[j]) * item_dim, item_dim, ITEM)
                picked[j] = item_score(user, item, shared, bias, room, sizes, options)
            if rules[0] == MEMBERS:
                for j in range(n):
                    picked[j] = entropy(picked[j])
            for r in range(len(rules)):
                latest[r, a, victims.ids[v]] = relevance_by_rule(
                    rules[r], asked.thresholds[r], kept, n, size, bias, brief, space, sizes
                )
    swap_float_mode(mode)


def fill_entropies(victims, a, items, sizes, options, out):
    """Fill `out`, (n_victims, n_items), with entropies of items by the victims' items and a's user row."""
    room, places = new_room(sizes, options), row_places(0, sizes)
    for v in range(len(victims.row)):
        low = np.int64(victims.row[v]) * sizes.width
        shared = part(victims.rows, low + places.shared, sizes.n_shared, SHARED)
        if len(victims.shared_of):
            shared = part(victims.shared_of[a], 0, sizes.n_shared, SHARED)
        user = part(victims.users[a], 0, length(sizes.dims), USER)
        fill_scores(user, shared, victims.rows, low + places.items, items, sizes, options, room, out[v])
        for j in range(len(items)):
            out[v, j] = entropy(out[v, j])


class ObserverLoops(NamedTuple):
    """The loops of observers for one model."""

    score_kept: Any
    fit_user: Any
    rank_victims: Any
    fill_entropies: Any


@functools.cache
def specialise_observers(score: Any, add_gradient: Any, *, affine: bool) -> ObserverLoops:
    """Return the loops with a model's own functions, which are plain Python, in place."""
    of = specialise_formula(score, add_gradient, affine=affine)
    by_rule = {"examine_victim": examine_victim, "relevance_by_rule": relevance_by_rule}
    if affine:
        examine = specialise(examine_affine_victim, inline, mix_rows=of.scoring["mix_rows"])
        by_rule = {"examine_victim": examine, "relevance_by_rule": affine_relevance_by_rule}
    scores = specialise_training(score, add_gradient, affine=affine).fill_scores
    return ObserverLoops(
        specialise(score_kept_rows, borrow, **of.scoring),
        specialise(fit_user, noinline, **of.gradient),
        specialise(rank_victims, **of.scoring, **by_rule),
        specialise(fill_entropies, fill_scores=scores),
    )
