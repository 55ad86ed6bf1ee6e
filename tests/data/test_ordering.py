"""Rows are ordered as `numpy.lexsort` orders them, whatever is in the columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gossiprec.data.split import order_by

LEAST, MOST = -(2**62), 2**62 - 1
SPANS = [(0, 3), (7, 9), (-1, 2**30), (0, 2**40), (LEAST, MOST)]


@st.composite
def columns(draw):
    """One to three columns: of few or of many numbers, small ones and such as fill 63 bits, or of floats."""
    n_rows = draw(st.integers(0, 40))
    kinds = [
        *(arrays.arrays(np.int64, n_rows, elements=st.integers(*span)) for span in SPANS),
        arrays.arrays(np.int32, n_rows, elements=st.integers(5, 9)),
        arrays.arrays(np.uint64, n_rows, elements=st.integers(2**63 - 2, 2**64 - 1)),
        arrays.arrays(np.float64, n_rows, elements=st.floats(-2, 2, width=16)),
    ]
    return draw(st.lists(st.one_of(kinds), min_size=1, max_size=3))


@given(columns())
def test_rows_are_in_the_order_of_lexsort(some):
    assert order_by(*some).tolist() == np.lexsort(some[::-1]).tolist()


@pytest.mark.parametrize("span", SPANS)
def test_a_thousand_rows_with_many_equal_ones_stay_in_order(span):
    draw = np.random.default_rng(1)
    few = draw.integers(*span, 5, endpoint=True)
    some = [draw.choice(few, 1000), draw.integers(0, 7, 1000), draw.choice(few[:2], 1000)]
    assert (order_by(*some) == np.lexsort(some[::-1])).all()


def test_columns_that_just_fit_into_one_number_do_not_spill():
    rows = 2**10 - 1  # whose places take 10 bits; 53 are left
    wide, narrow = np.arange(rows)[::-1] % 3, np.arange(rows) % 2
    for bits in (51, 52, 53):
        big = wide * ((1 << bits) - 1) // 2
        assert (order_by(big, narrow) == np.lexsort((narrow, big))).all()
