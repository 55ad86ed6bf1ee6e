"""Inequality."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.data.reports import gini

amounts = st.lists(st.integers(0, 50), min_size=1, max_size=12)


def test_equal_shares_have_no_inequality():
    assert gini([3, 3, 3]) == 0.0


def test_nothing_to_share_counts_as_equal():
    assert gini([]) == gini([0, 0]) == 0.0


def test_one_owner_of_everything_reaches_the_maximum():
    assert gini([0, 0, 0, 8]) == pytest.approx(3 / 4)


@pytest.mark.slow
@given(amounts)
def test_agrees_with_the_mean_absolute_difference(values):
    difference = np.abs(np.subtract.outer(values, values)).mean()
    expected = difference / (2 * np.mean(values)) if any(values) else 0.0
    assert gini(values) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_amounts_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match="expected amounts of at least 0"):
        gini([1.0, bad])
