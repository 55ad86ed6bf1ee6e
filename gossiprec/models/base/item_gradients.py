"""The compiled gradient of a batch for models with an affine score, from the functions of their kernels.

With the logits z = b + m . v of :mod:`.template_formula`, items are columns, so every loop is over all items of a
client.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy import float32

from gossiprec.models.base.kernel_interface import CompiledGradient
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
    score,
    specialise_formula,
)
from gossiprec.native.jit import part, specialise
from gossiprec.numerics.flat_ops import axpy, dot, fill_range, logistic_gradient, scale_into, sum_range


def affine_gradient(score: Any, add_gradient: Any, model: Any) -> CompiledGradient:
    """Return the gradient of a model by the two functions of its kernels.

    Parameters
    ----------
    score, add_gradient : function
        Of :func:`gossiprec.models.base.kernel_template.template_kernels`; they use no `room` and no `shape`.
    model : Model
    """
    layout = model.layout(1)
    room = 3 * layout.item_width + layout.user_width + layout.n_shared
    fill, shape = _specialised(score, add_gradient), np.array([layout.user_width])
    return CompiledGradient(fill, shape, room, model.options.summed)


@functools.cache
def _specialised(score: Any, add_gradient: Any) -> Any:
    return specialise(fill_affine, **specialise_formula(score, add_gradient, "affine").gradient)


def fill_affine(core, items, slopes, item_slopes, batch, shape, room):
    """Overwrite the slopes (:class:`CompiledGradient`); the first row of `item_slopes` is used for logits.

    `shape` is the width of a user's row. `room` holds an item, m, the sum of slopes times items, and the derivatives by
    user and shared weights at an item of zeros.
    """
    (dim, n), n_user, n_core = items.shape, shape[0], len(core)
    fill_range(room, 0, 3 * dim + n_core, float32(0.0))
    fill_range(slopes, 0, n_core, float32(0.0))
    user, shared = part(core, 0, n_user, USER), part(core, n_user, n_core - n_user, SHARED)
    point, mixed, unused = (
        part(room, 0, dim, ITEM),
        part(room, dim, dim, OF_ITEM),
        part(room, 2 * dim, dim, OF_ITEM),
    )
    at = 3 * dim
    base = part(room, at, n_user, OF_USER), part(room, at + n_user, n_core - n_user, OF_SHARED)
    own, p = part(room, 0, 0, ROOM), ScoredRows(user, point, shared)
    bias = score(p, own, ())
    add_gradient(p, float32(1.0), ScoredRows(base[0], mixed, base[1]), own, ())
    logits = item_slopes[0]
    fill_range(logits, 0, n, bias)
    for i in range(dim):
        axpy(logits, 0, items[i], 0, n, mixed[i])
    logistic_gradient(logits, 0, batch.samples, batch.positives, 0, n)
    total = sum_range(logits, 0, n)
    for i in range(dim - 1, -1, -1):
        point[i] = dot(logits, 0, items[i], 0, n)
        scale_into(item_slopes[i], 0, logits, 0, n, mixed[i])
    of = ScoredRows(
        part(slopes, 0, n_user, OF_USER), unused, part(slopes, n_user, n_core - n_user, OF_SHARED)
    )
    add_gradient(p, float32(1.0), of, own, ())
    axpy(slopes, 0, room, at, n_core, total - float32(1.0))
