"""The compiled training of clients without a model, by the analytic gradient of their samples.

One call trains clients of one version, one after the other. There is a template for each kind of samples: labelled
items (:func:`train_labelled`), pairs (:func:`train_pairs`) and sequences (:func:`train_sequences`).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.federated import KernelStep
from gossiprec.models.base.kernel_interface import LabelledBatch, PairBatch, SequenceBatch
from gossiprec.native.jit import NO_DENORMALS, inline, noinline, specialise, swap_float_mode
from gossiprec.numerics.draw_kernels import sample_negatives, shuffle
from gossiprec.numerics.flat_ops import axpy, copy_range, fill_range
from gossiprec.numerics.lazy_adam import adam_step, step_range

VALUES, SLOPES, FIRST, SECOND = range(4)
"""Rows of a client's working arrays: numbers, their gradient, and Adam's two moments."""

specialise_clients = functools.cache(specialise)
"""Return a template with the gradient of a model (`fill_stub`), and of a recommender's term (`add_stub`)."""


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
    """The rows that the store keeps of every node; training changes them.

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


class ClientRule(NamedTuple):
    """The settings of a local update, and the clients of a call that this thread trains.

    Attributes
    ----------
    passes : int
    rates : ndarray of float64, shape (5,)
        Of :func:`optimizer_step`.
    constants : ndarray of int64 or float64
        The model's sizes or constants, for its gradient.
    part, parts : int
        Clients number ``part, part + parts, ...``
    """

    passes: Any
    rates: Any
    constants: Any
    part: Any
    parts: Any


class ClientResults(NamedTuple):
    """The output arrays of a call.

    Attributes
    ----------
    places : ndarray of int64, shape (n_clients + 1,)
        The beginning of each client's results.
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
    room : ndarray of float32
        Working memory of the gradient.
    """

    cores: Any
    tiles: Any
    room: Any


class LabelledSamples(NamedTuple):
    """The samples of the clients of a call: items, positive or not; negatives are drawn by the kernel.

    Attributes
    ----------
    updates : ndarray of int64, shape (n_clients,)
        The local update that determines each client's negatives.
    epochs : ndarray of int64, shape (n_clients,)
        The number of each client's first epoch, which determines its order of samples.
    batch_size : int
        0 for all samples.
    negatives : int; seed : uint64
    offsets, positives, member
        Of :class:`gossiprec.models.feeds.base.Feed`.
    more_offsets : ndarray of int64, shape (n_clients + 1,)
        The beginning of the further samples of each client.
    more_items : ndarray of int32, shape (more_offsets[-1],)
        Their items, which are distinct within a client and not positives.
    more_labels : ndarray of float32, shape (more_offsets[-1],)
    summed : bool
        Whether the loss is the sum over a client's samples, not their mean.
    term : TermArguments
    """

    updates: Any
    epochs: Any
    batch_size: Any
    negatives: Any
    seed: Any
    offsets: Any
    positives: Any
    member: Any
    more_offsets: Any
    more_items: Any
    more_labels: Any
    summed: Any
    term: Any


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


class PairSamples(NamedTuple):
    """The samples of the clients of a call: pairs of an item and a negative.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_clients + 1,)
        The beginning of each client's pairs.
    liked, others : ndarray of int32, shape (offsets[-1],)
        Each pair's item, and its negative.
    """

    offsets: Any
    liked: Any
    others: Any


class SequenceSamples(NamedTuple):
    """The samples of the clients of a call: sequences of items.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_clients + 1,)
        The beginning of each client's places.
    previous, wanted : ndarray of int32, shape (offsets[-1],)
        The item before each place, and the item at the place; -1 if there is none.
    other_offsets : ndarray of int64, shape (n_clients + 1,)
        The beginning of each client's negatives.
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


def fill_stub(core, items, slopes, item_slopes, batch, shape, room):
    """Stub for :attr:`gossiprec.models.base.kernel_interface.CompiledGradient.fill`."""
    raise NotImplementedError


def add_stub(client):
    """Stub for a recommender's :attr:`gossiprec.federated.AnalyticTerm.add`."""
    raise NotImplementedError


