"""The compiled training of clients by an analytic gradient of sequences, for clients of one version per call."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gossiprec.compute.train.client_step_kernels import (
    SLOPES,
    VALUES,
    load_client,
    optimizer_step,
    sgd_step_from_version,
    store_client,
)
from gossiprec.models.base.analytic_gradients import SequenceBatch
from gossiprec.native.jit import NO_DENORMALS, noinline, specialise, swap_float_mode
from gossiprec.numerics.flat_ops import copy_range


@functools.cache
def specialise_sequence(gradient: Any) -> Any:
    """Return the training kernel with the gradient of a model."""
    return specialise(_train_clients, fill_stub=gradient)


def fill_stub(core, items, slopes, item_slopes, batch, shape):
    """Stub for a model's :attr:`gossiprec.models.base.analytic_gradients.SequenceGradient.fill`."""
    raise NotImplementedError


class SequenceSamples(NamedTuple):
    """The samples of the clients of a call.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_clients + 1,)
        Where each client's places begin.
    previous, wanted : ndarray of int32, shape (offsets[-1],)
        The item before each place, and the item at the place; -1 if there is none.
    other_offsets : ndarray of int64, shape (n_clients + 1,)
        Where each client's negatives begin.
    others : ndarray of int32, shape (other_offsets[-1],)
        The negatives; -1 if there is none.
    other_rows : ndarray of int64, shape (n_clients,)
        Number of equal rows into which a client's negatives are divided: one for all its places, or one for each place.
    keep : ndarray of float32, shape (offsets[-1] * passes, item_width) or (0, ...)
        The model's draws for each place, client after client, pass after pass.
    """

    offsets: Any
    previous: Any
    wanted: Any
    other_offsets: Any
    others: Any
    other_rows: Any
    keep: Any


class SequenceRule(NamedTuple):
    """The settings of a local update, and the clients of a call that this thread trains.

    Attributes
    ----------
    passes : int
    rates : ndarray of float64, shape (5,)
        Of :func:`gossiprec.compute.train.client_step_kernels.optimizer_step`.
    shape : ndarray of int64
        Arguments of the gradient.
    part, parts : int
        Clients number ``part, part + parts, ...``
    """

    passes: Any
    rates: Any
    shape: Any
    part: Any
    parts: Any


def _train_clients(version, nodes, client_rows, sequences, rule, results, workplace):
    """Train some clients, one after the other.

    Parameters
    ----------
    version : Version
    nodes : ndarray of int64, shape (n_clients,)
    client_rows : ClientRows
    sequences : SequenceSamples
    rule : SequenceRule
    results : ClientResults
    workplace : ClientScratch
    """
    tables, shared, passes = version.tables, version.shared, rule.passes
    own, first, second, taken = client_rows.own, client_rows.first, client_rows.second, client_rows.taken
    mode = swap_float_mode(NO_DENORMALS)
    n_items, width = tables.shape
    user_width, with_adam = own.shape[1], len(first) > 0
    once = passes == 1 and not with_adam and user_width == 0
    number = np.full(n_items, -1, np.int32)
    cores, tiles = workplace.cores, workplace.tiles
    for c in range(rule.part, len(nodes), rule.parts):
        node = nodes[c]
        some = slice(sequences.offsets[c], sequences.offsets[c + 1])
        touched = results.touched[results.places[c] : results.places[c + 1]]
        previous, wanted = sequences.previous[some].copy(), sequences.wanted[some].copy()
        others = sequences.others[sequences.other_offsets[c] : sequences.other_offsets[c + 1]].copy()
        n = _number(previous, wanted, others, number, touched)
        rows = sequences.other_rows[c]
        drawn_others = others.reshape((rows, len(others) // rows))
        results.n_touched[c] = n
        if not once:
            load_client(cores, tiles, width * n, own, first, second, shared, node)
        core = shared if once else cores[VALUES]
        items = tiles[VALUES, : width * n].reshape((n, width))
        item_slopes = tiles[SLOPES, : width * n].reshape((n, width))
        for t in range(n):
            copy_range(items[t], 0, tables[touched[t]], 0, width)
        for step in range(passes if len(wanted) else 0):
            drawn = passes * some.start + step * len(wanted)
            batch = SequenceBatch(previous, wanted, drawn_others, sequences.keep[drawn : drawn + len(wanted)])
            fill_stub(core, items, cores[SLOPES], item_slopes, batch, rule.shape)
            if once:
                sgd_step_from_version(shared, results.weights[c], cores, tiles, width * n, rule.rates)
            else:
                optimizer_step(cores, tiles, width * n, user_width, with_adam, taken[node], step, rule.rates)
            taken[node] += 1
        if not once:
            store_client(cores, own, first, second, results.weights[c], node)
        elif not len(wanted):
            copy_range(results.weights[c], 0, shared, 0, len(shared))
        for t in range(n):
            copy_range(results.rows[results.places[c] + t], 0, items[t], 0, width)
    swap_float_mode(mode)


@noinline
def _number(previous, wanted, others, number, touched):
    """Set `touched` to all items, ascending, and columns to places there; return the number of items.

    `number`, one for each item, is -1 before and after.
    """
    n = 0
    for column in (previous, wanted, others):
        for item in column:
            if item >= 0 and number[item] < 0:
                number[item] = 0
                touched[n] = item
                n += 1
    touched[:n].sort()
    for t in range(n):
        number[touched[t]] = t
    for column in (previous, wanted, others):
        for k in range(len(column)):
            column[k] = number[column[k]] if column[k] >= 0 else -1
    for t in range(n):
        number[touched[t]] = -1
    return n
