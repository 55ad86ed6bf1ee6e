"""The formula of a model with compiled kernels: the score of an item and its gradient, as the loops use them.

The loops of :mod:`.template_kernels` and :mod:`.template_observers` are templates. They call the stubs `mix_rows` and
`query_score` of this module, or `score` and `add_gradient`; :func:`specialise_formula` makes a model's own.

A score that is affine in the item's row v is ``b + m . v``. By :func:`mix_rows` b is the score at v = 0, and m the
derivative of the score by v. So a list of items takes one call of the model's functions, and one product per item.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I32
from gossiprec.models.base.kernel_interface import Sizes
from gossiprec.native.jit import borrow, constants, inline, length, part, specialise, stored_part

USER, ITEM, SHARED, OF_USER, OF_ITEM, OF_SHARED, ROOM, SUM, CONTEXT, OF_CONTEXT, WEIGHTS, START = range(12)
"""The kinds of arrays that a model's functions get; none overlaps another (:func:`gossiprec.native.jit.part`)."""


NO_CONSTANTS = np.zeros((0, 0), np.float32)


class ScoredRows(NamedTuple):
    """The numbers that a score depends on, or the derivatives by them: a user's row, an item's, shared weights."""

    user: F32
    item: F32
    shared: F32


class ContextRows(NamedTuple):
    """The same with the row of another item, the context, and with the weights of the query.

    If the context is unknown, its row holds arbitrary numbers; the weights say so.
    """

    user: F32
    item: F32
    shared: F32
    context: F32
    weights: F32


class FormulaInputs(NamedTuple):
    """The further inputs of a formula.

    Attributes
    ----------
    n_room : int
        Numbers of working memory that the model's functions need.
    shape : tuple
        Sizes that the model chooses, by :func:`gossiprec.native.jit.as_type`: the compiler knows them.
    summed : bool
        Whether the loss is the sum over the samples.
    strengths : ndarray of float32, shape (n_nodes, n_terms)
        Of each node's terms.
    seed : int
        Of the rounding of float16.
    contexts : ndarray of int32
        The context of each positive, -1 if unknown; empty for models without contexts.
    constants : ndarray of float32, shape (n_items, n_constants)
        The model's constants, from which a query's weights follow.
    numbers : tuple of float
        The model's numbers for its weights and its penalty.
    weight_dims : tuple of int
        Zeros, as many as a query has weights.
    """

    n_room: int
    shape: tuple[Any, ...]
    summed: bool
    strengths: F32
    seed: np.uint64
    contexts: I32
    constants: F32
    numbers: tuple[float, ...]
    weight_dims: tuple[int, ...]


class Queries(NamedTuple):
    """Items to score, their contexts (-1 if unknown) and the weights of each query; models without have neither."""

    items: I32
    contexts: I32
    weights: F32


class FormulaRoom(NamedTuple):
    """The working memory of a thread (:func:`new_room`), the sizes of a layout, and the inputs of the formula."""

    room: F32
    sizes: Sizes
    options: FormulaInputs


class TableRows(NamedTuple):
    """A user's row, shared weights, and a flat table of items from `begin`, of float32 or float16 bits."""

    user: F32
    shared: F32
    table: Any
    begin: int


def score(p, room, shape):
    """Stand in for the model's: return the logit of an item."""
    raise NotImplementedError


def add_gradient(p, error, slopes, room, shape):
    """Stand in for the model's: add the gradient of the logit, times `error`, to `slopes`."""
    raise NotImplementedError


class RoomPlaces(NamedTuple):
    """Offsets in a room, after an item of zeros.

    Attributes
    ----------
    point, mixed, item : int
        Sums of items, m, and derivatives by an item.
    base : int
        Derivatives by the user's row and shared weights at v = 0.
    user, shared, row, context : int
        Rows of float16 as float32.
    rest : int
        The working memory of the model's functions.
    """

    point: int
    mixed: int
    item: int
    base: int
    user: int
    shared: int
    row: int
    context: int
    rest: int


@borrow
def room_places(sizes):
    """Return the offsets of the parts of a room."""
    n, dim = length(sizes.item_dims), length(sizes.dims)
    span = dim + sizes.n_shared
    user = 4 * n + span
    row = user + span
    return RoomPlaces(n, 2 * n, 3 * n, 4 * n, user, user + dim, row, row + n, row + 2 * n)


@inline
def new_room(sizes, options):
    """Return the working memory of a thread for the model's functions."""
    return np.zeros(room_places(sizes).rest + options.n_room, float32)


