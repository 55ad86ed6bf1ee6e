"""The noise of DP-SGD: its law, its independence, and the same numbers compiled.

Seeds are fixed, so a test passes always or never. Levels are 0.001; tolerances are five deviations.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.compute.local_update import dp_noise_row
from gossiprec.native.jit import kernel
from gossiprec.numerics.draw_kernels import fill_noise, new_noise_buffer
from gossiprec.numerics.noise import GROUP, LANES, gaussian_noise
from tests.layouts import layout_of

LEVEL = 0.001
N = 100 * GROUP


@kernel
def compiled(out, seed, step, node, scale):
    fill_noise(out, seed, step, node, scale, new_noise_buffer())


def compiled_noise(seed, node, step, count, scale=1.0):
    out = np.empty(-(-count // GROUP) * GROUP, np.float32)
    compiled(out, np.uint64(seed), step, node, np.float32(scale))
    return out[:count]


@pytest.mark.parametrize(("seed", "node", "step"), [(1, 0, 0), (2**64 - 1, 942, 10**6), (7, 3, 2**31)])
def test_compiled_noise_is_numpys_to_rounding(seed, node, step):
    """A number is at most 6.7; polynomials and products are within a few roundings of 6e-8 of it."""
    found, expected = compiled_noise(seed, node, step, N), gaussian_noise(seed, node, step, N)

    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_compiled_noise_is_scaled():
    np.testing.assert_allclose(
        compiled_noise(1, 2, 3, GROUP, scale=50.0), 50 * gaussian_noise(1, 2, 3, GROUP), atol=1e-4
    )


@pytest.mark.parametrize("draw", [gaussian_noise, compiled_noise])
def test_noise_is_standard_normal(draw):
    """Kolmogorov-Smirnov on 25,600 numbers; mean and variance within five deviations, 1/sqrt(n) and sqrt(2/n)."""
    noise = draw(11, 4, 9, N).astype(np.float64)

    assert stats.kstest(noise, "norm").pvalue > LEVEL
    assert abs(noise.mean()) < 5 / math.sqrt(N)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / N)
    assert abs(stats.kurtosis(noise)) < 5 * math.sqrt(24 / N)


def test_every_parameter_has_the_law_over_the_steps():
    """Of each place in a group: 400 steps, Kolmogorov-Smirnov; the least of 256 levels is above 0.001 / 256."""
    noise = np.stack([gaussian_noise(5, 1, step, GROUP) for step in range(400)])

    assert min(stats.kstest(column, "norm").pvalue for column in noise.T) > LEVEL / GROUP


@pytest.mark.parametrize("shift", [1, LANES, 2 * LANES, 3 * LANES, GROUP])
def test_parameters_are_independent(shift):
    """Also their squares: the two numbers of a pair share a radius, and its angle must make up for it."""
    noise = gaussian_noise(3, 2, 1, N).astype(np.float64)
    for values in (noise, noise**2, np.abs(noise)):
        assert abs(np.corrcoef(values[shift:], values[:-shift])[0, 1]) < 5 / math.sqrt(N - shift)


@pytest.mark.parametrize("other", [(3, 2, 2), (3, 3, 1), (4, 2, 1)], ids=["step", "node", "seed"])
def test_steps_nodes_and_seeds_are_independent(other):
    one, two = gaussian_noise(3, 2, 1, N), gaussian_noise(*other, N)

    for function in (np.asarray, np.square):
        assert abs(np.corrcoef(function(one), function(two))[0, 1]) < 5 / math.sqrt(N)


def test_noise_of_a_parameter_does_not_depend_on_how_many_there_are():
    np.testing.assert_array_equal(gaussian_noise(1, 2, 3, 1000)[:7], gaussian_noise(1, 2, 3, 7))


def test_noise_falls_on_the_nodes_own_user_row_items_and_shared_weights_only():
    layout = layout_of(2, 3, 4, n_items=5, n_users=6)

    row = dp_noise_row(layout, seed=1, node=4, step=0)

    assert np.flatnonzero(row).tolist() == [8, 9, *range(12, 31)]
    np.testing.assert_array_equal(row[row != 0], gaussian_noise(1, 4, 0, 21))
