from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from gossiprec.base.rng import NEGATIVES, SHUFFLE, exponentials, generator, philox_words, purpose_id, uniforms
from gossiprec.compute.local_update import draw_order
from tests.slow import slow_except_first

SURE = 1e-4
"""The seeds are fixed; a correct generator would fail a test at this p for one choice of seed in 10,000."""


def counter(index, counter, node, purpose, seed):
    return [f"{word:08x}" for word in philox_words(seed, index, counter, node, purpose).tolist()]


def test_philox_gives_the_published_words_for_zeros():
    assert counter(0, 0, 0, 0, 0) == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def test_philox_gives_the_published_words_for_ones():
    ones = 0xFFFFFFFF

    found = counter(ones, ones, ones, ones, 0xFFFFFFFFFFFFFFFF)

    assert found == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]


def test_philox_gives_the_published_words_for_the_digits_of_pi():
    found = counter(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0x299F31D0A4093822)

    assert found == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def test_philox_words_of_an_array_are_those_of_its_elements():
    nodes = np.arange(6)

    together = philox_words(1, 2, 3, nodes, SHUFFLE)

    assert together.tolist() == [philox_words(1, 2, 3, n, SHUFFLE).tolist() for n in range(6)]


@pytest.mark.parametrize("others", [{"node": 1}, {"purpose": SHUFFLE}, {"seed": 6}, {"counter": 4096}])
def test_draws_of_another_node_purpose_seed_or_counter_are_independent(others):
    """Contingency table of 8 x 8 cells over 4096 pairs: expected 64 in each."""
    base = {"seed": 5, "counter": 0, "node": 0, "purpose": NEGATIVES}
    one, two = (stream(**base), stream(**(base | others)))

    table = np.histogram2d(one, two, bins=8, range=[[0, 1], [0, 1]])[0]

    assert chi2_contingency(table).pvalue > SURE


def stream(*, seed, counter, node, purpose):
    return uniforms(seed, counter + np.arange(4096), node, purpose)


def test_uniforms_are_uniform_and_inside_the_open_interval():
    draws = uniforms(5, np.arange(20_000), 0, purpose_id("test"))

    assert chisquare(np.histogram(draws, 100, (0, 1))[0]).pvalue > SURE
    assert 0 < draws.min() < draws.max() < 1


def test_exponentials_have_mean_one_and_their_quantiles():
    draws = exponentials(5, np.arange(20_000), 0, purpose_id("test"))
    edges = -np.log1p(-np.linspace(0, 1, 51)[:-1])

    assert chisquare(np.histogram(draws, [*edges, np.inf])[0]).pvalue > SURE


@pytest.mark.parametrize(("seed", "node", "counter"), [(1, 2, 3), (2**64 - 1, 2**32 - 1, 2**40), (0, 0, 0)])
def test_a_generator_is_philox_by_key_and_counter(seed, node, counter):
    key = np.array([seed, (purpose_id("here") << 32) | node], np.uint64)
    plain = np.random.Generator(np.random.Philox(key=key, counter=counter << 192))
    ours = generator(seed, "here", node, counter)

    assert ours.random(9).tolist() == plain.random(9).tolist()
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)


def test_generators_of_different_nodes_and_purposes_differ():
    draws = {
        generator(seed, purpose, node).integers(2**62)
        for seed in (1, 2)
        for purpose in ("a", "b")
        for node in (0, 1)
    }

    assert len(draws) == 8


@given(st.integers(0, 200), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_an_order_is_a_permutation(n_samples, epoch, seed):
    order = draw_order(n_samples, 0, epoch=epoch, seed=seed)

    assert sorted(order.tolist()) == list(range(n_samples))


@pytest.mark.parametrize("n_samples", slow_except_first([2, 3, 4]))
@pytest.mark.cases(1)
def test_all_orders_are_equally_likely(n_samples):
    """2400 draws: at least 100 expected of each of the n! orders."""
    orders = np.stack([draw_order(n_samples, 0, epoch=e, seed=5) for e in range(2400)])

    counts = np.unique(orders, axis=0, return_counts=True)[1]

    assert len(counts) == [2, 6, 24][n_samples - 2]
    assert chisquare(counts).pvalue > SURE


def test_every_sample_is_equally_likely_at_every_place():
    """Ten samples, 2000 draws: 200 expected in each cell; rows and columns have fixed sums."""
    orders = np.stack([draw_order(10, 1, epoch=e, seed=5) for e in range(2000)])

    table = np.stack([np.bincount(orders[:, place], minlength=10) for place in range(10)])

    assert chi2_contingency(table).pvalue > SURE
    assert table.min() > 0


@pytest.mark.parametrize("change", [{"node": 2}, {"epoch": 4}, {"seed": 6}])
def test_another_node_epoch_or_seed_shuffles_differently(change):
    base = {"node": 1, "epoch": 3, "seed": 5}

    one, two = (draw_order(50, **arguments) for arguments in (base, base | change))

    assert one.tolist() != two.tolist()
