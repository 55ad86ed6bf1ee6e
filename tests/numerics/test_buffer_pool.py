"""Memory that results have after others: never while anybody still refers to it."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gossiprec.numerics.buffer_pool import BufferPool


def begins_at(array):
    return array.__array_interface__["data"][0]


def test_what_is_asked_for_lies_side_by_side_and_nowhere_twice():
    items, rows, nothing, shared = BufferPool().empty((3,), (3, 4), (0,), (2, 5))
    assert [part.shape for part in (items, rows, nothing, shared)] == [(3,), (3, 4), (0,), (2, 5)]
    items[:], rows[:], shared[:] = 1.0, 2.0, 3.0
    assert [set(part.ravel()) for part in (items, rows, shared)] == [{1.0}, {2.0}, {3.0}]


@pytest.mark.full
def test_memory_is_used_again_when_the_last_view_is_gone():
    memory = BufferPool()
    (rows,) = memory.empty((6, 4))
    at, row = begins_at(rows), rows[0].view(np.int32)[1:]
    del rows
    (others,) = memory.empty((6, 4))
    assert begins_at(others) != at
    del row
    gc.collect()
    (again,) = memory.empty((5, 4))
    assert begins_at(again) == at


def test_the_smallest_piece_is_taken_that_is_large_enough():
    memory = BufferPool()
    pieces = [memory.empty((size,))[0] for size in (1000, 10, 100)]
    places = [begins_at(piece) for piece in pieces]
    del pieces
    assert begins_at(memory.empty((60,))[0]) == places[2]


def test_what_is_too_small_makes_room_for_what_is_larger():
    memory = BufferPool()
    del memory.empty((10,))[0]
    for size in (100, 1000, 10_000):
        del memory.empty((size,))[0]
    assert len(memory._free) == 1


def test_no_two_threads_are_given_the_same():
    memory = BufferPool()

    def write(number):
        for _ in range(300):
            (part,) = memory.empty((50 + number,))
            part[:] = number
            if not (part == number).all():
                return False
            del part
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(8)))
