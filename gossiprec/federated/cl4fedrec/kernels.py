"""Compiled gradients of CL4FedRec's losses."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy import float32

from gossiprec.federated.term_kernels import (
    add_noisy_views,
    add_signed_noise,
    gather_columns,
    info_nce_gradient,
    normalise_backward,
    normalise_columns,
    scatter_add_columns,
)
from gossiprec.models.base.contrastive import TINY
from gossiprec.native.jit import kernel, noinline, specialise
from gossiprec.numerics.flat_ops import exp32
from gossiprec.numerics.small_matmul import pad_to_tile

TEMPERATURE, USER_WEIGHT, ITEM_WEIGHT, NOISE, SUMMED, STEP_SIZE, TO_NORM = range(7)
"""Indices of the options. A step has norm STEP_SIZE if TO_NORM is not 0, or else it is STEP_SIZE times the slope."""


@functools.cache
def specialise_moved_items(gradient: Any) -> Any:
    """Return :class:`AnalyticTerm`'s kernel with item views moved by one step of a model's gradient (its `fill`)."""
    return specialise(_add_moved, fill=gradient)


def fill(core, items, slopes, item_slopes, samples, positives, shape, room):
    """Stand in for a model's :attr:`gossiprec.models.base.analytic_gradients.AnalyticGradient.fill`."""
    raise NotImplementedError


@kernel
def add_noisy_view_losses(client):
    """Add both losses' derivatives, with noise on items (:class:`AnalyticTerm`)."""
    _add_of_user(client)
    numbers = client.numbers
    weight = numbers[ITEM_WEIGHT] / (1 if numbers[SUMMED] else len(client.of_samples))
    add_noisy_views(client, numbers[NOISE], numbers[TEMPERATURE], weight)


def _add_moved(client):
    """Add both losses' derivatives, with items moved by one step for each view of the user."""
    views, numbers, items = _add_of_user(client), client.numbers, client.items
    its = np.flatnonzero(client.positives).astype(np.int32)
    n, dim = len(its), len(items)
    if n == 0 or numbers[ITEM_WEIGHT] == 0:
        return
    compact, moved, steps = (
        np.empty((dim, n), np.float32), np.zeros((2, dim, pad_to_tile(n)), np.float32), np.empty((dim, n), np.float32)
    )  # fmt: skip
    gather_columns(items, its, compact)
    samples, positives = client.samples[its], client.positives[its]
    seen, unused = client.core.copy(), np.empty_like(client.core)
    for k in range(2):
        seen[:dim] = views[k]
        fill(seen, compact, unused, steps, samples, positives, client.shape, client.room)
        _scale_steps(steps, numbers)
        moved[k, :, :n] = compact + steps
    of_one, of_other = np.empty_like(moved[0]), np.empty_like(moved[0])
    weight = numbers[ITEM_WEIGHT] / (1 if numbers[SUMMED] else n)
    info_nce_gradient(moved[0], moved[1], n, numbers[TEMPERATURE], weight, of_one, of_other)
    scatter_add_columns(client.item_slopes, its, of_one)
    scatter_add_columns(client.item_slopes, its, of_other)


@noinline
def _scale_steps(steps, numbers):
    """Turn slopes, one per column, into the steps of items."""
    if numbers[TO_NORM]:
        normalise_columns(steps, np.empty(steps.shape[1], np.float32))
    steps *= float32(-numbers[STEP_SIZE])


@noinline
def _add_of_user(client):
    """Add the derivatives of the users' loss; return both views of the user, shape (2, d)."""
    dim = client.of_step.shape[1]
    views = np.empty((2, dim), np.float32)
    for k in range(2):
        column = client.core[:dim].copy().reshape((dim, 1))
        add_signed_noise(column, client.of_step.reshape((1, 2, dim)), k, client.numbers[NOISE])
        views[k] = column[:, 0]
    if client.numbers[USER_WEIGHT]:
        _add_info_nce_of_user(views, client.slopes, client.extra, client.numbers)
    return views


@noinline
def _add_info_nce_of_user(views, slopes, others, numbers):
    """Add the derivatives of the second view against all synthetic users, compared with the first view."""
    dim, sharp = views.shape[1], float32(1.0 / numbers[TEMPERATURE])
    units, norms = views.T.copy(), np.empty(2, np.float32)
    normalise_columns(units, norms)
    pulls, total = np.zeros((dim, 2), np.float32), float32(0.0)
    own = float32(0.0)
    for i in range(dim):
        own += units[i, 0] * units[i, 1]
    weights, sizes = np.empty(len(others), np.float32), np.empty(len(others), np.float32)
    for s in range(len(others)):
        squares, along = float32(0.0), float32(0.0)
        for i in range(dim):
            squares += others[s, i] ** 2
            along += others[s, i] * units[i, 0]
        sizes[s] = max(np.sqrt(squares), float32(TINY))
        weights[s] = exp32((along / sizes[s] - float32(1.0)) * sharp)
        total += weights[s]
    own_weight = exp32((own - float32(1.0)) * sharp)
    total += own_weight
    scale = float32(numbers[USER_WEIGHT]) * sharp
    of_own = scale * (own_weight / total - float32(1.0))
    for i in range(dim):
        pulls[i, 0], pulls[i, 1] = of_own * units[i, 1], of_own * units[i, 0]
        for s in range(len(others)):
            pulls[i, 0] += scale * weights[s] / total / sizes[s] * others[s, i]
    normalise_backward(units, norms, pulls)
    for i in range(dim):
        slopes[i] += pulls[i, 0] + pulls[i, 1]
