"""The compiled training of clients by an analytic gradient of pairs; one call trains clients of one version."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gossiprec.compute.train.client_step_kernels import (
    SLOPES,
    VALUES,
    load_client,
    max_segment_length,
    optimizer_step,
    store_client,
)
from gossiprec.native.jit import NO_DENORMALS, noinline, specialise, swap_float_mode
from gossiprec.numerics.flat_ops import copy_range


@functools.cache
def specialise_pair(gradient: Any) -> Any:
    """Return the training kernel with the gradient of a model."""
    return specialise(_train_clients, fill_stub=gradient)


def fill_stub(core, items, slopes, item_slopes, liked, others, numbers):
    """Stub for a model's :attr:`gossiprec.models.base.analytic_gradients.PairGradient.fill`."""
    raise NotImplementedError


class PairSamples(NamedTuple):
    """The samples of the clients of a call.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_clients + 1,)
        Where each client's pairs begin.
    liked, others : ndarray of int32, shape (offsets[-1],)
        Each pair's item, and its negative.
    """

    offsets: Any
    liked: Any
    others: Any


class PairRule(NamedTuple):
    """The settings of a local update.

    Attributes
    ----------
    passes : int
    rates : ndarray of float64, shape (5,)
        Of :func:`gossiprec.compute.train.client_step_kernels.optimizer_step`.
    numbers : ndarray of float64
        Arguments of the gradient.
    """

    passes: Any
    rates: Any
    numbers: Any


def _train_clients(version, nodes, rows, pairs, rule, results, workplace):
    """Train clients, one after the other.

    Parameters
    ----------
    version : Version
    nodes : ndarray of int64, shape (n_clients,)
    rows : ClientRows
    pairs : PairSamples
    rule : PairRule
    results : ClientResults
    workplace : ClientScratch
    """
    tables, shared = version.tables, version.shared
    own, first, second, taken = rows.own, rows.first, rows.second, rows.taken
    mode = swap_float_mode(NO_DENORMALS)
    n_items, width = tables.shape
    user_width, with_adam = own.shape[1], len(first) > 0
    number = np.full(n_items, -1, np.int32)
    places = np.empty((2, max_segment_length(pairs.offsets)), np.int32)
    cores, tiles = workplace.cores, workplace.tiles
    for c in range(len(nodes)):
        node, some = nodes[c], slice(pairs.offsets[c], pairs.offsets[c + 1])
        n_pairs, touched = some.stop - some.start, results.touched[results.places[c] : results.places[c + 1]]
        liked, others = places[0, :n_pairs], places[1, :n_pairs]
        n = _number(pairs.liked[some], pairs.others[some], number, touched, liked, others)
        results.n_touched[c] = n
        load_client(cores, tiles, width * n, own, first, second, shared, node)
        items = tiles[VALUES, : width * n].reshape((n, width))
        item_slopes = tiles[SLOPES, : width * n].reshape((n, width))
        for t in range(n):
            copy_range(items[t], 0, tables[touched[t]], 0, width)
        for step in range(rule.passes if n else 0):
            fill_stub(cores[VALUES], items, cores[SLOPES], item_slopes, liked, others, rule.numbers)
            optimizer_step(cores, tiles, width * n, user_width, with_adam, taken[node], step, rule.rates)
            taken[node] += 1
        store_client(cores, own, first, second, results.weights[c], node)
        for t in range(n):
            copy_range(results.rows[results.places[c] + t], 0, items[t], 0, width)
    swap_float_mode(mode)


@noinline
def _number(items, negatives, number, touched, liked, others):
    """Set `touched` to the items of some pairs, ascending, and pairs to places there; return their number.

    `number`, one for each item, is -1 before and after.
    """
    n = 0
    for column in (items, negatives):
        for item in column:
            if number[item] < 0:
                number[item] = 0
                touched[n] = item
                n += 1
    touched[:n].sort()
    for t in range(n):
        number[touched[t]] = t
    for p in range(len(items)):
        liked[p], others[p] = number[items[p]], number[negatives[p]]
    for t in range(n):
        number[touched[t]] = -1
    return n
