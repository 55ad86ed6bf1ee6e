"""Means over seeds, their intervals, paired differences, and what is not beaten."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from gossiprec.figures.study.estimates import (
    describe_seeds,
    is_pareto_optimal,
    mean_with_interval,
    paired_difference,
)


def test_the_interval_is_that_of_the_t_test():
    values = [0.2, 0.5, 0.4, 0.9]
    found, wanted = mean_with_interval(values), ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert (found.mean, found.n) == (pytest.approx(0.5), 4)


def test_one_value_has_no_interval():
    found = mean_with_interval([0.3])
    assert (found.mean, found.n) == (0.3, 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    # 2,000 samples of 5 normal values: coverage 0.95 with a standard deviation of 0.005; four of them allowed
    draws = np.random.default_rng(1).normal(3.0, 2.0, (2000, 5))
    covered = [found.low <= 3.0 <= found.high for found in map(mean_with_interval, draws)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_differences_are_taken_seed_by_seed():
    """What both share from seed to seed does not widen the interval."""
    one, other = {1: 10.0, 2: 20.0, 3: 31.0, 4: 1.0}, {1: 9.0, 2: 19.0, 3: 29.0, 7: 5.0}
    found = paired_difference(one, other)
    wanted = ttest_rel([10, 20, 31], [9, 19, 29]).confidence_interval(0.95)
    assert (found.low, found.high, found.n) == (pytest.approx(wanted.low), pytest.approx(wanted.high), 3)


def test_what_is_beaten_in_both_is_not_on_the_front():
    points = [(0.5, 0.2), (0.6, 0.3), (0.4, 0.3), (0.6, 0.35), (0.5, 0.2)]
    assert is_pareto_optimal(points) == [True, True, False, False, True]


def test_points_in_a_small_unit_are_compared_like_others():
    assert is_pareto_optimal([(1e-12, 2e-12), (2e-12, 2e-12), (0.0, 1e-12)]) == [False, True, True]
    equal = sum([0.1, 0.2, 0.3]), sum([0.3, 0.2, 0.1])
    assert is_pareto_optimal([(equal[0], 1.0), (equal[1], 1.0)]) == [True, True]


def test_seeds_are_counted_in_words():
    assert describe_seeds([3, 3]) == "n = 3"
    assert describe_seeds([3, 2, 3]) == "n = 2–3"
