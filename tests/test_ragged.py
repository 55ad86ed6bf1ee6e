from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.base.ragged import Ragged

lists = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=8)


def rows_of(ragged):
    return [ragged[row].tolist() for row in range(len(ragged))]


def parts_of(rows):
    return [np.array(row, np.int64) for row in rows]


@given(lists)
def test_rows_come_out_as_they_went_in(rows):
    found = Ragged.from_parts(parts_of(rows))
    assert rows_of(found) == rows
    assert found.sizes.tolist() == [len(row) for row in rows]
    assert found.row_of_each_value.tolist() == [k for k, row in enumerate(rows) for _ in row]
    assert rows_of(Ragged.from_sizes(found.sizes, found.values)) == rows


@given(lists, st.randoms())
def test_pairs_in_any_order_are_gathered_by_row_in_their_order(rows, random):
    pairs = [(k, value) for k, row in enumerate(rows) for value in row]
    random.shuffle(pairs)
    owners, values = np.array(pairs, np.int32).reshape(-1, 2).T
    found = Ragged.from_pairs(owners, values, len(rows) + 1)
    assert rows_of(found) == [[v for k, v in pairs if k == row] for row in range(len(rows) + 1)]


@given(lists, st.randoms())
def test_sets_hold_each_id_once_in_order(rows, random):
    pairs = [(k, value) for k, row in enumerate(rows) for value in row]
    random.shuffle(pairs)
    owners, ids = np.array(pairs, np.int32).reshape(-1, 2).T
    found = Ragged.sets_from_pairs(owners, ids, len(rows))
    assert rows_of(found) == [sorted(set(row)) for row in rows]
    assert found.values.dtype == np.int32


def test_wide_sets_do_not_overflow():
    found = Ragged.sets_from_pairs(np.full(1, 70_000, np.int32), np.full(1, 70_000, np.int32), 70_001)
    assert found[70_000].tolist() == [70_000]


@given(lists, st.data())
def test_the_first_rows_are_kept_without_a_copy(rows, data):
    whole, count = Ragged.from_parts(parts_of(rows)), data.draw(st.integers(0, len(rows)))
    found = whole.first(count)
    assert rows_of(found) == rows[:count]
    assert found.values.base is whole.values


def test_rows_hold_values_of_any_shape_and_share_their_offsets():
    one = Ragged.from_sizes(np.array([2, 0, 1]), np.arange(6).reshape(3, 2))
    other = one.with_values(np.array(list("abc")))
    assert rows_of(one) == [[[0, 1], [2, 3]], [], [[4, 5]]]
    assert rows_of(other) == [["a", "b"], [], ["c"]]
    assert other.offsets is one.offsets


def test_a_row_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="found row 3; expected 0 to 2"):
        Ragged.from_pairs(np.array([0, 3]), np.array([7, 7]), 3)
