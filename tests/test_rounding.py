"""Rounding errors make no difference: one rule for every comparison of computed numbers."""

import math

import numpy as np
import pytest

from gossiprec.base.rounding import difference, paired_differences

THREE = [0.1, 0.2, 0.3]


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 7.0, 1e15])
def test_equal_numbers_differ_by_nothing_in_any_unit(scale):
    one, other = np.mean([scale * v for v in THREE]), np.mean([scale * v for v in THREE[::-1]])
    assert one != other or scale != 1.0  # they differ in the last bit
    assert difference(one, other) == 0
    assert difference(2 * scale, scale) == pytest.approx(scale)
    assert difference(scale * (1 + 1e-9), scale) > 0
    assert difference(scale, 0.0) == scale


def test_numbers_without_a_size_keep_their_difference():
    assert difference(math.inf, 3.0) == math.inf
    assert difference(-math.inf, math.inf) == -math.inf
    assert math.isnan(difference(math.inf, math.inf))
    assert math.isnan(difference(math.nan, 1.0))
    assert difference(0.0, 0.0) == 0


@pytest.mark.parametrize("step", [10, 3, 7, 2048])
def test_equal_differences_have_one_size(step):
    """All pairs of values k / step: there are as many sizes as differences in whole numbers."""
    first, second = (grid.ravel() for grid in np.meshgrid(np.arange(min(step, 40) + 1), np.arange(21)))
    found = paired_differences(second / step, first / step)
    whole = second - first
    assert len(np.unique(np.abs(found))) == len(np.unique(np.abs(whole)))
    assert (np.sign(found) == np.sign(whole)).all()
    np.testing.assert_allclose(found, whole / step, atol=1e-15)


def test_small_differences_of_small_numbers_stay_next_to_large_ones():
    found = paired_differences(np.array([2e-12, 3e-12, 1.0, 0.3]), np.array([1e-12, 1e-12, 0.5, 0.1 + 0.2]))
    assert found == pytest.approx([1e-12, 2e-12, 0.5, 0.0], rel=1e-9, abs=0)
