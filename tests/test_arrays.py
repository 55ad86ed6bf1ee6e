"""Whether numbers are finite is told of each, not of their sum."""

import numpy as np
import pytest

from gossiprec.base.arrays import are_all_finite


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_none_is_found(wrong):
    numbers = np.ones((3, 50_000), np.float32)
    assert are_all_finite(numbers)
    numbers[1, 777] = wrong
    assert not are_all_finite(numbers)


def test_infinities_that_cancel_are_found():
    assert not are_all_finite(np.array([np.inf, 1.0, -np.inf], np.float32))


def test_numbers_whose_sum_is_too_large_are_finite():
    assert are_all_finite(np.full(10, np.finfo(np.float32).max))


def test_no_numbers_are_finite():
    assert are_all_finite(np.zeros(0, np.float32))
