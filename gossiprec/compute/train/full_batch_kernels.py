"""The compiled training of clients by an analytic full-batch gradient; one call trains clients of one version."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.compute.train.client_step_kernels import (
    SLOPES,
    VALUES,
    load_client,
    max_segment_length,
    optimizer_step,
    store_client,
)
from gossiprec.federated.base import KernelStep
from gossiprec.native.jit import NO_DENORMALS, noinline, specialise, swap_float_mode
from gossiprec.numerics.draw_kernels import sample_negatives


@functools.cache
def specialise_full_batch(gradient: Any, term: Any) -> Any:
    """Return the training kernel with the gradients of a model and of a recommender's term."""
    return specialise(_train_clients, fill_stub=gradient, add_stub=term)


def fill_stub(core, items, slopes, item_slopes, samples, positives, shape, room):
    """Stub for a model's :attr:`gossiprec.models.base.analytic_gradients.AnalyticGradient.fill`."""
    raise NotImplementedError


def add_stub(client):
    """Stub for a recommender's :attr:`gossiprec.federated.base.AnalyticTerm.add`."""
    raise NotImplementedError


class ClientSamples(NamedTuple):
    """The samples of the clients of a call.

    Attributes
    ----------
    offsets, positives, member
        Of :class:`gossiprec.models.feeds.base.Feed`.
    more_offsets : ndarray of int64, shape (n_clients + 1,)
        Where the further samples of each client of a call begin.
    more_items : ndarray of int32, shape (more_offsets[-1],)
        Their items, which are distinct within a client and not positives.
    more_labels : ndarray of float32, shape (more_offsets[-1],)
    """

    offsets: Any
    positives: Any
    member: Any
    more_offsets: Any
    more_items: Any
    more_labels: Any


class FullBatchRule(NamedTuple):
    """The settings of a local update.

    Attributes
    ----------
    negatives, passes : int; seed : uint64
    summed : bool
        Whether the loss is the sum over a client's samples, not their mean.
    rates : ndarray of float64, shape (5,)
        Of :func:`gossiprec.compute.train.client_step_kernels.optimizer_step`.
    shape : ndarray of int64; room : ndarray of float32
        Arguments of the gradient.
    """

    negatives: Any
    passes: Any
    seed: Any
    summed: Any
    rates: Any
    shape: Any
    room: Any


class TermArguments(NamedTuple):
    """The arguments of a recommender's term.

    Attributes
    ----------
    numbers : ndarray of float64
    extra : ndarray of float32, shape (n, d)
        The extra of the version.
    of_step : ndarray of float32, shape (n_clients * passes, ...)
    of_samples : ndarray, shape (sum of n_positives * passes, ...)
        A recommender's draws, client after client, pass after pass.
    """

    numbers: Any
    extra: Any
    of_step: Any
    of_samples: Any


