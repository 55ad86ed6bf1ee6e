"""Rows of numbers of which some are not sent: choosing them, merging them, and rounding them to few bits.

A number that is not sent is NaN. The loops are plain Python on plain arrays; :func:`gossiprec.native.jit_cached`
compiles them. Random bits are hashes of a column and a key, so they depend on neither threads nor the order of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.native import jit_cached
from gossiprec.native.jit import jitable


@jitable
def mix_bits(column, key):
    """Return 32 random bits for a column and a key, as an int64 (the finaliser of MurmurHash3)."""
    mask = 0xFFFFFFFF
    word = (column * 0x9E3779B1 + key) & mask
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & mask
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & mask
    return word ^ (word >> 16)


@jitable
def choose(scores, k, places):
    """Write the places of the k largest scores to ``places[:k]``, ascending; of equal ones those that come first.

    A sample gives a bound that about k scores reach. Three rounds of counting find the smallest chosen score among
    these, digit by digit from the top.

    Parameters
    ----------
    scores : ndarray of uint32, shape (n,)
    k : int
    places : ndarray of int32, shape (n + 1,)
    """
    width, n = len(scores), 0
    n_sample = min(128, width)
    sample, step = np.empty(n_sample, np.uint32), width // n_sample
    for place in range(n_sample):
        sample[place] = scores[place * step]
    sample.sort()
    expected = k / width * n_sample
    rank = n_sample - 1 - int(expected + 3.0 * np.sqrt(expected) + 4.0)
    if rank > 0:
        bound, found = max(sample[rank], np.uint32(1)), np.uint64(0)
        for place in range(width):
            places[found] = place
            found += np.uint64(scores[np.uint64(place)] >= bound)
        n = int(found)
    if n < k:
        n = width
        for place in range(width):
            places[place] = place
    least, wanted, counts = 0, k, np.zeros(2048, np.int64)
    for shift in (21, 10, -1):
        counts[:] = 0
        low, last = max(shift, 0), 1023 if shift < 0 else 2047
        above = 21 if shift == 10 else 10
        for i in range(n):
            score = np.int64(scores[places[i]])
            if shift == 21 or score >> above == least:
                counts[(score >> low) & last] += 1
        digit = last
        while counts[digit] < wanted:
            wanted -= counts[digit]
            digit -= 1
        least = least * (last + 1) + digit
    chosen = 0
    for i in range(n):
        score = np.int64(scores[places[i]])
        equal = score == least and wanted > 0
        wanted -= int(equal)
        places[chosen] = places[i]
        chosen += int(score > least or equal)


@jitable
def choose_changes(kept, values, bases, key, largest, k, scores, places):
    """Add the local update of a row to what its node remembers; write the places of k numbers to send to `places`.

    They are those with the largest remembered changes if `largest`, else chosen at random by `key`.
    """
    for column in range(len(kept)):
        change = values[column] - bases[column]
        kept[column] += change if change == change else np.float32(0.0)
    if largest:
        bits = kept.view(np.uint32)
        for column in range(len(kept)):
            scores[column] = bits[column] & np.uint32(0x7FFFFFFF)
    else:
        for column in range(len(kept)):
            scores[column] = mix_bits(column, key)
    choose(scores, k, places)


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
    scores, places = np.empty(width, np.uint32), np.empty(width + 1, np.int32)
    sent = np.empty(k, np.float32)
    for row in range(len(values)):
        kept, value = memory[nodes[row]], values[row]
        choose_changes(kept, value, bases[row], keys[row], largest, k, scores, places)
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
    scores, places = np.empty(width, np.uint32), np.empty(width + 1, np.int32)
    for row in range(len(source)):
        kept = memory[nodes[row], begin:]
        value, base = rows[source[row], begin : begin + width], rows[bases[row], begin : begin + width]
        choose_changes(kept, value, base, keys[row], largest, k, scores, places)
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