def room_size(user_width: int, item_width: int, n_shared: int, n_room: int) -> int:
    """Return the length of a room (:func:`new_room`)."""
    return 6 * item_width + 2 * (user_width + n_shared) + n_room


@borrow
def clear(values):
    """Set all values to zero."""
    for k in range(len(values)):
        values[k] = float32(0.0)


@borrow
def core_slopes(sizes):
    """Return the offsets of the gradients of the user's row and of shared weights in the core."""
    dim = length(sizes.dims)
    at = 3 * (dim + sizes.n_shared)
    return at, at + dim


@borrow
def mix_rows(user, shared, form):
    """Prepare the scores of items for a user and shared weights: nothing, unless the score is affine."""
    return float32(0.0)


def mix_affine_rows(user, shared, form):
    """Fill m and the derivatives at v = 0 in the room; return b."""
    room, sizes, options = form
    item_dim, at, dim = length(sizes.item_dims), room_places(sizes), length(sizes.dims)
    mixed, own = part(room, at.mixed, item_dim, OF_ITEM), part(room, at.rest, options.n_room, ROOM)
    of_user = part(room, at.base, dim, OF_USER)
    of_shared = part(room, at.base + dim, sizes.n_shared, OF_SHARED)
    clear(mixed)
    clear(of_user)
    clear(of_shared)
    p, shape = ScoredRows(user, part(room, 0, item_dim, ITEM), shared), constants(options.shape)
    add_gradient(p, float32(1.0), ScoredRows(of_user, mixed, of_shared), own, shape)
    return score(p, own, shape)


def query_score(rows, queries, j, bias, form):
    """Return the score of query j; `bias` is what :func:`mix_rows` returned for the same room."""
    at, n = room_places(form.sizes), length(form.sizes.item_dims)
    item = stored_part(rows.table, rows.begin + np.int64(queries.items[j]) * n, n, ITEM, form.room, at.row)
    own = part(form.room, at.rest, form.options.n_room, ROOM)
    return score(ScoredRows(rows.user, item, rows.shared), own, constants(form.options.shape))


@borrow
def affine_query_score(rows, queries, j, bias, form):
    """Return ``b + m . v``."""
    at, n, z = room_places(form.sizes), length(form.sizes.item_dims), bias
    item = stored_part(rows.table, rows.begin + np.int64(queries.items[j]) * n, n, ITEM, form.room, at.row)
    mixed = part(form.room, at.mixed, n, OF_ITEM)
    for k in range(n):
        z += mixed[k] * item[k]
    return z


def context_query_score(rows, queries, j, bias, form):
    """Return the score of query j in its context; a query of unknown context gets its own item's row."""
    at, n, room, table = room_places(form.sizes), length(form.sizes.item_dims), form.room, rows.table
    place, before, n_weights = (
        np.int64(queries.items[j]),
        np.int64(queries.contexts[j]),
        queries.weights.shape[1],
    )
    item = stored_part(table, rows.begin + place * n, n, ITEM, room, at.row)
    known = before if before >= 0 else place
    context = stored_part(table, rows.begin + known * n, n, CONTEXT, room, at.context)
    weights = part(queries.weights, j * n_weights, n_weights, WEIGHTS)
    p = ContextRows(rows.user, item, rows.shared, context, weights)
    return score(p, part(room, at.rest, form.options.n_room, ROOM), constants(form.options.shape))


Kind = Literal["items", "affine", "moves"]
"""Models that score item by item; those of which the score is affine in the item's row; and models with contexts."""


class Formula(NamedTuple):
    """A model's compiled functions, by the names of the stubs that they replace."""

    gradient: dict[str, Any]
    """`score` and `add_gradient`."""
    scoring: dict[str, Any]
    """`mix_rows` and `query_score`."""


@functools.cache
def specialise_formula(score: Any, add_gradient: Any, kind: Kind) -> Formula:
    """Return the compiled form of a model's functions, which are plain Python; of an :data:`Kind`."""
    own = {"score": borrow(score)}
    calls = score.__name__ in add_gradient.__code__.co_names  # back-propagation begins with the score
    called = {score.__name__: own["score"]} if calls else {}
    both = {**own, "add_gradient": specialise(add_gradient, borrow, **called)}
    if kind == "affine":
        mix = specialise(mix_affine_rows, borrow, **both)
        return Formula(both, {"mix_rows": mix, "query_score": affine_query_score})
    query = query_score if kind == "items" else context_query_score
    return Formula(both, {"mix_rows": mix_rows, "query_score": specialise(query, borrow, **own)})
