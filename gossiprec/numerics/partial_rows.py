"""Rows of numbers of which some are not sent: choosing them, merging them, and rounding them to few bits.

A number that is not sent is NaN. The loops are plain Python on plain arrays; :func:`gossiprec.native.jit_cached`
compiles them. Random bits are hashes of a column and a key, so they depend on neither threads nor the order of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.native import jit_cached
from gossiprec.native.jit import bits_of, jitable, keep_16


@jitable
def mix_bits(column, key):
    """Return 32 random bits for a column and a key, as an int64 (the finaliser of MurmurHash3)."""
    mask = 0xFFFFFFFF
    word = (column * 0x9E3779B1 + key) & mask
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & mask
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & mask
    return word ^ (word >> 16)


@jitable
def collect(scores, n, bound, given, kept):
    """Write those of the first `n` given numbers to `kept` of which the scores reach a bound; return their count."""
    found, whole = 0, n // 16 * 16
    for at in range(0, whole, 16):
        found = keep_16(scores, at, bound, given, kept, found)
    for at in range(whole, n):
        reached = scores[at] >= bound
        kept[found] = given[at]
        found += int(reached)
    return found


@jitable
def count_from(scores, n, bound):
    """Return how many of the first `n` scores reach a bound."""
    found = np.int32(0)
    for place in range(n):
        found += np.int32(scores[place] >= bound)
    return found


@jitable
def find_bound(scores, n, k, spare, least):
    """Return a bound, at least `least`, that k to k + `spare` of the first `n` scores reach, else the k-th largest."""
    low, high = np.int64(least), np.int64(1) << 31
    while high - low > 1:
        middle = low + (high - low) // 2
        count = count_from(scores, n, np.int32(middle))
        if count < k:
            high = middle
        else:
            low = middle
            if count <= k + spare:
                break
    return np.int32(low)


@jitable
def choose(scores, k, columns, places, some):
    """Write the places of the k largest scores to ``places[:k]``, ascending; of equal ones those that come first.

    A sample gives a bound that somewhat more than k scores reach. Only among these a bisection finds the bound of k.

    Parameters
    ----------
    scores : ndarray of int32, shape (n,)
    k : int
    columns : ndarray of int32, shape (n,)
        The numbers 0, 1, ...
    places, some : ndarray of int32, shape (n + 16,)
        `some` is overwritten.
    """
    width, n, bound = len(scores), 0, np.int32(-(1 << 31))
    n_sample = min(256, width)
    step, expected = width // n_sample, k / width * n_sample
    wanted = int(expected + 3.0 * np.sqrt(expected) + 4.0)
    if wanted < n_sample:
        for place in range(n_sample):
            some[place] = scores[place * step]
        bound = find_bound(some, n_sample, wanted, 2, bound)
        n = collect(scores, width, bound, columns, places)
    if n < k:
        n, bound = width, np.int32(-(1 << 31))
        places[:width] = columns
    for i in range(n):
        some[i] = scores[places[i]]
    bound = find_bound(some, n, k, 0, bound)
    if count_from(some, n, bound) == k:
        collect(some, n, bound, places, places)
        return
    wanted, chosen = k, 0
    for i in range(n):
        wanted -= int(some[i] > bound)
    for i in range(n):
        equal = some[i] == bound and wanted > 0
        wanted -= int(equal)
        places[chosen] = places[i]
        chosen += int(some[i] > bound or equal)


@jitable
def choose_changes(kept, values, bases, key, largest, k, scratch):
    """Add the local update of a row to what its node remembers; return the places of k numbers to send.

    They are those with the largest remembered changes if `largest`, else chosen at random by `key`. `scratch` has
    four rows that are overwritten, but the first holds the numbers 0, 1, ...
    """
    width = len(kept)
    columns, scores, places = scratch[0, :width], scratch[1, :width], scratch[2]
    for column in range(width):
        change = values[column] - bases[column]
        kept[column] += change if change == change else np.float32(0.0)
        scores[column] = bits_of(kept[column]) & np.int32(0x7FFFFFFF)
    if not largest:
        for column in range(width):
            scores[column] = mix_bits(column, key) - 0x80000000
    choose(scores, k, columns, places, scratch[3])
    return places


@jitable
def scratch_rows(width):
    """Return the rows that :func:`choose_changes` overwrites."""
    scratch = np.empty((4, width + 16), np.int32)
    for column in range(width + 16):
        scratch[0, column] = column
    return scratch


def _sparsify(values, bases, memory, nodes, keys, how):
    """Leave k numbers of each row, and add what is not sent to the node's memory.

    Parameters
    ----------
    values, bases : ndarray of float32, shape (n, width)
        The versions to send, and those before the local update (a base equal to its version if there was none).
    memory : ndarray of float32, shape (n_nodes, width)
        The changes of each node that were not sent.
    nodes, keys : ndarray of int64, shape (n,)
    how : tuple of int, bool, bool and int
        k; whether nodes give up their own model, so that what was not sent is sent on top of the next version; whether
        the largest remembered changes are sent, else k numbers at random; and the count of numbers at the front that a
        node never gives up: its user's row.
    """
    k, adopts, largest, n_own = how
    width = values.shape[1]
    scratch = scratch_rows(width)
    sent = np.empty(k, np.float32)
    for row in range(len(values)):
        kept, value = memory[nodes[row]], values[row]
        places = choose_changes(kept, value, bases[row], keys[row], largest, k, scratch)
        for i in range(k):
            column = places[i]
            adopted = adopts and column >= n_own
            sent[i] = bases[row, column] + kept[column] if adopted else value[column]
            kept[column] = np.float32(0.0)
        value[:] = np.float32(np.nan)
        for i in range(k):
            value[places[i]] = sent[i]


def _pack_rows(rows, places_of, memory, nodes, keys, how):
    """Write k numbers of versions to rows of messages, from column `at` on, and after them their columns.

    What is sent is what :func:`_sparsify` leaves of the columns from `begin` on, if nodes keep their own model.
    `places_of` are the rows of versions, of their bases and of messages; `how` is (k, largest, begin, at).
    """
    (source, bases, target), (k, largest, begin, at) = places_of, how
    width = memory.shape[1] - begin
    scratch = scratch_rows(width)
    for row in range(len(source)):
        kept = memory[nodes[row], begin:]
        value, base = rows[source[row], begin : begin + width], rows[bases[row], begin : begin + width]
        places = choose_changes(kept, value, base, keys[row], largest, k, scratch)
        sent, columns = rows[target[row], at : at + k], rows[target[row], at + k : at + 2 * k].view(np.int32)
        for i in range(k):
            column = places[i]
            sent[i] = value[column]
            columns[i] = column + begin
            kept[column] = np.float32(0.0)


def _keep_piece(values, begins, ends, steps):
    """Leave the columns ``begin .. end`` of each row, in steps."""
    for row in range(len(values)):
        some = slice(begins[row], ends[row], steps[row])
        kept = values[row, some].copy()
        values[row, :] = np.float32(np.nan)
        values[row, some] = kept


def _quantize(values, keys, ends, levels):
    """Round the numbers of each part of each row up or down at random to equal steps between its extremes."""
    for row in range(len(values)):
        begin = 0
        for end in ends:
            low, high = np.float32(np.inf), np.float32(-np.inf)
            for column in range(begin, end):
                value = values[row, column]
                low, high = (
                    min(low, value) if value == value else low,
                    max(high, value) if value == value else high,
                )
            step = (np.float64(high) - np.float64(low)) / levels
            if step > 0.0:
                for column in range(begin, end):
                    value = values[row, column]
                    if value == value:
                        chance = mix_bits(column, keys[row]) / 4294967296.0
                        level = min(np.floor((np.float64(value) - low) / step + chance), levels)
                        values[row, column] = np.float32(low + level * step)
            begin = end


def _take_rows(rows, places, begin, out):
    """Copy the columns from `begin` on of some rows."""
    for row in range(len(places)):
        given, kept = rows[places[row], begin : begin + out.shape[1]], out[row]
        for column in range(len(kept)):
            kept[column] = given[column]


def _put_rows(rows, places, begin, values, n_sent):
    """Write values to the columns from `begin` on of some rows, zeros to the others; count those that are no NaN."""
    for row in range(len(places)):
        target, given, count = rows[places[row]], values[row], np.int32(0)
        target[:begin] = np.float32(0.0)
        target[begin + len(given) :] = np.float32(0.0)
        some = target[begin : begin + len(given)]
        for column in range(len(given)):
            some[column] = given[column]
        for column in range(len(given)):
            count += np.int32(given[column] == given[column])
        n_sent[row] = count


def _merge_sent(rows, tasks, entry_rows, keeps, columns, packed, at):
    """Merge received rows into each task's row; the receiver keeps its own value of a number that was not sent.

    A received row holds ``packed`` numbers from column `at` on and then their columns, or else numbers in their places.
    Of these the columns ``begin .. end`` in steps were sent, without those that are NaN. `tasks` are the rows that each
    task reads and writes, and the end of its entries.
    """
    (source, target, ends), first = tasks, 0
    for task in range(len(source)):
        if source[task] != target[task]:
            rows[target[task]] = rows[source[task]]
        own = rows[target[task]]
        for entry in range(first, ends[task]):
            begin, end, step = columns[0][entry], columns[1][entry], columns[2][entry]
            received, keep, n = rows[entry_rows[entry]], keeps[entry], packed[entry]
            other = np.float32(1.0) - keep
            if n > 0:
                sent, places = received[at : at + n], received[at + n : at + 2 * n].view(np.int32)
                for i in range(n):
                    column, value = places[i], sent[i]
                    mixed = value if keep == 0.0 else keep * own[column] + other * value
                    own[column] = mixed if begin <= column < end and value == value else own[column]
            elif step == 1 and keep == 0.0:
                some, given = own[begin:end], received[begin:end]
                for column in range(len(some)):
                    some[column] = given[column] if given[column] == given[column] else some[column]
            elif step == 1:
                some, given = own[begin:end], received[begin:end]
                for column in range(len(some)):
                    mixed = keep * some[column] + other * given[column]
                    some[column] = mixed if given[column] == given[column] else some[column]
            else:
                for column in range(begin, end, step):
                    value = received[column]
                    mixed = value if keep == 0.0 else keep * own[column] + other * value
                    own[column] = mixed if value == value else own[column]
        first = ends[task]


def sparsify(*arguments: Any) -> None:
    """Run :func:`_sparsify`, compiled."""
    jit_cached(_sparsify)(*arguments)


def pack_rows(*arguments: Any) -> None:
    """Run :func:`_pack_rows`, compiled."""
    jit_cached(_pack_rows)(*arguments)


def keep_piece(*arguments: Any) -> None:
    """Run :func:`_keep_piece`, compiled."""
    jit_cached(_keep_piece)(*arguments)


def quantize(*arguments: Any) -> None:
    """Run :func:`_quantize`, compiled."""
    jit_cached(_quantize)(*arguments)


def merge_sent(*arguments: Any) -> None:
    """Run :func:`_merge_sent`, compiled."""
    jit_cached(_merge_sent)(*arguments)


def take_rows(*arguments: Any) -> None:
    """Run :func:`_take_rows`, compiled."""
    jit_cached(_take_rows)(*arguments)


def put_rows(*arguments: Any) -> None:
    """Run :func:`_put_rows`, compiled."""
    jit_cached(_put_rows)(*arguments)
