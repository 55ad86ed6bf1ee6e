"""Sequences with gaps: which items are masked, by what draws, and what is asked after."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.models.feeds import MaskedFeed
from gossiprec.models.feeds.sequences import UNIT

N_ITEMS = 60


def split_of(train, test=None):
    held = test or [[]] * len(train)
    parts = [
        [np.array(sorted(items), np.int32) for items in part] for part in (train, [[]] * len(train), held)
    ]
    order = [np.array(before + after, np.int32) for before, after in zip(train, held, strict=True)]
    sets = (Ragged.from_parts(part) for part in parts)
    return Split("tiny", len(train), N_ITEMS, *sets, sequences=Ragged.from_parts(order))


def feed_of(train, max_length=50, **options):
    return MaskedFeed.within(split_of(train), max_length, **options)


def places(feed, node=0, update=0, seed=5):
    """Return what is known, and what is to be told, without the padding."""
    sample = feed.samples(node, update=update, negatives=2, seed=seed)
    known, wanted = sample["previous"][0], sample["items"][0]
    n = int(((known >= 0) | (wanted >= 0)).sum())
    assert (known[n:] == -1).all()
    assert (wanted[n:] == -1).all()
    return known[:n], wanted[:n]


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_each_place_is_known_or_to_be_told_and_one_at_least_is_a_gap(length):
    sequence = np.random.default_rng(0).permutation(N_ITEMS)[:length].tolist()
    feed = feed_of([sequence])
    for update in range(50):
        known, wanted = places(feed, update=update)
        assert np.maximum(known, wanted).tolist() == sequence
        assert ((known < 0) != (wanted < 0)).all()
        assert (wanted >= 0).any()


@pytest.mark.slow
@pytest.mark.full
def test_gaps_are_drawn_with_their_share_at_every_place():
    feed = feed_of([list(range(40))], mask=0.25)
    gaps = np.array([places(feed, update=update)[1] >= 0 for update in range(2000)])
    # five standard deviations of a share in 2,000 draws; a gap is hardly ever added for lack of any: .75 ** 40
    assert np.abs(gaps.mean(0) - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_a_share_of_0_leaves_one_gap_anywhere():
    feed = feed_of([[3, 1, 4]], mask=0.0)
    gaps = [np.flatnonzero(places(feed, update=update)[1] >= 0).tolist() for update in range(600)]
    counts = np.bincount(np.concatenate(gaps), minlength=3)
    assert {len(each) for each in gaps} == {1}
    assert np.abs(counts - 200).max() < 5 * np.sqrt(600 * 2 / 9)


def test_the_last_item_alone_is_masked_in_its_share_of_updates():
    always = feed_of([[3, 1, 4]], last_alone=1.0)
    assert all(places(always, update=update)[1].tolist() == [-1, -1, 4] for update in range(20))
    half = feed_of([list(range(40))], mask=0.5, last_alone=0.5)
    alone = np.mean([(places(half, update=update)[1] >= 0).sum() == 1 for update in range(1000)])
    assert abs(alone - 0.5) < 5 * np.sqrt(0.25 / 1000)


def test_with_random_ends_each_item_but_the_first_comes_last_equally_often():
    feed = feed_of([[3, 1, 4, 2], [8]], random_end=1.0)
    cut = [np.maximum(*places(feed, update=update)).tolist() for update in range(300)]
    assert all(each == [3, 1, 4, 2][: len(each)] for each in cut)
    counts = np.bincount([len(each) for each in cut], minlength=5)
    assert counts[:2].tolist() == [0, 0]
    assert np.abs(counts[2:] - 100).max() < 5 * np.sqrt(300 * 2 / 9)
    assert places(feed, 1)[1].tolist() == [8]
    half = feed_of([list(range(40))], random_end=0.5)
    whole = np.mean([len(places(half, update=update)[0]) == 40 for update in range(1000)])
    assert abs(whole - (0.5 + 0.5 / 39)) < 5 * np.sqrt(0.25 / 1000)


def test_gaps_follow_from_seed_node_and_update_alone():
    feed, sequence = feed_of([list(range(30)), list(range(30))]), {}
    for key in ((0, 0, 5), (1, 0, 5), (0, 1, 5), (0, 0, 6)):
        node, update, seed = key
        sequence[key] = tuple(places(feed, node, update, seed)[1].tolist())
    assert len(set(sequence.values())) == 4
    together = feed.samples_of_some(np.array([1, 0]), np.array([0, 1]), negatives=2, seed=5)
    for found, key in zip(together, ((1, 0, 5), (0, 1, 5)), strict=True):
        assert tuple(found["items"][0, :30].tolist()) == sequence[key]
    everybody = feed.samples_of_all(update=0, negatives=2, seed=5)
    assert tuple(everybody["items"][1, :30].tolist()) == sequence[1, 0, 5]


def test_of_a_long_sequence_the_latest_places_are_looked_at():
    known, wanted = places(feed_of([list(range(40))], max_length=5))
    assert np.maximum(known, wanted).tolist() == [35, 36, 37, 38, 39]


def test_rows_are_whole_units_and_a_user_without_items_has_none():
    feed = feed_of([[4], [], list(range(UNIT + 1))])
    assert feed.n_samples(2).tolist() == [1, 0, 1]
    shapes = [feed.samples(node, update=0, negatives=2, seed=5)["items"].shape for node in range(3)]
    assert shapes == [(1, UNIT), (0, UNIT), (1, 2 * UNIT)]


def test_a_history_leaves_a_place_for_the_gap_behind_it():
    split = split_of([[7, 3, 9, 1]], [[2]])
    feed = MaskedFeed.within(split, 3)
    assert feed.histories(split, "test")["history"][0, :3].tolist() == [9, 1, -1]


def test_data_of_one_node_and_of_some_are_masked_alike():
    options = {"max_length": 3, "mask": 0.7, "last_alone": 0.25, "random_end": 0.75}
    feed = feed_of([[4, 2], [7, 3, 9, 5]], **options)
    for other in (feed.for_user(1), feed.restricted_to(np.array([1])), feed.for_items(np.array([7, 3]))):
        assert isinstance(other, MaskedFeed)
        assert {name: getattr(other, name) for name in options} == options
    assert feed.restricted_to(np.array([1])).n_samples(2).tolist() == [0, 1]
    same = [places(each, 1) for each in (feed, feed.restricted_to(np.array([1])))]
    assert all(np.array_equal(one, other) for one, other in zip(*same, strict=True))


def test_observers_ask_for_each_item_after_the_one_before():
    found = feed_of([[7, 3, 9]]).targets(0)
    assert (found["items"].tolist(), found["previous"].tolist()) == ([7, 3, 9], [-1, 7, 3])


def test_data_without_times_are_refused():
    split = split_of([[1, 2]])
    with pytest.raises(DataError, match="has no times"):
        MaskedFeed.within(Split(split.name, 1, N_ITEMS, split.train, split.validation, split.test), 5)
