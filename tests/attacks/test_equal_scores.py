"""Scores and distances that are equal but for rounding errors tell an attacker nothing."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks.imia import keep_nearest
from gossiprec.adversaries.attacks.membership import standardised

EQUAL = np.array([0.3, 0.1 + 0.2, 0.6 - 0.3, 0.3])


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_scores_that_differ_by_rounding_errors_are_standardised_to_zero(scale):
    assert len(np.unique(EQUAL * scale)) > 1
    assert not standardised(EQUAL * scale).any()
    np.testing.assert_allclose(standardised(np.array([1.0, 3.0]) * scale), [-1.0, 1.0])


@pytest.mark.parametrize("values", [[np.inf, 1.0], [np.nan, 1.0]])
def test_scores_without_a_mean_are_standardised_to_zero(values):
    assert not standardised(np.array(values)).any()


def test_no_guess_is_kept_if_distances_differ_by_rounding_errors():
    kept = np.zeros(4, np.int64)
    keep_nearest(kept, np.ones(4, bool), EQUAL, 2, np.random.default_rng(1))
    assert not kept.any()
