"""Sequences: what comes in which place, what is padding, and what a user is asked after."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.loading import keep_first_users
from gossiprec.data.split import Interactions, Split, extract_sequences
from gossiprec.models.feeds import ListFeed, SequenceFeed
from gossiprec.models.feeds.sequences import UNIT

N_ITEMS = 60


def split_of(train, validation=(), test=(), sequences=None):
    """Return a split of the lists that are given, in the order in which the parts have them unless told otherwise."""
    parts = [list(part) + [[]] * (len(train) - len(part)) for part in (train, validation, test)]
    order = sequences or [list(chain(*lists)) for lists in zip(*parts, strict=True)]
    sets = (Ragged.from_parts([np.array(sorted(items), np.int32) for items in part]) for part in parts)
    rows = Ragged.from_parts([np.array(items, np.int32) for items in order])
    return Split("tiny", len(train), N_ITEMS, *sets, sequences=rows)


def feed_of(train, max_length=50):
    return SequenceFeed.within(split_of(train), max_length)


def sample_of(feed, node, **more):
    return feed.samples(node, **{"update": 0, "negatives": 3, "seed": 5, **more})


def real(row):
    """Return what stands before the padding, after checking that only padding follows."""
    n = int((row >= 0).sum())
    assert (row[n:] == -1).all()
    return row[:n].tolist()


def test_each_item_but_the_first_is_learnt_beside_the_one_before():
    sample = sample_of(feed_of([[7, 3, 9, 1]]), 0)
    assert sample["items"].shape == sample["previous"].shape == (1, UNIT)
    assert real(sample["previous"][0]) == [7, 3, 9]
    assert real(sample["items"][0]) == [3, 9, 1]
    assert sample["negatives"].shape == (1, 3)
    assert not set(sample["negatives"][0].tolist()) & {7, 3, 9, 1}


def test_a_sequence_of_one_item_is_nothing_to_learn_from():
    feed = feed_of([[4], [4, 5]])
    assert feed.n_samples(3).tolist() == [0, 1]
    assert {name: part.shape for name, part in sample_of(feed, 0).items()} == {
        "previous": (0, UNIT),
        "items": (0, UNIT),
        "negatives": (0, 3),
    }


def test_of_a_long_sequence_the_latest_places_are_learnt():
    sample = sample_of(feed_of([list(range(40))], max_length=5), 0)
    assert real(sample["items"][0]) == [35, 36, 37, 38, 39]
    assert real(sample["previous"][0]) == [34, 35, 36, 37, 38]


@pytest.mark.parametrize(("n", "width"), [(2, UNIT), (UNIT + 1, UNIT), (UNIT + 2, 2 * UNIT)])
def test_rows_are_as_wide_as_their_own_sequence_needs(n, width):
    assert sample_of(feed_of([list(range(n)), list(range(50))]), 0)["items"].shape == (1, width)


def test_what_a_node_draws_depends_on_nobody_beside_it():
    feed = feed_of([[7, 3, 9], [1, 2], [5, 6, 8]])
    together = feed.samples_of_some(np.array([2, 0]), np.array([4, 1]), negatives=6, seed=5)
    for node, update, found in ((2, 4, together[0]), (0, 1, together[1])):
        alone = sample_of(feed, node, update=update, negatives=6)
        assert all(np.array_equal(found[name], alone[name]) for name in alone)
    again = sample_of(feed, 2, update=3, negatives=6)["negatives"]
    assert not np.array_equal(again, together[0]["negatives"])


def test_everybodys_sequences_are_of_one_width_and_say_whose_they_are():
    feed = feed_of([[4], [7, 3, 9], list(range(40))])
    found = feed.samples_of_all(update=0, negatives=2, seed=5)
    assert found["user"].tolist() == [1, 2]
    assert found["items"].shape == (2, 2 * UNIT)
    assert real(found["items"][0]) == [3, 9]
    assert np.array_equal(found["negatives"][1:], sample_of(feed, 2, negatives=2)["negatives"])


def test_a_user_is_asked_after_all_that_came_before():
    split = split_of([[7, 3, 9], [4]], [[1], []], [[2], [6]])
    feed = SequenceFeed.within(split, 3)
    before_test, before_validation = (
        feed.histories(split, part)["history"] for part in ("test", "validation")
    )
    assert [real(row) for row in before_test] == [[3, 9, 1], [4]]
    assert [real(row) for row in before_validation] == [[7, 3, 9], [4]]


def test_test_items_are_in_no_history_even_if_they_came_first():
    split = split_of([[7, 3]], [[1]], [[2]], sequences=[[2, 7, 1, 3]])
    feed = SequenceFeed.within(split, 10)
    assert real(feed.histories(split, "test")["history"][0]) == [7, 1, 3]
    assert real(sample_of(feed, 0)["items"][0]) == [3]


def test_observers_ask_for_each_item_after_the_one_before():
    found = feed_of([[7, 3, 9]]).targets(0)
    assert found["items"].tolist() == [7, 3, 9]
    assert found["previous"].tolist() == [-1, 7, 3]


def test_data_of_one_node_are_its_sequence():
    alone = feed_of([[4, 2], [7, 3, 9]]).for_user(1)
    assert len(alone.positives) == 1
    assert real(sample_of(alone, 0)["items"][0]) == [3, 9]


def test_data_without_times_are_refused():
    with pytest.raises(DataError, match=r"has no times.*use data with times"):
        SequenceFeed.within(replace(split_of([[1, 2]]), sequences=None), 5)


def test_lists_hold_all_that_was_taken_in_whatever_order():
    feed = ListFeed(Ragged.from_parts([np.array([3, 7, 9], np.int32), np.zeros(0, np.int32)]), N_ITEMS)
    assert feed.n_samples(3).tolist() == [1, 0]
    assert real(sample_of(feed, 0)["items"][0]) == [3, 7, 9]
    assert sample_of(feed, 1)["items"].shape == (0, UNIT)


def interactions(rows, times=True):
    users, items, when = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Interactions("tiny", users, items, 2, N_ITEMS, times=when if times else None)


ROWS = [(0, 5, 30), (0, 4, 10), (0, 9, 10), (0, 5, 20), (0, 8, -1), (1, 1, 7)]


def test_sequences_are_in_the_order_of_first_meetings():
    split = split_of([[4, 5, 8, 9], [1]])
    found = extract_sequences(interactions(ROWS), split)
    assert [found[user].tolist() for user in range(2)] == [[8, 4, 9, 5], [1]]  # unknown first; ties by item


def test_what_no_part_holds_is_in_no_sequence():
    found = extract_sequences(interactions(ROWS), split_of([[4, 5], [1]]))
    assert [found[user].tolist() for user in range(2)] == [[4, 5], [1]]


def test_data_without_times_have_no_sequences():
    assert extract_sequences(interactions(ROWS, times=False), split_of([[4], [1]])) is None


def test_the_first_users_keep_their_sequences():
    assert keep_first_users(split_of([[4, 2], [1]]), 1).sequences[0].tolist() == [4, 2]
