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
    CONTEXT,
    ITEM,
    OF_CONTEXT,
    OF_ITEM,
    OF_SHARED,
    OF_USER,
    ROOM,
    SHARED,
    USER,
    WEIGHTS,
    ContextRows,
    FormulaRoom,
    Kind,
    Queries,
    ScoredRows,
    TableRows,
    add_gradient,
    mix_rows,
    new_room,
    query_score,
    room_places,
    score,
    specialise_formula,
)
from gossiprec.models.base.template_kernels import fill_scores, row_places
from gossiprec.models.base.template_pairs import PairFunctions, add_penalty, set_weights
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    constants,
    inline,
    length,
    load_float32,
    noinline,
    part,
    specialise,
    stored_part,
    swap_float_mode,
)
from gossiprec.numerics.draw_kernels import sample_negatives
from gossiprec.numerics.flat_ops import exp32, range_is_finite
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


def score_kept_rows(vector, user, user_at, shared, shared_at, queries, sizes, scores):
    """Fill `scores` from a kept vector ``[user | items | shared]``, with any user row and shared weights."""
    dim, form = length(sizes.dims), FormulaRoom(queries.room, sizes, queries.recipe)
    own, weights = part(user, user_at, dim, USER), part(shared, shared_at, sizes.n_shared, SHARED)
    fill_scores(TableRows(own, weights, vector, dim), queries, form, scores)


class FitSamples(NamedTuple):
    """The samples of a fit: the place of the first positive, the items, and the weights of each item's query."""

    first: int
    items: Any
    weights: F32


@borrow
def fill_fit_weights(samples, recipe):
    """Fill no weights."""


