"""Wilcoxon's test used to rank rounding errors: p = .0005 for twelve differences of 0."""

import numpy as np
import pytest
from scipy.stats import permutation_test

from gossiprec.figures.study.estimates import paired_difference
from gossiprec.runs.paired_tests import compare_pairs

ONE, OTHER = (0.1, 0.2, 0.3), (0.3, 0.2, 0.1)


@pytest.mark.parametrize("unit", ["users", "seeds"])
@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_the_same_values_in_another_order_do_not_differ(unit, scale):
    first, second = (np.mean([[scale * v] * 12 for v in values], axis=0) for values in (ONE, OTHER))
    assert (second != first).all()
    assert tuple(compare_pairs(first, second, unit)) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("step", [10, 3])
def test_ranks_do_not_depend_on_the_unit_of_the_values(step):
    rng = np.random.default_rng(0)
    for _ in range(30):
        first = rng.binomial(step, 0.4, 11)
        second = np.clip(first + rng.integers(-1, 3, 11), 0, step)
        whole = compare_pairs(first.astype(float), second.astype(float)).p_value
        assert compare_pairs(first / step, second / step).p_value == whole


def test_ranks_agree_with_a_test_of_all_signs():
    rng = np.random.default_rng(1)
    first, by = rng.binomial(10, 0.3, 10), np.array([1, -1, 2, 2, -3, 1, 1, 2, 3, 4])

    def rank_sum(signed):
        size = np.abs(signed)
        ranks = (size[:, None] > size).sum(axis=1) + ((size[:, None] == size).sum(axis=1) + 1) / 2
        return (np.sign(signed) * ranks).sum()

    expected = permutation_test((by.astype(float),), rank_sum, permutation_type="samples", n_resamples=np.inf)
    found = compare_pairs(first / 10, (first + by) / 10).p_value
    assert found == pytest.approx(expected.pvalue)


def test_seeds_with_equal_values_are_no_interval_above_zero():
    mean = dict.fromkeys((1, 2, 3), np.mean(ONE)), dict.fromkeys((1, 2, 3), np.mean(OTHER))
    found = paired_difference(*mean)
    assert (found.low, found.mean, found.high) == (0.0, 0.0, 0.0)