def _train_clients(version, clients, rows, data, rule, term, results, workplace):
    """Train clients.

    Parameters
    ----------
    version : Version
    clients : ndarray of int64, shape (n_clients, 2)
        Node, and the local update that determines its negatives.
    rows : ClientRows
    data : ClientSamples
    rule : FullBatchRule
    term : TermArguments
    results : ClientResults
    workplace : ClientScratch
    """
    tables, shared = version.tables, version.shared
    own, first, second, taken = rows.own, rows.first, rows.second, rows.taken
    negatives, passes, shape, room = rule.negatives, rule.passes, rule.shape, rule.room
    numbers, extra, of_step, of_samples = term.numbers, term.extra, term.of_step, term.of_samples
    mode = swap_float_mode(NO_DENORMALS)
    n_items, width = tables.shape
    places, touched = results.places, results.touched
    user_width, with_adam, most = own.shape[1], len(first) > 0, max_segment_length(places)
    counts, found = np.zeros(n_items, np.int32), np.empty(n_items + 1, np.int32)
    drawn = np.empty(_most_samples(clients, data, negatives), np.int32)
    samples, liked = np.empty(most, np.float32), np.empty(most, np.float32)
    cores, tiles = workplace.cores, workplace.tiles
    draws_at = 0
    for c in range(len(clients)):
        node, update = clients[c, 0], clients[c, 1]
        some = data.positives[data.offsets[node] : data.offsets[node + 1]]
        more = slice(data.more_offsets[c], data.more_offsets[c + 1])
        its = drawn[: len(some) * (1 + negatives) + more.stop - more.start]
        out = touched[places[c] : places[c + 1]]
        sample_negatives(
            some,
            data.member[node],
            n_items,
            node,
            update,
            negatives,
            rule.seed,
            its[: len(some) * (1 + negatives)],
        )
        for s in range(more.stop - more.start):
            its[len(some) * (1 + negatives) + s] = data.more_items[more.start + s]
        share = float32(1.0) if rule.summed else float32(1.0) / float32(max(len(its), 1))
        n = _count(its, data.member[node], data.more_labels[more], share, counts, found, out, samples, liked)
        results.n_touched[c] = n
        load_client(cores, tiles, width * n, own, first, second, shared, node)
        core, slopes = cores[VALUES], cores[SLOPES]
        items = tiles[VALUES, : width * n].reshape((width, n))
        item_slopes = tiles[SLOPES, : width * n].reshape((width, n))
        _to_columns(tables, out, items)
        for step in range(passes if n else 0):
            fill_stub(core, items, slopes, item_slopes, samples[:n], liked[:n], shape, room)
            client = KernelStep(
                core, items, slopes, item_slopes, samples[:n], liked[:n], its, numbers, extra,
                of_step[min(c * passes + step, len(of_step) - 1)], of_samples[draws_at : draws_at + len(some)], shape,
                room,
            )  # fmt: skip
            add_stub(client)
            draws_at += len(some)
            optimizer_step(cores, tiles, width * n, user_width, with_adam, taken[node], step, rule.rates)
            taken[node] += 1
        store_client(cores, own, first, second, results.weights[c], node)
        _to_rows(items, results.rows[places[c] :])
    swap_float_mode(mode)


@noinline
def _to_columns(tables, touched, items):
    """Set the columns of `items` to the rows of those touched."""
    for t in range(items.shape[1]):
        row = tables[touched[t]]
        for i in range(len(items)):
            items[i, t] = row[i]


@noinline
def _to_rows(items, rows):
    """Set the first rows to the columns of `items`."""
    for t in range(items.shape[1]):
        row = rows[t]
        for i in range(len(items)):
            row[i] = items[i, t]


@noinline
def _most_samples(clients, data, negatives):
    """Return the largest number of samples of a client."""
    most = 0
    for c in range(len(clients)):
        node, more = clients[c, 0], data.more_offsets[c + 1] - data.more_offsets[c]
        most = max(most, (data.offsets[node + 1] - data.offsets[node]) * (1 + negatives) + more)
    return most


@noinline
def _count(drawn, member, labels, share, counts, found, touched, samples, liked):
    """Count samples item by item; return the number of distinct items.

    A sample has weight `share` in the loss. `touched` becomes the items, ascending, `samples` the total weight of each
    item's samples, and `liked` that of its positive ones. `drawn` becomes the items' places among these; the last are
    those with `labels`. `counts`, one per item, is zero before and after; `found` is one longer, so that keeping an
    item needs no branch.
    """
    for s in range(len(drawn)):
        counts[drawn[s]] += 1
    n = 0
    for item in range(len(counts)):
        found[n] = item
        n += counts[item] != 0
    for t in range(n):
        item = found[t]
        touched[t] = item
        samples[t] = float32(counts[item]) * share
        liked[t] = samples[t] if member[item >> 3] >> np.uint8(item & 7) & 1 else float32(0.0)
        counts[item] = t
    for s in range(len(drawn)):
        drawn[s] = counts[drawn[s]]
    for s in range(len(labels)):
        liked[drawn[len(drawn) - len(labels) + s]] += labels[s] * share
    for t in range(n):
        counts[touched[t]] = 0
    return n