def fill_fit_pair_weights(samples, recipe):
    """Fill the weights of each item's query."""
    n = length(recipe.weight_dims)
    for place in range(len(samples.items)):
        before = recipe.contexts[samples.first + place // (1 + FIT_NEGATIVES)]
        weights = part(samples.weights, place * n, n, WEIGHTS)
        set_weights(weights, recipe.constants, samples.items[place], before, recipe.numbers)


@borrow
def count_fit_samples(n_positives):
    """Return the number of samples of a fit."""
    return n_positives * (1 + FIT_NEGATIVES)


@borrow
def count_fit_pairs(n_positives):
    """Return the number of pairs of a fit."""
    return n_positives * FIT_NEGATIVES


def add_fit_gradient(s, samples, rows, of, form):
    """Add the derivatives of the loss of sample s."""
    room, sizes, recipe = form
    at, n, shape = room_places(sizes), length(sizes.item_dims), constants(recipe.shape)
    item = stored_part(rows.table, rows.begin + np.int64(samples.items[s]) * n, n, ITEM, room, at.row)
    p, own = ScoredRows(rows.user, item, rows.shared), part(room, at.rest, recipe.n_room, ROOM)
    error = float32(1.0) / (float32(1.0) + exp32(-score(p, own, shape)))
    if s % (1 + FIT_NEGATIVES) == 0:
        error -= float32(1.0)
    add_gradient(p, error, ScoredRows(of.user, of.item, of.shared), own, shape)


def add_fit_pair_gradient(s, samples, rows, of, form):
    """Add the derivatives of the loss of pair s."""
    room, sizes, recipe = form
    at, n, n_weights = room_places(sizes), length(sizes.item_dims), length(recipe.weight_dims)
    shape, own = constants(recipe.shape), part(room, at.rest, recipe.n_room, ROOM)
    t = s // FIT_NEGATIVES
    place, rival_place = t * (1 + FIT_NEGATIVES), s + t + 1
    one, other = np.int64(samples.items[place]), np.int64(samples.items[rival_place])
    before = recipe.contexts[samples.first + t]
    known = np.int64(before) if before >= 0 else one
    weights = part(samples.weights, place * n_weights, n_weights, WEIGHTS)
    other_weights = part(samples.weights, rival_place * n_weights, n_weights, WEIGHTS)
    context = stored_part(rows.table, rows.begin + known * n, n, CONTEXT, room, at.context)
    item = stored_part(rows.table, rows.begin + one * n, n, ITEM, room, at.row)
    rival = stored_part(rows.table, rows.begin + other * n, n, ITEM, room, at.point)
    p = ContextRows(rows.user, item, rows.shared, context, weights)
    q = ContextRows(rows.user, rival, rows.shared, context, other_weights)
    slope = float32(1.0) / (float32(1.0) + exp32(score(p, own, shape) - score(q, own, shape)))
    add_gradient(p, -slope, of, own, shape)
    add_gradient(q, slope, of, own, shape)
    add_penalty(p, q, float32(1.0), of, of, recipe.numbers)


def fit_user(a, rows, row, now, state, recipe, sizes):
    """Fit adversary a's user row to its targets by Adam, with the item table and shared weights of a version frozen."""
    drawn, node, dim, n_shared = state.samples, state.adversaries[a], length(sizes.dims), sizes.n_shared
    item_dim, places, first = length(sizes.item_dims), row_places(0, sizes), drawn.offsets[node]
    positives = drawn.positives[first : drawn.offsets[node + 1]]
    n, size = count_fit_samples(len(positives)), len(positives) * (1 + FIT_NEGATIVES)
    items, room, weights = (
        np.empty(size, np.int32),
        new_room(sizes, recipe),
        np.empty(size * length(recipe.weight_dims), float32),
    )
    sample_negatives(
        positives, drawn.member[node], sizes.n_items, node, state.n_fits[a], FIT_NEGATIVES, drawn.seed, items
    )
    samples = FitSamples(first, items, weights)
    fill_fit_weights(samples, recipe)
    user, m, v, gradient = state.users[a], np.zeros(dim), np.zeros(dim), np.zeros(dim)
    slopes = np.zeros(dim + 2 * item_dim + n_shared, float32)
    of = ContextRows(
        part(slopes, 0, dim, OF_USER), part(slopes, dim, item_dim, OF_ITEM),
        part(slopes, dim + 2 * item_dim, n_shared, OF_SHARED),
        part(slopes, dim + item_dim, item_dim, OF_CONTEXT), part(weights, 0, 0, WEIGHTS),
    )  # fmt: skip
    shared = stored_part(rows, row + places.shared, n_shared, SHARED, room, room_places(sizes).shared)
    given = TableRows(part(user, 0, dim, USER), shared, rows, row + places.items)
    for k in range(dim):
        user[k] = state.start[a, k]
    for step in range(1, FIT_STEPS + 1 if n else 1):
        slopes[:] = float32(0.0)
        for s in range(n):
            add_fit_gradient(s, samples, given, of, FormulaRoom(room, sizes, recipe))
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
            centre[k] += load_float32(theta[begin + item * dim + k])
    for k in range(dim):
        centre[k] /= n_items
    for item in range(n_items):
        low = begin + item * dim
        for k in range(dim):
            away = load_float32(theta[low + k]) - centre[k]
            for other in range(k + 1):
                second[k, other] += away * (load_float32(theta[low + other]) - centre[other])
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
            worth[item] += mean[k] * load_float32(theta[begin + item * dim + k])
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
            table[k, place[item]] = load_float32(theta[begin + item * dim + k])


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
def examine_victim(rows, begin, shared, victims, rules, space, form):
    """Prepare nothing: each query is scored. Return False."""
    return False


def examine_affine_victim(rows, begin, shared, victims, rules, space, form):
    """Prepare the relevance against all other items, by moments and columns; return whether the items are finite."""
    n, item_dim, dim = form.sizes.n_items, length(form.sizes.item_dims), length(form.sizes.dims)
    item_moments(rows, begin, n, space.centre, space.second)
    if (rules == NDCG).any():
        mean = np.zeros(item_dim, float32)
        for a in range(len(victims.users)):
            mix_rows(part(victims.users[a], 0, dim, USER), shared, form)
            for k in range(item_dim):
                mean[k] += space.mixed[k]
        build_column_table(rows, begin, mean, space.table, space.place)
    return range_is_finite(rows, begin, n * item_dim)


class RankedScores(NamedTuple):
    """The scores of a victim's queries: targets, other references, and the part b of affine scores.

    `brief` says that references are all other items, and are not scored.
    """

    items: Any
    own: F32
    others: F32
    bias: float32
    brief: bool


@borrow
def relevance_by_rule(rule, threshold, found, space, sizes):
    """Return the relevance of the scores of queries."""
    return compute_relevance(rule, threshold, found.own, found.others, space.scratch)


@borrow
def affine_relevance_by_rule(rule, threshold, found, space, sizes):
    """Return the relevance of the scores of queries."""
    if found.brief and rule == STANDARDIZED:
        among = standardized_among_all(
            found.own, found.bias, space.mixed, sizes.n_items, space.centre, space.second
        )
        return nan_to_lowest(among)
    if found.brief and rule == NDCG:
        return ndcg_among_all(found.items, found.bias, space.mixed, space)
    return compute_relevance(rule, threshold, found.own, found.others, space.scratch)


def rank_victims(victims, asked, latest, sizes, options):
    """Fill ``latest[rule, target set, victim]`` with the relevance of the victims to the adversaries.

    A victim that withholds its user row is scored with each adversary's, and with its shared weights if there are any.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim, n_shared, offsets, rules, longest = length(sizes.dims), sizes.n_shared, asked.offsets, asked.rules, 0
    for a in range(len(asked.n_targets)):
        longest = max(longest, offsets[a + 1] - offsets[a])
    space, rows, at = new_rank_room(longest, sizes, options), victims.rows, room_places(sizes)
    room, picked, form = space.room, space.picked, FormulaRoom(space.room, sizes, options)
    for v in range(len(victims.ids)):
        victim, low = victims.ids[v], np.int64(victims.row[v]) * sizes.width
        hidden, places = victims.hides[victim], row_places(victim, sizes)
        own = stored_part(rows, low + places.user, dim, USER, room, at.user)
        weights = stored_part(rows, low + places.shared, n_shared, SHARED, room, at.shared)
        begin = low + places.items
        sound = examine_victim(rows, begin, weights, victims, rules, space, form)
        for a in range(len(asked.n_targets)):
            user = part(victims.users[a], 0, dim, USER) if hidden else own
            shared = weights
            if hidden and len(victims.shared_of):
                shared = part(victims.shared_of[a], 0, n_shared, SHARED)
            some, n = slice(offsets[a], offsets[a + 1]), asked.n_targets[a]
            queries = Queries(asked.items[some], asked.contexts[some], asked.weights[some])
            brief = sound and len(queries.items) == sizes.n_items
            size, bias = n if brief else len(queries.items), mix_rows(user, shared, form)
            for j in range(size):
                picked[j] = query_score(TableRows(user, shared, rows, begin), queries, j, bias, form)
            if rules[0] == MEMBERS:
                for j in range(n):
                    picked[j] = entropy(picked[j])
            found = RankedScores(queries.items[:n], picked[:n], picked[n:size], bias, brief)
            for r in range(len(rules)):
                latest[r, a, victim] = relevance_by_rule(rules[r], asked.thresholds[r], found, space, sizes)
    swap_float_mode(mode)


def fill_entropies(victims, a, items, sizes, options, out):
    """Fill `out`, (n_victims, n_items), with entropies of items by the victims' items and a's user row."""
    room, places, at = new_room(sizes, options), row_places(0, sizes), room_places(sizes)
    form, queries = FormulaRoom(room, sizes, options), Queries(items, options.contexts, options.constants)
    for v in range(len(victims.row)):
        low = np.int64(victims.row[v]) * sizes.width
        shared = stored_part(victims.rows, low + places.shared, sizes.n_shared, SHARED, room, at.shared)
        if len(victims.shared_of):
            shared = part(victims.shared_of[a], 0, sizes.n_shared, SHARED)
        user = part(victims.users[a], 0, length(sizes.dims), USER)
        fill_scores(TableRows(user, shared, victims.rows, low + places.items), queries, form, out[v])
        for j in range(len(items)):
            out[v, j] = entropy(out[v, j])


class ObserverLoops(NamedTuple):
    """The loops of observers for one model."""

    score_kept: Any
    fit_user: Any
    rank_victims: Any
    fill_entropies: Any


@functools.cache
def specialise_observers(
    score: Any, add_gradient: Any, kind: Kind, pairs: PairFunctions | None
) -> ObserverLoops:
    """Return the loops with a model's own functions, which are plain Python, in place."""
    of = specialise_formula(score, add_gradient, kind)
    by_rule = {"examine_victim": examine_victim, "relevance_by_rule": relevance_by_rule}
    if kind == "affine":
        examine = specialise(examine_affine_victim, inline, mix_rows=of.scoring["mix_rows"])
        by_rule = {"examine_victim": examine, "relevance_by_rule": affine_relevance_by_rule}
    scores = specialise(fill_scores, borrow, **of.scoring)
    if pairs is None:
        fit = {"add_fit_gradient": specialise(add_fit_gradient, borrow, **of.gradient)}
    else:
        penalty = borrow(pairs.add_penalty)
        fit = {
            "add_fit_gradient": specialise(add_fit_pair_gradient, borrow, **of.gradient, add_penalty=penalty),
            "fill_fit_weights": specialise(
                fill_fit_pair_weights, borrow, set_weights=borrow(pairs.set_weights)
            ),
            "count_fit_samples": count_fit_pairs,
        }
    return ObserverLoops(
        specialise(score_kept_rows, borrow, fill_scores=scores),
        specialise(fit_user, noinline, **fit),
        specialise(rank_victims, **of.scoring, **by_rule),
        specialise(fill_entropies, fill_scores=scores),
    )
