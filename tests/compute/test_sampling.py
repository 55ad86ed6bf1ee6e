from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from gossiprec.compute.training import NEGATIVES, SHUFFLE, LocalData, Moves, draw_order, draw_samples
from gossiprec.data.split import Transitions
from gossiprec.ragged import Ragged
from gossiprec.rng import exponentials, generator, philox_words, purpose_id, uniforms

SURE = 1e-4
"""The seeds are fixed; a correct generator would fail a test at this p for one choice of seed in 10,000."""

N_ITEMS = 20
POSITIVES = {0: [3], 1: [0, 7, 8, 19], 2: [i for i in range(N_ITEMS) if i != 11]}


@pytest.fixture(scope="module")
def data():
    users = np.repeat(list(POSITIVES), [len(items) for items in POSITIVES.values()])
    items = np.concatenate(list(POSITIVES.values()))
    return LocalData(Ragged.sets(users, items, len(POSITIVES)), N_ITEMS)


def drawn_negatives(data, node, *, negatives, updates):
    """Return the negatives of updates 0 .. updates - 1, shape (updates, positives, negatives)."""
    samples = [draw_samples(data, node, update=u, negatives=negatives, seed=5)[0] for u in range(updates)]
    return np.stack(samples).reshape(updates, -1, 1 + negatives)[:, :, 1:]


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


def test_generators_of_different_nodes_and_purposes_differ():
    draws = {
        generator(seed, purpose, node).integers(2**62)
        for seed in (1, 2)
        for purpose in ("a", "b")
        for node in (0, 1)
    }

    assert len(draws) == 8


def test_each_positive_is_labelled_one_and_followed_by_its_negatives(data):
    items, labels = draw_samples(data, 1, update=0, negatives=3, seed=5)

    assert items[::4].tolist() == POSITIVES[1]
    assert labels.tolist() == [1.0, 0.0, 0.0, 0.0] * 4


@given(
    st.integers(1, 9), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.sampled_from(list(POSITIVES))
)
@settings(max_examples=100, deadline=None)
def test_a_negative_is_never_a_training_positive(data, negatives, update, seed, node):
    items, labels = draw_samples(data, node, update=update, negatives=negatives, seed=seed)

    assert not set(items[labels == 0].tolist()) & set(POSITIVES[node])
    assert 0 <= items.min() <= items.max() < N_ITEMS


def test_negatives_are_uniform_over_the_other_items(data):
    drawn = drawn_negatives(data, 1, negatives=5, updates=1000)

    counts = np.bincount(drawn.ravel(), minlength=N_ITEMS)

    assert chisquare(np.delete(counts, POSITIVES[1])).pvalue > SURE


@pytest.mark.parametrize(("one", "two"), [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 3), (0, 4))])
def test_negatives_of_different_places_are_independent(data, one, two):
    """Items in four groups of the 16 possible ones, 4000 updates: 250 expected in each of 16 cells."""
    drawn = drawn_negatives(data, 1, negatives=5, updates=4000)
    rank = np.searchsorted(np.delete(np.arange(N_ITEMS), POSITIVES[1]), drawn) // 4

    table = np.histogram2d(rank[:, *one], rank[:, *two], bins=4)[0]

    assert chi2_contingency(table).pvalue > SURE


def test_samples_depend_on_nothing_but_the_arguments(data):
    first = draw_samples(data, 1, update=3, negatives=4, seed=5)
    draw_samples(data, 0, update=9, negatives=2, seed=6)
    again = draw_samples(data, 1, update=3, negatives=4, seed=5)

    assert [part.tobytes() for part in first] == [part.tobytes() for part in again]


def test_samples_of_a_node_do_not_change_when_nodes_are_added(data):
    fewer = LocalData(data.positives.first(2), N_ITEMS)

    found = draw_samples(fewer, 1, update=3, negatives=4, seed=5)[0]

    assert found.tolist() == draw_samples(data, 1, update=3, negatives=4, seed=5)[0].tolist()


@pytest.mark.parametrize("change", [{"node": 2}, {"update": 4}, {"seed": 6}])
def test_another_node_update_or_seed_draws_other_negatives(change):
    data = LocalData(Ragged.sets(np.arange(3), np.zeros(3, np.int64), 3), 10_000)
    base = {"node": 1, "update": 3, "seed": 5}

    found = [draw_samples(data, negatives=8, **arguments)[0] for arguments in (base, base | change)]

    assert len(set(found[0]) & set(found[1])) == 1  # item 0, the positive of all three


@given(st.integers(0, 200), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_an_order_is_a_permutation(n_samples, epoch, seed):
    order = draw_order(n_samples, 0, epoch=epoch, seed=seed)

    assert sorted(order.tolist()) == list(range(n_samples))


@pytest.mark.parametrize("n_samples", [2, 3, 4])
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


@pytest.fixture(scope="module")
def moving(data):
    """Node 0 moves once; node 1 moves three times, once from nowhere; node 2 not at all."""
    moves = Moves(
        np.array([0, 1, 4, 4]), np.array([3, 7, 8, 7], np.int32), np.array([-1, 0, -1, 19], np.int32)
    )
    return LocalData(data.positives, N_ITEMS, moves)


@given(st.integers(1, 9), st.integers(0, 50))
@settings(deadline=None)
def test_each_move_meets_fresh_items_the_node_never_visited(moving, negatives, update):
    samples, labels = draw_samples(moving, 1, update=update, negatives=negatives, seed=5)

    assert samples.dtype == np.int32
    assert labels.tolist() == [1.0] * len(samples)
    assert samples[:, [0, 2]].tolist() == np.repeat([[7, 0], [8, -1], [7, 19]], negatives, axis=0).tolist()
    assert not set(samples[:, 1]) & set(POSITIVES[1])
    assert len(samples) == moving.n_samples(negatives)[1] == 3 * negatives


def test_negatives_of_moves_change_with_the_update_and_with_the_node(moving):
    drawn = [draw_samples(moving, 1, update=u, negatives=8, seed=5)[0][:, 1].tolist() for u in range(6)]

    assert len({tuple(items) for items in drawn}) == 6
    assert len(draw_samples(moving, 2, update=0, negatives=8, seed=5)[0]) == 0


def test_a_move_that_took_longer_than_the_window_has_no_previous_place():
    gaps = np.array([5.0, 360.0, 360.5, np.nan], np.float32)
    items = Ragged(np.array([0, 4]), np.arange(4, dtype=np.int32))
    seen = Transitions(items, np.array([1, 2, 3, -1], np.int32), gaps)

    found = Moves.within(seen, 360.0)

    assert found.previous.tolist() == [1, 2, -1, -1]
    assert found.items.tolist() == [0, 1, 2, 3]
