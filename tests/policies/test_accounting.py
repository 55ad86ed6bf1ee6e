"""The accountant against published values, Opacus, and arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.defences import (
    compute_epsilon,
    compute_epsilons,
    max_epochs,
    min_epsilon,
    min_noise_multiplier,
    round_up_float32,
)

DELTA = 1e-6
TABLE = {
    1: {1: 4.53, 10: 0.57, 100: 0.100, 1000: 0.025},
    10: {1: 14.3, 10: 1.80, 100: 0.318, 1000: 0.080},
    100: {1: 45.3, 10: 5.70, 100: 1.005, 1000: 0.252},
    200: {1: 64.1, 10: 8.06, 100: 1.42, 1000: 0.357},
    500: {1: 101, 10: 12.7, 100: 2.25, 1000: 0.564},
    1200: {1: 157, 10: 19.7, 100: 3.48, 1000: 0.873},
}
"""Noise multipliers for T local epochs and epsilon, to the digits shown."""


@pytest.mark.parametrize("epochs", list(TABLE))
def test_calibrated_noise_is_that_of_the_table(epochs):
    for epsilon, expected in TABLE[epochs].items():
        assert min_noise_multiplier(epsilon, DELTA) * math.sqrt(epochs) == pytest.approx(
            expected, rel=0.01
        ), epsilon


@pytest.mark.parametrize("epochs", [1, 7, 500, 3000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0, 1000.0])
def test_calibrated_noise_spends_the_budget_and_no_more(epsilon, epochs):
    noise = min_noise_multiplier(epsilon, DELTA) * math.sqrt(epochs)

    assert epsilon * (1 - 1e-5) < compute_epsilon(noise, epochs, DELTA) <= epsilon * (1 + 1e-12)
    assert compute_epsilon(noise * 0.999, epochs, DELTA) > epsilon


@pytest.mark.filterwarnings("ignore:Optimal order")
@pytest.mark.parametrize(("noise", "epochs"), [(101.0, 500), (2.25, 500), (0.3, 10), (4.5, 1), (1.0, 1200)])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_epsilon_is_that_of_opacus(noise, epochs, delta):
    from opacus.accountants import RDPAccountant

    opacus = RDPAccountant()
    opacus.history = [(noise, 1.0, epochs)]

    assert compute_epsilon(noise, epochs, delta) == pytest.approx(opacus.get_epsilon(delta), rel=1e-9)


@pytest.mark.parametrize(("noise", "epochs"), [(101.0, 500), (2.25, 500), (1.0, 10)])
def test_epsilon_is_an_upper_bound_of_the_exact_one_and_near_it(noise, epochs):
    """Exact: delta = F(-eps s + 1 / (2 s)) - e^eps F(-eps s - 1 / (2 s)), s = sigma / sqrt(T) (Balle & Wang 2018)."""
    epsilon, s = compute_epsilon(noise, epochs, DELTA), noise / math.sqrt(epochs)

    def exact(eps):
        return stats.norm.cdf(0.5 / s - eps * s) - math.exp(eps) * stats.norm.cdf(-0.5 / s - eps * s)

    assert exact(epsilon) <= DELTA
    assert exact(0.9 * epsilon) > DELTA


def test_many_epsilons_at_once_are_those_of_the_library():
    noise = np.array([1e-3, 0.05, 0.3, 1.0, 2.25, 12.7, 101.0, 500.0, 1e5, 1e8, 3.0, 0.0])
    epochs = np.array([3.0, 1, 10, 1, 500, 200, 1200, 3, 2, 1, 0, 5])

    found = compute_epsilons(noise, epochs, DELTA)

    expected = [compute_epsilon(s, int(t), DELTA) for s, t in zip(noise[:-1], epochs[:-1], strict=True)]
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-9)
    assert found[-1] == np.inf


@pytest.mark.parametrize("noise", [0.5, 5.0, 60.0])
def test_the_budget_lasts_for_the_most_epochs_and_not_for_one_more(noise):
    most = max_epochs(noise, 20.0, DELTA)

    assert most > 0
    assert compute_epsilon(noise, most, DELTA) <= 20.0 < compute_epsilon(noise, most + 1, DELTA)


def test_no_noise_proves_less_than_the_least_epsilon():
    least = min_epsilon(DELTA)

    assert compute_epsilon(2e4, 1, DELTA) == pytest.approx(least, rel=1e-3)
    assert compute_epsilon(min_noise_multiplier(1.001 * least, DELTA), 1, DELTA) == pytest.approx(
        1.001 * least, rel=1e-6
    )


@pytest.mark.parametrize("number", [0.1, 1 / 3, 2.0, 101.3])
def test_noise_is_rounded_up(number):
    rounded = round_up_float32(number)

    assert rounded.dtype == np.float32
    assert number <= float(rounded) < number * (1 + 1e-6)