def train_labelled(version, nodes, rows, data, rule, results, scratch):
    """Train clients on their labelled samples; items are columns of the working arrays.

    A batch is the weights of its samples among those of all touched items: others have weight 0.

    Parameters
    ----------
    version : Version
    nodes : ndarray of int64, shape (n_clients,)
    rows : ClientRows
    data : LabelledSamples
    rule : ClientRule
        With one part.
    results : ClientResults
    scratch : ClientScratch
    """
    mode = swap_float_mode(NO_DENORMALS)
    n_items, width = version.tables.shape
    most = max_segment_length(results.places)
    columns = np.empty((2, _most_samples(nodes, data)), np.int32)
    drawn, order = columns[0], columns[1]
    counts = ItemCounts(
        np.zeros(n_items, np.int32), np.empty(n_items + 1, np.int32), np.empty(most, np.float32),
        np.empty(most, np.float32),
    )  # fmt: skip
    core, slopes, tiles = scratch.cores[VALUES], scratch.cores[SLOPES], scratch.tiles
    of_step, of_samples, draws_at = data.term.of_step, data.term.of_samples, 0
    for c in range(len(nodes)):
        node = nodes[c]
        positives = data.positives[data.offsets[node] : data.offsets[node + 1]]
        its, touched = _draw_samples(c, node, n_items, data, drawn), results.touched[results.places[c] :]
        labels = data.more_labels[data.more_offsets[c] : data.more_offsets[c + 1]]
        share = float32(1.0) if data.summed else float32(1.0) / float32(max(len(its), 1))
        n = _count_samples(its, positives, labels, share, counts, touched)
        batch = LabelledBatch(counts.samples[:n], counts.liked[:n])
        results.n_touched[c] = n
        load_client(scratch, width * n, rows, version.shared, node)
        items = tiles[VALUES, : width * n].reshape((width, n))
        item_slopes = tiles[SLOPES, : width * n].reshape((width, n))
        _to_columns(version.tables, touched, items)
        size = data.batch_size if 0 < data.batch_size < len(its) else len(its)
        for epoch in range(rule.passes if n else 0):
            shuffle(order, len(its), node, data.epochs[c] + epoch, data.seed, size < len(its))
            for step, begin in enumerate(range(0, len(its), size), epoch * -(-len(its) // size)):
                if size < len(its):
                    some = order[begin : min(begin + size, len(its))]
                    _count_batch(its, some, labels, data, batch)
                fill_stub(core, items, slopes, item_slopes, batch, rule.constants, scratch.room)
                client = KernelStep(
                    core, items, slopes, item_slopes, batch.samples, batch.positives, its, data.term.numbers,
                    data.term.extra,
                    of_step[min(c * rule.passes + epoch, len(of_step) - 1)],
                    of_samples[draws_at : draws_at + len(positives)], rule.constants, scratch.room, node,
                )  # fmt: skip
                add_stub(client)
                optimizer_step(scratch, width * n, rows, node, step, rule.rates)
            draws_at += len(positives)
        store_client(scratch, rows, results.weights[c], node)
        _to_rows(items, results.rows[results.places[c] :])
    swap_float_mode(mode)


class ItemCounts(NamedTuple):
    """The working arrays in which the samples of a client are counted item by item.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_items,)
        Zero before and after.
    found : ndarray of int32, shape (n_items + 1,)
        The items; one longer, so that keeping an item needs no branch.
    samples, liked : ndarray of float32, shape (most_touched,)
        The total weight of each touched item's samples, and of its positive ones.
    """

    counts: Any
    found: Any
    samples: Any
    liked: Any


def train_pairs(version, nodes, rows, pairs, rule, results, scratch):
    """Train some clients on pairs.

    Parameters
    ----------
    version : Version
    nodes : ndarray of int64, shape (n_clients,)
    rows : ClientRows
    pairs : PairSamples
    rule : ClientRule
    results : ClientResults
    scratch : ClientScratch
    """
    mode = swap_float_mode(NO_DENORMALS)
    n_items, width = version.tables.shape
    number = np.full(n_items, -1, np.int32)
    columns = np.empty((2, max_segment_length(pairs.offsets)), np.int32)
    cores = scratch.cores
    for c in range(rule.part, len(nodes), rule.parts):
        node, first, n_pairs = nodes[c], pairs.offsets[c], pairs.offsets[c + 1] - pairs.offsets[c]
        liked, others = columns[0, :n_pairs], columns[1, :n_pairs]
        copy_range(liked, 0, pairs.liked, first, n_pairs)
        copy_range(others, 0, pairs.others, first, n_pairs)
        touched = results.touched[results.places[c] : results.places[c + 1]]
        n = _number_items((liked, others), number, touched)
        results.n_touched[c] = n
        load_client(scratch, width * n, rows, version.shared, node)
        items, item_slopes = _load_items(version.tables, touched[:n], scratch.tiles)
        batch = PairBatch(liked, others)
        for step in range(rule.passes if n else 0):
            fill_stub(cores[VALUES], items, cores[SLOPES], item_slopes, batch, rule.constants, scratch.room)
            optimizer_step(scratch, width * n, rows, node, step, rule.rates)
        store_client(scratch, rows, results.weights[c], node)
        _store_items(items, results.rows, results.places[c])
    swap_float_mode(mode)


def train_sequences(version, nodes, rows, sequences, rule, results, scratch):
    """Train some clients on sequences.

    Parameters
    ----------
    version : Version
    nodes : ndarray of int64, shape (n_clients,)
    rows : ClientRows
    sequences : SequenceSamples
    rule : ClientRule
    results : ClientResults
    scratch : ClientScratch
    """
    mode, passes = swap_float_mode(NO_DENORMALS), rule.passes
    n_items, width = version.tables.shape
    once = passes == 1 and len(rows.first) == 0 and rows.own.shape[1] == 0
    number = np.full(n_items, -1, np.int32)
    cores, tiles = scratch.cores, scratch.tiles
    for c in range(rule.part, len(nodes), rule.parts):
        node, some = nodes[c], slice(sequences.offsets[c], sequences.offsets[c + 1])
        touched = results.touched[results.places[c] : results.places[c + 1]]
        previous, wanted = sequences.previous[some].copy(), sequences.wanted[some].copy()
        others = sequences.others[sequences.other_offsets[c] : sequences.other_offsets[c + 1]].copy()
        n = _number_items((previous, wanted, others), number, touched)
        other_rows = others.reshape((sequences.other_rows[c], len(others) // sequences.other_rows[c]))
        results.n_touched[c] = n
        if not once:
            load_client(scratch, width * n, rows, version.shared, node)
        core = version.shared if once else cores[VALUES]
        items, item_slopes = _load_items(version.tables, touched[:n], tiles)
        for step in range(passes if len(wanted) else 0):
            drawn = passes * some.start + step * len(wanted)
            batch = SequenceBatch(previous, wanted, other_rows, sequences.keep[drawn : drawn + len(wanted)])
            fill_stub(core, items, cores[SLOPES], item_slopes, batch, rule.constants, scratch.room)
            if once:
                sgd_step_from_version(version.shared, results.weights[c], cores, tiles, width * n, rule.rates)
                rows.taken[node] += 1
            else:
                optimizer_step(scratch, width * n, rows, node, step, rule.rates)
        if not once:
            store_client(scratch, rows, results.weights[c], node)
        elif not len(wanted):
            copy_range(results.weights[c], 0, version.shared, 0, len(version.shared))
        _store_items(items, results.rows, results.places[c])
    swap_float_mode(mode)


@noinline
def max_segment_length(places):
    """Return the largest distance between two consecutive places."""
    most = 0
    for c in range(len(places) - 1):
        most = max(most, places[c + 1] - places[c])
    return most


@inline
def load_client(scratch, n_numbers, rows, shared, node):
    """Load a client's own row with its moments, and the shared weights; other moments are zero."""
    cores, user_width = scratch.cores, rows.own.shape[1]
    copy_range(cores[VALUES], 0, rows.own[node], 0, user_width)
    copy_range(cores[VALUES], user_width, shared, 0, len(shared))
    if len(rows.first) > 0:
        for moment, kept in ((FIRST, rows.first), (SECOND, rows.second)):
            fill_range(cores[moment], user_width, len(shared), float32(0.0))
            copy_range(cores[moment], 0, kept[node], 0, user_width)
            fill_range(scratch.tiles[moment], 0, n_numbers, float32(0.0))


@inline
def optimizer_step(scratch, n_numbers, rows, node, step, rates):
    """Take step `step` (from 0) of a local update of a client, and count it.

    Parameters
    ----------
    scratch : ClientScratch
        Of the items, the first `n_numbers` of each row are used.
    rows : ClientRows
    rates : ndarray of float64, shape (5,)
        Learning rate, beta 1, beta 2, epsilon; and 1 if only the user's row uses Adam and the rest takes plain steps.
    """
    cores, tiles, user_width, with_adam = scratch.cores, scratch.tiles, rows.own.shape[1], len(rows.first) > 0
    if with_adam:
        _step_adam(cores, 0, user_width, rows.taken[node] + 1, rates)
    if with_adam and not rates[4]:
        _step_adam(cores, user_width, cores.shape[1], step + 1, rates)
        _step_adam(tiles, 0, n_numbers, step + 1, rates)
    else:
        plain = user_width if with_adam else 0
        axpy(cores[VALUES], plain, cores[SLOPES], plain, cores.shape[1] - plain, float32(-rates[0]))
        axpy(tiles[VALUES], 0, tiles[SLOPES], 0, n_numbers, float32(-rates[0]))
    rows.taken[node] += 1


@inline
def sgd_step_from_version(shared, weights, cores, tiles, n_numbers, rates):
    """Take the single plain step of a client without a user row, from the version straight to the result."""
    factor, slopes = float32(-rates[0]), cores[SLOPES]
    for k in range(len(weights)):
        weights[k] = shared[k] + slopes[k] * factor
    axpy(tiles[VALUES], 0, tiles[SLOPES], 0, n_numbers, factor)


@inline
def store_client(scratch, rows, weights, node):
    """Store a client's trained row with its moments, and its trained shared weights."""
    cores, user_width = scratch.cores, rows.own.shape[1]
    copy_range(rows.own[node], 0, cores[VALUES], 0, user_width)
    copy_range(weights, 0, cores[VALUES], user_width, len(weights))
    if len(rows.first) > 0:
        copy_range(rows.first[node], 0, cores[FIRST], 0, user_width)
        copy_range(rows.second[node], 0, cores[SECOND], 0, user_width)


@noinline
def _step_adam(parts, begin, end, step, rates):
    """Take step `step` (from 1) of torch.optim.Adam on columns ``begin .. end`` of the working arrays."""
    adam = adam_step(step, rates[0], rates[1], rates[2], rates[3])
    step_range(
        parts[VALUES, begin:end],
        parts[FIRST, begin:end],
        parts[SECOND, begin:end],
        parts[SLOPES, begin:end],
        adam,
    )


@inline
def _load_items(tables, touched, tiles):
    """Return the values and the slopes of touched items, as rows of the working arrays; the values are loaded."""
    n, width = len(touched), tables.shape[1]
    items = tiles[VALUES, : width * n].reshape((n, width))
    for t in range(n):
        copy_range(items[t], 0, tables[touched[t]], 0, width)
    return items, tiles[SLOPES, : width * n].reshape((n, width))


@inline
def _store_items(items, rows, place):
    """Store the rows of items in the results, from a place on."""
    for t in range(len(items)):
        copy_range(rows[place + t], 0, items[t], 0, items.shape[1])


@noinline
def _number_items(columns, number, touched):
    """Set `touched` to all items in some columns, ascending, and columns to places there; return the number of items.

    -1 means no item. `number`, one for each item, is -1 before and after.
    """
    n = 0
    for column in columns:
        for item in column:
            if item >= 0 and number[item] < 0:
                number[item] = 0
                touched[n] = item
                n += 1
    touched[:n].sort()
    for t in range(n):
        number[touched[t]] = t
    for column in columns:
        for k in range(len(column)):
            column[k] = number[column[k]] if column[k] >= 0 else -1
    for t in range(n):
        number[touched[t]] = -1
    return n


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
def _count_batch(places, some, labels, data, batch):
    """Set the weights of all touched items to those of some samples, of which `places` holds the items' places.

    A client's last samples have `labels`; before them are positives, each followed by its negatives.
    """
    (samples, liked), n_own = batch, len(places) - len(labels)
    share = float32(1.0) if data.summed else float32(1.0) / float32(len(some))
    samples[:], liked[:] = float32(0.0), float32(0.0)
    for s in some:
        samples[places[s]] += share
        if s >= n_own:
            liked[places[s]] += labels[s - n_own] * share
        elif s % (1 + data.negatives) == 0:
            liked[places[s]] += share


@noinline
def _most_samples(nodes, data):
    """Return the largest number of samples of a client."""
    most = 0
    for c in range(len(nodes)):
        own, more = (
            data.offsets[nodes[c] + 1] - data.offsets[nodes[c]],
            data.more_offsets[c + 1] - data.more_offsets[c],
        )
        most = max(most, own * (1 + data.negatives) + more)
    return most


@noinline
def _draw_samples(c, node, n_items, data, drawn):
    """Return the items of a client's positives and negatives, and of its further samples, in the array `drawn`."""
    positives = data.positives[data.offsets[node] : data.offsets[node + 1]]
    n, first, last = len(positives) * (1 + data.negatives), data.more_offsets[c], data.more_offsets[c + 1]
    sample_negatives(
        positives, data.member[node], n_items, node, data.updates[c], data.negatives, data.seed, drawn[:n]
    )
    for s in range(last - first):
        drawn[n + s] = data.more_items[first + s]
    return drawn[: n + last - first]


@noinline
def _count_samples(drawn, positives, labels, share, work, touched):
    """Count samples item by item; return the number of distinct items.

    A sample has weight `share` in the loss. `touched` becomes the items, ascending, and the weights of `work` are
    filled. `drawn` becomes the items' places among these; the last are those with `labels`.
    """
    counts, found, samples, liked = work.counts, work.found, work.samples, work.liked
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
        liked[t] = float32(0.0)
        counts[item] = t
    for k in range(len(positives)):
        t = counts[positives[k]]
        liked[t] = samples[t]
    for s in range(len(drawn)):
        drawn[s] = counts[drawn[s]]
    for s in range(len(labels)):
        liked[drawn[len(drawn) - len(labels) + s]] += labels[s] * share
    for t in range(n):
        counts[touched[t]] = 0
    return n
