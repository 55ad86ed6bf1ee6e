"""Kernels shared by the compiled trainers of clients without a model: results, loading and optimizer steps."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.native.jit import inline, noinline
from gossiprec.numerics.flat_ops import axpy, copy_range, fill_range

VALUES, SLOPES, FIRST, SECOND = range(4)
"""Rows of a client's working arrays: numbers, their gradient, and Adam's two moments."""


class Version(NamedTuple):
    """The version from which clients start.

    Attributes
    ----------
    tables : ndarray of float32, shape (n_items, item_width)
    shared : ndarray of float32, shape (n_shared,)
    """

    tables: Any
    shared: Any


class ClientRows(NamedTuple):
    """What the store keeps of every node; training changes it.

    Attributes
    ----------
    own, first, second : ndarray of float32, shape (n_nodes, user_width)
        Rows of users and Adam's moments of them. The moments have no rows under plain gradient descent.
    taken : ndarray of int64, shape (n_nodes,)
        Optimizer steps of each node.
    """

    own: Any
    first: Any
    second: Any
    taken: Any


class ClientResults(NamedTuple):
    """The output arrays of a call.

    Attributes
    ----------
    places : ndarray of int64, shape (n_clients + 1,)
        Where each client's results begin.
    n_touched : ndarray of int64, shape (n_clients,)
        Filled with the number of items that each client touches.
    touched : ndarray of int32, shape (places[-1],); rows : ndarray of float32, shape (places[-1], item_width)
        Filled with the items, ascending, and their rows after training.
    weights : ndarray of float32, shape (n_clients, n_shared)
        Filled with the shared weights after training.
    """

    places: Any
    n_touched: Any
    touched: Any
    rows: Any
    weights: Any


class ClientScratch(NamedTuple):
    """The working arrays in which the clients of a call are trained one after the other.

    Attributes
    ----------
    cores : ndarray of float32, shape (4, user_width + n_shared)
        A client's own row and the shared weights.
    tiles : ndarray of float32, shape (4, item_width * most_touched)
        The items that it touches.
    """

    cores: Any
    tiles: Any


@noinline
def max_segment_length(places):
    """Return the largest distance between two consecutive places."""
    most = 0
    for c in range(len(places) - 1):
        most = max(most, places[c + 1] - places[c])
    return most


@inline
def load_client(cores, tiles, n_numbers, own, first, second, shared, node):
    """Load a client's own row with its moments, and the shared weights; other moments are zero."""
    user_width = own.shape[1]
    copy_range(cores[VALUES], 0, own[node], 0, user_width)
    copy_range(cores[VALUES], user_width, shared, 0, len(shared))
    if len(first) > 0:
        for moment, kept in ((FIRST, first), (SECOND, second)):
            fill_range(cores[moment], user_width, len(shared), float32(0.0))
            copy_range(cores[moment], 0, kept[node], 0, user_width)
            fill_range(tiles[moment], 0, n_numbers, float32(0.0))


@inline
def optimizer_step(cores, tiles, n_numbers, user_width, with_adam, taken, step, rates):
    """Take step `step` (from 0) of a local update of a client that has taken `taken` steps in all.

    Parameters
    ----------
    cores : ndarray of float32, shape (4, user_width + n_shared)
    tiles : ndarray of float32, shape (4, ...)
        Arrays of items, of which the first `n_numbers` of each row are used.
    with_adam : bool
    rates : ndarray of float64, shape (5,)
        Learning rate, beta 1, beta 2, epsilon; and 1 if only the user's row uses Adam and the rest takes plain steps.
    """
    if with_adam:
        _step_adam(cores, 0, user_width, taken + 1, rates)
    if with_adam and not rates[4]:
        _step_adam(cores, user_width, cores.shape[1], step + 1, rates)
        _step_adam(tiles, 0, n_numbers, step + 1, rates)
    else:
        plain = user_width if with_adam else 0
        axpy(cores[VALUES], plain, cores[SLOPES], plain, cores.shape[1] - plain, float32(-rates[0]))
        axpy(tiles[VALUES], 0, tiles[SLOPES], 0, n_numbers, float32(-rates[0]))


@inline
def sgd_step_from_version(shared, weights, cores, tiles, n_numbers, rates):
    """Take the single plain step of a client without a user row, from the version straight to the result."""
    factor, slopes = float32(-rates[0]), cores[SLOPES]
    for k in range(len(weights)):
        weights[k] = shared[k] + slopes[k] * factor
    axpy(tiles[VALUES], 0, tiles[SLOPES], 0, n_numbers, factor)


@inline
def store_client(cores, own, first, second, weights, node):
    """Store a client's trained row with its moments, and its trained shared weights."""
    user_width = own.shape[1]
    copy_range(own[node], 0, cores[VALUES], 0, user_width)
    copy_range(weights, 0, cores[VALUES], user_width, len(weights))
    if len(first) > 0:
        copy_range(first[node], 0, cores[FIRST], 0, user_width)
        copy_range(second[node], 0, cores[SECOND], 0, user_width)


@noinline
def _step_adam(parts, begin, end, step, rates):
    """Take step `step` (from 1) of torch.optim.Adam on columns ``begin .. end`` of the working arrays."""
    values, slopes = parts[VALUES, begin:end], parts[SLOPES, begin:end]
    first, second = parts[FIRST, begin:end], parts[SECOND, begin:end]
    beta1, beta2 = rates[1], rates[2]
    # differences in double precision: 1 - 0.999 has few bits in single
    one, rest1 = float32(beta1), float32(1.0 - beta1)
    two, rest2 = float32(beta2), float32(1.0 - beta2)
    now, least = float32(rates[0] / (1.0 - beta1**step)), float32(rates[3])
    correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
    for k in range(len(values)):
        g = slopes[k]
        m = one * first[k] + rest1 * g
        v = two * second[k] + rest2 * g * g
        first[k], second[k] = m, v
        values[k] -= now * m / (np.sqrt(v) * correction + least)
