"""The formula of a model with compiled kernels: the score of an item and its gradient, as the loops use them.

The loops of :mod:`.template_kernels` and :mod:`.template_observers` are templates. They call the stubs `mix_rows` and
`item_score` of this module, or `score` and `add_gradient`; :func:`specialise_formula` makes a model's own.

A score that is affine in the item's row v is ``b + m . v``. By :func:`mix_rows` b is the score at v = 0, and m the
derivative of the score by v. So a list of items takes one call of the model's functions, and one product per item.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32
from gossiprec.native.jit import borrow, constants, inline, length, part, specialise

USER, ITEM, SHARED, OF_USER, OF_ITEM, OF_SHARED, ROOM, SUM = range(8)
"""The kinds of arrays that a model's functions get; none overlaps another (:func:`gossiprec.native.jit.part`)."""


class ScoredRows(NamedTuple):
    """The numbers that a score depends on, or the derivatives by them: a user's row, an item's, shared weights."""

    user: F32
    item: F32
    shared: F32


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
    penalty : ndarray of float32, shape (n_nodes,)
        Of each node: factor of the squared drift of a batch's items.
    """

    n_room: int
    shape: tuple[Any, ...]
    summed: bool
    penalty: F32


def score(p, room, shape):
    """Stand in for the model's: return the logit of an item."""
    raise NotImplementedError


def add_gradient(p, error, slopes, room, shape):
    """Stand in for the model's: add the gradient of the logit, times `error`, to `slopes`."""
    raise NotImplementedError


class RoomPlaces(NamedTuple):
    """Offsets in a room: an item of zeros, sums, m, derivatives by an item, those by user and shared weights, the rest.

    The derivatives by user and shared weights are at v = 0. The rest is the working memory of the model's functions.
    """

    point: int
    mixed: int
    item: int
    base: int
    rest: int


@borrow
def room_places(sizes):
    """Return the offsets of the parts of a room; the zeros are at 0."""
    n = length(sizes.item_dims)
    return RoomPlaces(n, 2 * n, 3 * n, 4 * n, 4 * n + length(sizes.dims) + sizes.n_shared)


@inline
def new_room(sizes, options):
    """Return the working memory of a thread for the model's functions."""
    return np.zeros(room_places(sizes).rest + options.n_room, float32)


def room_size(user_width: int, item_width: int, n_shared: int, n_room: int) -> int:
    """Return the length of a room (:func:`new_room`)."""
    return 4 * item_width + user_width + n_shared + n_room


@borrow
def clear(values):
    """Set all values to zero."""
    for k in range(len(values)):
        values[k] = float32(0.0)


@borrow
def mix_rows(user, shared, room, sizes, options):
    """Prepare the scores of items for a user and shared weights: nothing, unless the score is affine."""
    return float32(0.0)


def mix_affine_rows(user, shared, room, sizes, options):
    """Fill m and the derivatives at v = 0 in `room`; return b."""
    item_dim, at, dim, shape = (
        length(sizes.item_dims),
        room_places(sizes),
        length(sizes.dims),
        constants(options.shape),
    )
    mixed, own = part(room, at.mixed, item_dim, OF_ITEM), part(room, at.rest, options.n_room, ROOM)
    of_user = part(room, at.base, dim, OF_USER)
    of_shared = part(room, at.base + dim, sizes.n_shared, OF_SHARED)
    clear(mixed)
    clear(of_user)
    clear(of_shared)
    p = ScoredRows(user, part(room, 0, item_dim, ITEM), shared)
    add_gradient(p, float32(1.0), ScoredRows(of_user, mixed, of_shared), own, shape)
    return score(p, own, shape)


def item_score(user, item, shared, bias, room, sizes, options):
    """Return the score of an item; `bias` is what :func:`mix_rows` returned for the same room."""
    return score(
        ScoredRows(user, item, shared), part(room, room_places(sizes).rest, options.n_room, ROOM),
        constants(options.shape),
    )  # fmt: skip


@borrow
def affine_item_score(user, item, shared, bias, room, sizes, options):
    """Return ``b + m . v``."""
    mixed, z = part(room, room_places(sizes).mixed, length(sizes.item_dims), OF_ITEM), bias
    for k in range(length(sizes.item_dims)):
        z += mixed[k] * item[k]
    return z


class Formula(NamedTuple):
    """A model's compiled functions, by the names of the stubs that they replace."""

    gradient: dict[str, Any]
    """`score` and `add_gradient`."""
    scoring: dict[str, Any]
    """`mix_rows` and `item_score`."""


@functools.cache
def specialise_formula(score: Any, add_gradient: Any, *, affine: bool) -> Formula:
    """Return the compiled form of a model's functions, which are plain Python."""
    own = {"score": borrow(score)}
    calls = score.__name__ in add_gradient.__code__.co_names  # back-propagation begins with the score
    called = {score.__name__: own["score"]} if calls else {}
    both = {**own, "add_gradient": specialise(add_gradient, borrow, **called)}
    if affine:
        scoring = {"mix_rows": specialise(mix_affine_rows, borrow, **both), "item_score": affine_item_score}
        return Formula(both, scoring)
    return Formula(both, {"mix_rows": mix_rows, "item_score": specialise(item_score, borrow, **own)})
