"""Feeds: what a node learns from is a function of its own data, the update's number and the seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import NEGATIVES, philox_words
from gossiprec.data.training_data import Transitions
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed, TransitionFeed, base
from gossiprec.models.feeds.sequences import drop_stale_previous
from tests.slow import slow_except_first

SURE = 1e-4
"""As in tests/compute/test_sampling.py."""

N_ITEMS = 20
POSITIVES = {0: [3], 1: [0, 7, 8, 19], 2: [i for i in range(N_ITEMS) if i != 11]}


@pytest.fixture(scope="module")
def positives():
    users = np.repeat(list(POSITIVES), [len(items) for items in POSITIVES.values()])
    return Ragged.sets_from_pairs(users, np.concatenate(list(POSITIVES.values())), len(POSITIVES))


@pytest.fixture(scope="module")
def feed(positives):
    return PointwiseFeed(positives, N_ITEMS)


@pytest.fixture(scope="module")
def moving(positives):
    """Node 0 moves once; node 1 moves three times, once from nowhere; node 2 not at all."""
    moves = Ragged(np.array([0, 1, 4, 4]), np.array([3, 7, 8, 7], np.int32))
    return TransitionFeed(positives, N_ITEMS, moves, np.array([-1, 0, -1, 19], np.int32))


@pytest.fixture(scope="module", params=["pointwise", "pairwise", "transitions"])
def any_feed(request, positives, feed, moving):
    return {"pointwise": feed, "pairwise": PairwiseFeed(positives, N_ITEMS), "transitions": moving}[
        request.param
    ]


def equal(one, other):
    """Say if two sets of columns are the same to the byte."""
    return {name: part.tobytes() for name, part in one.items()} == {
        name: part.tobytes() for name, part in other.items()
    }


def drawn_negatives(feed, node, *, negatives, updates):
    """Return the negatives of updates 0 .. updates - 1, shape (updates, positives, negatives)."""
    samples = [feed.samples(node, update=u, negatives=negatives, seed=5)["items"] for u in range(updates)]
    return np.stack(samples).reshape(updates, -1, 1 + negatives)[:, :, 1:]


def test_each_positive_is_labelled_one_and_followed_by_its_negatives(feed):
    samples = feed.samples(1, update=0, negatives=3, seed=5)

    assert samples["items"][::4].tolist() == POSITIVES[1]
    assert samples["labels"].tolist() == [1.0, 0.0, 0.0, 0.0] * 4


def test_a_pair_is_a_positive_beside_one_of_the_negatives_it_is_followed_by_elsewhere(feed, positives):
    pairs = PairwiseFeed(positives, N_ITEMS).samples(1, update=2, negatives=3, seed=5)

    assert pairs["items"].tolist() == np.repeat(POSITIVES[1], 3).tolist()
    single = feed.samples(1, update=2, negatives=3, seed=5)
    assert pairs["negatives"].tolist() == single["items"][single["labels"] == 0].tolist()


@given(
    st.integers(1, 9), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.sampled_from(list(POSITIVES))
)
@settings(max_examples=100, deadline=None)
def test_a_negative_is_never_a_training_positive(feed, negatives, update, seed, node):
    samples = feed.samples(node, update=update, negatives=negatives, seed=seed)

    assert not set(samples["items"][samples["labels"] == 0].tolist()) & set(POSITIVES[node])
    assert 0 <= samples["items"].min() <= samples["items"].max() < N_ITEMS


def naive_negatives(feed, nodes, updates, negatives, seed):
    """Take, of each negative's own sequence of words, the first that names no positive."""
    blocks = -(-negatives // 4)
    for node, update in zip(nodes, updates, strict=True):
        own = feed.positives[node].tolist()
        for place, k in itertools.product(range(len(own)), range(negatives)):
            for attempt in itertools.count():
                index = place * blocks + k // 4 + attempt * len(own) * blocks
                word = int(philox_words(seed, index, update, node, NEGATIVES)[k % 4])
                item = word * N_ITEMS >> 32
                if item not in own:
                    yield item
                    break


@pytest.mark.parametrize("few", [0, 3, 10**6], ids=["one-try", "one-then-four", "four-tries"])
@pytest.mark.parametrize("negatives", [1, 4, 6])
@pytest.mark.cases(2)
def test_negatives_are_the_first_of_their_words_that_name_no_positive(feed, monkeypatch, negatives, few):
    monkeypatch.setattr(base, "FEW", few)
    nodes, updates = [1, 2, 0, 1], [3, 0, 5, 4]
    found = base.draw_negatives_of_nodes(
        feed, np.array(nodes), np.array(updates), negatives=negatives, seed=5
    )

    assert found.ravel().tolist() == [*naive_negatives(feed, nodes, updates, negatives, 5)]


def test_negatives_are_uniform_over_the_other_items(feed):
    drawn = drawn_negatives(feed, 1, negatives=5, updates=1000)

    counts = np.bincount(drawn.ravel(), minlength=N_ITEMS)

    assert chisquare(np.delete(counts, POSITIVES[1])).pvalue > SURE


@pytest.mark.parametrize(
    ("one", "two"), slow_except_first([((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 3), (0, 4))])
)
@pytest.mark.full
def test_negatives_of_different_places_are_independent(feed, one, two):
    """Items in four groups of the 16 possible ones, 4000 updates: 250 expected in each of 16 cells."""
    drawn = drawn_negatives(feed, 1, negatives=5, updates=4000)
    rank = np.searchsorted(np.delete(np.arange(N_ITEMS), POSITIVES[1]), drawn) // 4

    table = np.histogram2d(rank[:, *one], rank[:, *two], bins=4)[0]

    assert chi2_contingency(table).pvalue > SURE


def test_samples_depend_on_nothing_but_the_arguments(any_feed):
    first = any_feed.samples(1, update=3, negatives=4, seed=5)
    any_feed.samples(0, update=9, negatives=2, seed=6)

    assert equal(first, any_feed.samples(1, update=3, negatives=4, seed=5))


@pytest.mark.parametrize("negatives", [1, 3, 5])
def test_samples_of_some_updates_are_those_of_each(any_feed, negatives):
    """To the byte, of nodes in any order, also of one twice, each in an update of its own."""
    nodes, updates = np.array([2, 0, 1, 2]), np.array([0, 7, 7, 3])
    found = any_feed.samples_of_some(nodes, updates, negatives=negatives, seed=5)
    for node, update, columns in zip(nodes.tolist(), updates.tolist(), found, strict=True):
        assert equal(columns, any_feed.samples(node, update=update, negatives=negatives, seed=5))
    assert any_feed.samples_of_some(nodes[:0], updates[:0], negatives=negatives, seed=5) == []


@pytest.mark.parametrize("negatives", [1, 4])
def test_columns_are_as_long_as_the_feed_says_and_of_the_types_it_says(any_feed, negatives):
    counts = any_feed.n_samples(negatives)
    for node in range(3):
        columns = any_feed.samples(node, update=0, negatives=negatives, seed=5)
        assert set(any_feed.item_columns) <= set(columns)
        assert {len(column) for column in columns.values()} == {counts[node]}
        for name, column in columns.items():
            assert column.dtype == (np.int32 if name in any_feed.item_columns else np.float32)
    assert counts.max() > 0


def test_samples_of_a_node_do_not_change_when_nodes_are_added(feed):
    fewer = PointwiseFeed(Ragged(feed.positives.offsets[:3], feed.positives.values[:5]), N_ITEMS)

    found = fewer.samples(1, update=3, negatives=4, seed=5)

    assert equal(found, feed.samples(1, update=3, negatives=4, seed=5))


def test_the_data_of_some_nodes_are_theirs_and_nobody_elses(any_feed):
    """Held back are the others' samples, targets and membership: what an attack is handed holds nothing else."""
    some = any_feed.restricted_to(np.array([1]))
    drawn = {"update": 3, "negatives": 4, "seed": 5}

    assert equal(some.samples(1, **drawn), any_feed.samples(1, **drawn))
    assert equal(some.targets(1), any_feed.targets(1))
    assert some.member[1].tobytes() == any_feed.member[1].tobytes()
    assert some.n_samples(4).tolist() == [0, any_feed.n_samples(4)[1], 0]
    for other in (0, 2):
        assert not some.member[other].any()
        assert not len(some.positives[other])
        assert not len(some.targets(other)["items"])
        assert all(not len(column) for column in some.samples(other, **drawn).values())
    for holder in (some, getattr(some, "moves", some.positives)):
        kept = [
            part for part in vars(holder).values() if isinstance(part, np.ndarray) and part.dtype == np.int32
        ]
        assert all(len(part) == len(some.targets(1)["items"]) for part in kept)


def test_one_nodes_data_are_those_of_node_0(any_feed):
    one = any_feed.for_user(1)

    assert len(one.positives) == 1
    assert equal(one.targets(0), any_feed.targets(1))
    assert one.n_samples(4).tolist() == [any_feed.n_samples(4)[1]]
    assert one.member[0].tobytes() == any_feed.member[1].tobytes()


def test_a_set_of_items_is_what_a_single_node_would_have_learnt_from(any_feed):
    made = any_feed.for_items(np.array([9, 2, 5]))
    columns = made.samples(0, update=0, negatives=1, seed=5)

    assert made.positives[0].tolist() == [2, 5, 9]
    assert set(columns["items"].tolist()) >= {2, 5, 9}
    assert len(columns["items"]) == made.n_samples(1)[0] > 0


@pytest.mark.parametrize("change", [{"node": 2}, {"update": 4}, {"seed": 6}])
def test_another_node_update_or_seed_draws_other_negatives(change):
    feed = PointwiseFeed(Ragged.sets_from_pairs(np.arange(3), np.zeros(3, np.int64), 3), 10_000)
    base = {"node": 1, "update": 3, "seed": 5}

    found = [feed.samples(negatives=8, **arguments)["items"] for arguments in (base, base | change)]

    assert len(set(found[0]) & set(found[1])) == 1  # item 0, the positive of all three


@given(st.integers(1, 9), st.integers(0, 50))
@settings(deadline=None)
def test_each_move_meets_fresh_items_the_node_never_visited(moving, negatives, update):
    samples = moving.samples(1, update=update, negatives=negatives, seed=5)

    assert samples["items"].tolist() == np.repeat([7, 8, 7], negatives).tolist()
    assert samples["previous"].tolist() == np.repeat([0, -1, 19], negatives).tolist()
    assert not set(samples["negatives"].tolist()) & set(POSITIVES[1])
    assert len(samples["items"]) == moving.n_samples(negatives)[1] == 3 * negatives


def test_negatives_of_moves_change_with_the_update_and_with_the_node(moving):
    drawn = [moving.samples(1, update=u, negatives=8, seed=5)["negatives"].tolist() for u in range(6)]

    assert len({tuple(items) for items in drawn}) == 6
    assert len(moving.samples(2, update=0, negatives=8, seed=5)["items"]) == 0


def test_a_move_that_took_longer_than_the_window_has_no_previous_place():
    gaps = np.array([5.0, 360.0, 360.5, np.nan], np.float32)
    moves = Ragged(np.array([0, 4]), np.arange(4, dtype=np.int32))
    seen = Transitions(moves, np.array([1, 2, 3, -1], np.int32), gaps)

    assert drop_stale_previous(seen, 360.0).tolist() == [1, 2, -1, -1]
