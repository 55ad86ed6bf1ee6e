"""Compiled terms of recommenders' losses: each changes a client's slopes (:class:`AnalyticTerm`).

The contrastive losses are defined in :mod:`gossiprec.models.base.contrastive`. Rows of embeddings are columns here, as
in kernels of models.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy import float32

from gossiprec.models.base.contrastive import TINY
from gossiprec.models.base.kernel_interface import LabelledBatch
from gossiprec.native.jit import kernel, noinline, specialise
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import axpy, copy_range, dot, exp32, fill_range, scale_into, sum_range
from gossiprec.numerics.small_matmul import add_inner_products, add_product, pad_to_tile

AT_ONCE = 64
"""Number of rows for which similarities to all others are computed together."""
LEAST_TEMPERATURE = 0.025
"""Below it, ``exp((cosine - 1) / temperature)`` of dissimilar rows is smaller than a float32 can be."""


@noinline
def gather_columns(items, places, found):
    """Set the first columns of `found` to some columns of `items`, and the others to zero."""
    for i in range(len(items)):
        row, into = items[i], found[i]
        for k in range(len(places)):
            into[k] = row[places[k]]
        into[len(places) :] = float32(0.0)


@noinline
def scatter_add_columns(item_slopes, places, slopes):
    """Add columns to the columns of `item_slopes` that they were taken from."""
    for i in range(len(item_slopes)):
        row, added = item_slopes[i], slopes[i]
        for k in range(len(places)):
            row[places[k]] += added[k]


@noinline
def normalise_columns(columns, norms):
    """Divide each column by its Euclidean norm, or by TINY if it is smaller; `norms` is filled with the divisors."""
    norms[:] = float32(0.0)
    for i in range(len(columns)):
        row = columns[i]
        for k in range(len(row)):
            norms[k] += row[k] * row[k]
    for k in range(len(norms)):
        norms[k] = max(np.sqrt(norms[k]), float32(TINY))
    for i in range(len(columns)):
        row = columns[i]
        for k in range(len(row)):
            row[k] /= norms[k]


@noinline
def normalise_backward(units, norms, slopes):
    """Turn derivatives by columns of norm 1 into derivatives by the columns before :func:`normalise_columns`."""
    along = np.zeros(len(norms), np.float32)
    for i in range(len(units)):
        row, slope = units[i], slopes[i]
        for k in range(len(row)):
            along[k] += row[k] * slope[k]
    for k in range(len(norms)):
        if norms[k] <= float32(TINY):
            along[k] = float32(0.0)
    for i in range(len(units)):
        row, slope = units[i], slopes[i]
        for k in range(len(row)):
            slope[k] = (slope[k] - along[k] * row[k]) / norms[k]


@noinline
def add_signed_noise(columns, uniform, which, size):
    """Add noise of norm `size` with the signs of the columns, in proportions ``uniform[:, which]``, a row each."""
    n = len(uniform)
    for k in range(n):
        squares = float32(0.0)
        for i in range(len(columns)):
            if columns[i, k] != float32(0.0):
                squares += uniform[k, which, i] ** 2
        scale = float32(size) / max(np.sqrt(squares), float32(TINY))
        for i in range(len(columns)):
            x = columns[i, k]
            sign = float32(x > float32(0.0)) - float32(x < float32(0.0))
            columns[i, k] = x + scale * uniform[k, which, i] * sign


@noinline
def info_nce_gradient(one, other, n, temperature, weight, of_one, of_other):
    """Fill in `weight` times the derivatives of InfoNCE by both views of `n` rows.

    Parameters
    ----------
    one, other : ndarray of float32, shape (d, padded(n))
        The views, zero beyond n; columns of norm 1 afterwards.
    of_one, of_other : ndarray of float32, shape (d, padded(n))
    """
    dim, wide = one.shape
    norms, other_norms = np.empty(wide, np.float32), np.empty(wide, np.float32)
    normalise_columns(one, norms)
    normalise_columns(other, other_norms)
    of_one[:], of_other[:] = float32(0.0), float32(0.0)
    flat, others, slopes, other_slopes = one.ravel(), other.ravel(), of_one.ravel(), of_other.ravel()
    near = np.empty(AT_ONCE * wide, np.float32)
    sharp, scale = float32(1.0 / temperature), float32(weight / temperature)
    for begin in range(0, n, AT_ONCE):
        some = min(AT_ONCE, n - begin)
        near[: some * wide] = float32(0.0)
        add_product(
            Matrix(near, 0, wide, 1), Matrix(flat, begin, 1, wide), Matrix(others, 0, wide, 1),
            some, dim, wide,
        )  # fmt: skip
        for a in range(some):
            row = near[a * wide : a * wide + n]
            total = float32(0.0)
            for k in range(len(row)):
                row[k] = exp32((row[k] - float32(1.0)) * sharp)
                total += row[k]
            share = scale / total
            for k in range(len(row)):
                row[k] *= share
            row[begin + a] -= scale
            near[a * wide + n : (a + 1) * wide] = float32(0.0)
        add_inner_products(
            Matrix(slopes, begin, wide, 1), Matrix(others, 0, wide, 1), Matrix(near, 0, wide, 1),
            dim, some, wide,
        )  # fmt: skip
        add_product(
            Matrix(other_slopes, 0, wide, 1), Matrix(flat, begin, wide, 1), Matrix(near, 0, wide, 1),
            dim, some, wide,
        )  # fmt: skip
    normalise_backward(one, norms, of_one)
    normalise_backward(other, other_norms, of_other)


@noinline
def add_noisy_views(client, size, temperature, weight):
    """Add `weight` times the derivatives of InfoNCE of two views of positive items with signed noise of norm `size`.

    Parameters
    ----------
    client : KernelStep
        With proportions of the noises, float32 of shape (n_positives, 2, d), for the positives.
    """
    uniform = client.of_samples
    n = len(uniform)
    places = client.places[:: len(client.places) // n]
    shape = (len(client.items), pad_to_tile(n))
    one = np.empty(shape, np.float32)
    of_one, of_other = np.empty(shape, np.float32), np.empty(shape, np.float32)
    gather_columns(client.items, places, one)
    other = one.copy()
    add_signed_noise(one, uniform, 0, size)
    add_signed_noise(other, uniform, 1, size)
    info_nce_gradient(one, other, n, temperature, weight, of_one, of_other)
    scatter_add_columns(client.item_slopes, places, of_one)
    scatter_add_columns(client.item_slopes, places, of_other)


@kernel
def add_correlation(client):
    """Add alpha times the derivatives of L_uni (:class:`AnalyticTerm`); numbers: alpha."""
    items, alpha = client.items, client.numbers[0]
    dim, n = items.shape
    wide = pad_to_tile(n)
    units, pulls = np.zeros(dim * wide, np.float32), np.zeros(dim * wide, np.float32)
    norms, cosines = np.empty(dim, np.float32), np.zeros(dim * dim, np.float32)
    for i in range(dim):
        unit = units[i * wide : i * wide + n]
        copy_range(unit, 0, items[i], 0, n)
        unit -= sum_range(unit, 0, n) / float32(n)
        norms[i] = max(np.sqrt(dot(unit, 0, unit, 0, n)), float32(TINY))
        unit /= norms[i]
    add_inner_products(
        Matrix(cosines, 0, dim, 1), Matrix(units, 0, wide, 1), Matrix(units, 0, wide, 1), dim, dim, wide,
    )  # fmt: skip
    size = max(np.sqrt(dot(cosines, 0, cosines, 0, dim * dim)), float32(TINY))
    scale = float32(2.0 * alpha / dim) / size
    add_product(
        Matrix(pulls, 0, wide, 1), Matrix(cosines, 0, dim, 1), Matrix(units, 0, wide, 1), dim, dim, wide,
    )  # fmt: skip
    for i in range(dim):
        unit, pull = units[i * wide : i * wide + n], pulls[i * wide : i * wide + n]
        along = dot(unit, 0, pull, 0, n) if norms[i] > float32(TINY) else float32(0.0)
        row = client.item_slopes[i]
        for t in range(n):  # their mean, by which centring would lower them, is 0 like the mean of all units
            row[t] += scale * (pull[t] - along * unit[t]) / norms[i]


@kernel
def keep_last_repeats(client):
    """Keep one sample's part of each item's slope: the samples of an item are equal (:class:`AnalyticTerm`).

    Numbers: 1 if the loss is summed over the samples, 0 if it is their mean.
    """
    share = float32(1.0) if client.numbers[0] else float32(1.0) / float32(len(client.places))
    for i in range(len(client.items)):
        row = client.item_slopes[i]
        for t in range(len(row)):
            row[t] *= share / client.samples[t]


@noinline
def add_nothing(client):
    """Add nothing."""


@kernel
def add_union(client):
    """Add the derivatives of the mean cross-entropy (:class:`AnalyticTerm`); numbers: weight."""
    items, places, compared = client.items, client.places, client.of_samples
    n, n_compared = compared.shape
    dim, each = len(items), len(places) // n
    rows, row_slopes = items.T.copy(), np.zeros((items.shape[1], dim), np.float32)
    near, scale = np.empty(n_compared, np.float32), float32(client.numbers[0] / n)
    for k in range(n):
        anchor = places[k * each]
        for c in range(n_compared):
            other = places[compared[k, c]]
            found = float32(0.0)
            for i in range(dim):
                found += rows[anchor, i] * rows[other, i]
            near[c] = found
        most, total = near.max(), float32(0.0)
        for c in range(n_compared):
            near[c] = math.exp(near[c] - most)
            total += near[c]
        for c in range(n_compared):
            other = places[compared[k, c]]
            slope = scale * (near[c] / total - float32(c == 0))
            for i in range(dim):
                row_slopes[anchor, i] += slope * rows[other, i]
                row_slopes[other, i] += slope * rows[anchor, i]
    for i in range(dim):
        for t in range(len(rows)):
            client.item_slopes[i, t] += row_slopes[t, i]


@kernel
def add_simgcl(client):
    """Add the derivatives of the mean InfoNCE (:class:`AnalyticTerm`); numbers: weight, temperature, noise."""
    weight, temperature, size = client.numbers
    add_noisy_views(client, size, temperature, weight / len(client.of_samples))


@kernel
def add_contrast(client):
    """Add the derivatives of the users' loss (:class:`AnalyticTerm`); numbers: weight, temperature.

    ``extra`` holds the auxiliary users as columns of norm 1, shape (d, n_users), ``of_step`` the client's own.
    """
    others, own = client.extra, client.of_step
    dim, n = others.shape
    sharp = float32(1.0 / client.numbers[1])
    norm = max(np.sqrt(dot(client.core, 0, client.core, 0, dim)), float32(TINY))
    near, total = np.zeros(n, np.float32), float32(0.0)
    for i in range(dim):
        axpy(near, 0, others[i], 0, n, client.core[i] / norm)
    for k in range(len(near)):
        near[k] = exp32((near[k] - float32(1.0)) * sharp)
        total += near[k]
    pulls, along = np.empty(dim, np.float32), float32(0.0)
    for i in range(dim):
        pulls[i] = float32(client.numbers[0]) * sharp * (dot(near, 0, others[i], 0, n) / total - own[i])
        along += pulls[i] * client.core[i] / norm
    if norm <= float32(TINY):
        along = float32(0.0)
    for i in range(dim):
        client.slopes[i] += (pulls[i] - along * client.core[i] / norm) / norm


@functools.cache
def specialise_second_step(gradient: Any) -> Any:
    """Return :class:`AnalyticTerm`'s kernel with items that move by the user's next row (`fill` of a gradient)."""
    return specialise(_move_items_second, fill=gradient)


def _move_items_second(client):
    """Replace the items' slopes by those at the user's row after its step of gradient descent.

    Numbers: the user's learning rate, the items' as a multiple of it, and the numbers of a row's end that never move.
    """
    rate, ratio, n_held = client.numbers
    moved, unused = client.core.copy(), np.empty_like(client.core)
    for i in range(len(moved)):
        moved[i] -= float32(rate) * client.slopes[i]
    batch = LabelledBatch(client.samples, client.positives)
    fill(moved, client.items, unused, client.item_slopes, batch, client.shape, client.room)
    n_moving = len(client.items) - int(n_held)
    for i in range(len(client.items)):
        scale_into(
            client.item_slopes[i], 0, client.item_slopes[i], 0, client.items.shape[1],
            float32(ratio if i < n_moving else 0.0),
        )  # fmt: skip


@kernel
def pull_to_guide(client):
    """Add the derivatives of the squared distance from the client's table (:class:`AnalyticTerm`).

    Numbers: the items' learning rate as a multiple of the user's, and lambda. An item's row ends with two numbers that
    never move, a one and the item's number, of which policies can change what a client receives; ``extra`` holds all
    tables.
    """
    items, guide, item_slopes = client.items, client.extra[client.node], client.item_slopes
    dim, ratio = len(items) - 2, float32(client.numbers[0])
    twice, last = float32(2.0 * client.numbers[1] / len(guide)), len(guide) // dim - 1
    client.slopes[dim + 1] = float32(0.0)
    fill_range(item_slopes[dim], 0, items.shape[1], float32(0.0))
    fill_range(item_slopes[dim + 1], 0, items.shape[1], float32(0.0))
    for t in range(items.shape[1]):
        number, pull = np.rint(items[dim + 1, t]), twice * items[dim, t]
        at = 0 if not number > 0 else last * dim if number > last else np.int64(number) * dim
        for i in range(dim):
            item_slopes[i, t] = ratio * (item_slopes[i, t] + pull * (items[i, t] - guide[at + i]))


TEMPERATURE, USER_WEIGHT, ITEM_WEIGHT, NOISE, SUMMED, STEP_SIZE, TO_NORM = range(7)
"""Indices of the options. A step has norm STEP_SIZE if TO_NORM is not 0, or else it is STEP_SIZE times the slope."""


@functools.cache
def specialise_moved_items(gradient: Any) -> Any:
    """Return :class:`AnalyticTerm`'s kernel with item views moved by one step of a model's gradient (its `fill`)."""
    return specialise(_add_moved, fill=gradient)


def fill(core, items, slopes, item_slopes, batch, shape, room):
    """Stand in for a model's :attr:`gossiprec.models.base.kernel_interface.CompiledGradient.fill`."""
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
    batch = LabelledBatch(client.samples[its], client.positives[its])
    seen, unused = client.core.copy(), np.empty_like(client.core)
    for k in range(2):
        copy_range(seen, 0, views[k], 0, dim)
        fill(seen, compact, unused, steps, batch, client.shape, client.room)
        _scale_steps(steps, numbers)
        for i in range(dim):
            for j in range(n):
                moved[k, i, j] = compact[i, j] + steps[i, j]
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
        for i in range(dim):
            views[k, i] = column[i, 0]
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
