"""What leaves of a user's vector: never longer than the bound, and as noisy as its epsilon says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.rng import generator
from gossiprec.federated.user_vectors import add_laplace_noise, clip_l1, laplace_scale


def draws(n, seed=5):
    return [generator(seed, "told-vector", node) for node in range(n)]


def test_long_vectors_are_scaled_down_and_short_ones_stay():
    rows = np.float32([[3, -1], [0.25, -0.5], [0, 0], [0.5, 0.5]])
    assert clip_l1(rows, 1.0).tolist() == [[0.75, -0.25], [0.25, -0.5], [0, 0], [0.5, 0.5]]
    assert clip_l1(rows, 8.0).tolist() == rows.tolist()


def test_no_vector_is_longer_than_the_bound():
    rows = np.random.default_rng(0).normal(0, 1, (500, 64)).astype(np.float32)
    norms = np.abs(clip_l1(rows, 0.7)).sum(axis=1)
    np.testing.assert_allclose(norms, 0.7, rtol=1e-12)


def test_noise_has_the_law_of_its_epsilon_on_every_number():
    vectors = np.tile([0.25, -0.5, 0.125], (4000, 1))
    noise = add_laplace_noise(vectors, laplace_scale(1.0, 4.0), draws(4000)) - vectors
    for column in noise.T:
        assert stats.kstest(column, "laplace", args=(0, 0.5)).pvalue > 1e-3
    # 4,000 pairs: a correlation of independent numbers is beyond 0.06 once in 7,000 times
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.06


def test_two_vectors_can_be_told_apart_by_a_factor_of_e_to_epsilon_and_no_more():
    epsilon, n = 1.5, 200_000
    scale = laplace_scale(1.0, epsilon)
    one, other = (
        add_laplace_noise(np.full((1, n), vector), scale, [generator(seed, "x")])[0]
        for seed, vector in ((1, 1.0), (2, -1.0))
    )
    beyond = [(np.mean(one > level), np.mean(other > level)) for level in (1.0, 1.5, 2.0)]
    for (
        often,
        seldom,
    ) in beyond:  # beyond both vectors the factor is e to epsilon: some 10,000 cases, 1 % each
        assert often / seldom == pytest.approx(math.exp(epsilon), rel=0.05)


def test_noise_depends_on_its_own_draws_alone():
    vectors = np.zeros((3, 8))
    whole = add_laplace_noise(vectors, 0.5, draws(3))
    assert add_laplace_noise(vectors[2:], 0.5, draws(3)[2:]).tobytes() == whole[2:].tobytes()
    assert len({row.tobytes() for row in whole}) == 3


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-40])
def test_an_epsilon_of_infinite_noise_is_refused(epsilon):
    with pytest.raises(
        ValueError, match=r"noise of scale .* would be infinite; set an epsilon such as 4, or null"
    ):
        laplace_scale(1.0, epsilon)


@pytest.mark.parametrize("epsilon", [math.inf, 1e45])
def test_an_epsilon_of_no_noise_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"noise of scale .* would be none; set"):
        laplace_scale(1.0, epsilon)


def test_the_scale_is_twice_the_bound_over_epsilon():
    assert laplace_scale(1.0, 4.0) == 0.5
    assert laplace_scale(3.0, 0.5) == 12.0
