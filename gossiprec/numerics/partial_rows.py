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
    """Mark the k largest scores, integers from 0 to 2 ** 32 - 1; of equal ones those that come first.

    Three rounds of counting find the smallest chosen score, digit by digit from the top.
    """
    least, wanted = 0, k
    counts = np.zeros(2048, np.int64)
    for shift in (21, 10, -1):
        counts[:] = 0
        low, last = max(shift, 0), 1023 if shift < 0 else 2047
        above = 21 if shift == 10 else 10
        if shift == 21:
            for score in scores:
                counts[score >> 21] += 1
        else:
            for score in scores:
                if score >> above == least:
                    counts[(score >> low) & last] += 1
        digit = last
        while counts[digit] < wanted:
            wanted -= counts[digit]
            digit -= 1
        least = least * (last + 1) + digit
    for place in range(len(scores)):
        score = scores[place]
        places[place] = score > least
        if score == least and wanted > 0:
            places[place] = True
            wanted -= 1


def _sparsify(values, bases, memory, nodes, keys, k, adopts, largest, n_own):
    """Leave k numbers of each row, and add what is not sent to the node's memory.

    Parameters
    ----------
    values, bases : ndarray of float32, shape (n, width)
        The versions to send, and those before the local update (a base equal to its version if there was none).
    memory : ndarray of float32, shape (n_nodes, width)
        The changes of each node that were not sent.
    nodes, keys : ndarray of int64, shape (n,)
    k : int
    adopts : bool
        Whether nodes give up their own model, so that what was not sent is sent on top of the next version.
    largest : bool
        Whether the largest remembered changes are sent, else k numbers at random.
    n_own : int
        Numbers at the front that a node never gives up: its user's row.
    """
    width = values.shape[1]
    scores, places = np.empty(width, np.int64), np.empty(width, np.bool_)
    for row in range(len(values)):
        kept = memory[nodes[row]]
        for column in range(width):
            change = values[row, column] - bases[row, column]
            kept[column] += change if change == change else np.float32(0.0)
        if largest:
            bits = np.abs(kept).view(np.uint32)
            for column in range(width):
                scores[column] = bits[column]
        else:
            for column in range(width):
                scores[column] = mix_bits(column, keys[row])
        choose(scores, k, places)
        for column in range(width):
            if places[column]:
                if adopts and column >= n_own:
                    values[row, column] = bases[row, column] + kept[column]
                kept[column] = np.float32(0.0)
            else:
                values[row, column] = np.float32(np.nan)


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


def _merge_sent(rows, source, target, ends, entry_rows, keeps, begins, stops, steps):
    """Merge received rows into each task's row; the receiver keeps its own value of a number that was not sent.

    Of each received row the columns ``begin .. stop`` in steps were sent, without those that are NaN.
    """
    first = 0
    for task in range(len(source)):
        if source[task] != target[task]:
            rows[target[task]] = rows[source[task]]
        for entry in range(first, ends[task]):
            begin, stop, step = begins[entry], stops[entry], steps[entry]
            keep = keeps[entry]
            other = np.float32(1.0) - keep
            if step == 1:
                own, received = rows[target[task], begin:stop], rows[entry_rows[entry], begin:stop]
                if keep == 0.0:
                    for column in range(len(own)):
                        value = received[column]
                        own[column] = value if value == value else own[column]
                else:
                    for column in range(len(own)):
                        value = received[column]
                        mixed = keep * own[column] + other * value
                        own[column] = mixed if value == value else own[column]
            else:
                own, received = rows[target[task]], rows[entry_rows[entry]]
                for column in range(begin, stop, step):
                    value = received[column]
                    mixed = value if keep == 0.0 else keep * own[column] + other * value
                    own[column] = mixed if value == value else own[column]
        first = ends[task]


def sparsify(*arguments: Any) -> None:
    """Run :func:`_sparsify`, compiled."""
    jit_cached(_sparsify)(*arguments)


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
