from __future__ import annotations

import hashlib
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_data import dataset

from gossiprec.data import load_split
from gossiprec.data.reports import describe_interactions
from gossiprec.data.synthetic import draw_items, draw_user_activity

SMALL = {"users": 60, "items": 90, "interactions": 1800}


def digest(found):
    return hashlib.sha256(
        b"".join(a.tobytes() for a in (found.users, found.items, found.ratings, found.times))
    ).hexdigest()


@pytest.fixture(scope="module")
def default():
    return dataset("synthetic").load(1)


@st.composite
def sizes(draw):
    users, items = draw(st.integers(1, 40)), draw(st.integers(2, 60))
    return {"users": users, "items": items, "interactions": draw(st.integers(users, users * items // 2))}


@given(options=sizes(), seed=st.integers(0, 2**64 - 1), communities=st.integers(1, 5))
def test_any_size_is_met_exactly_with_distinct_pairs(options, seed, communities):
    found = dataset("synthetic", **options, communities=communities).load(seed)
    pairs = set(zip(found.users.tolist(), found.items.tolist(), strict=True))
    assert len(pairs) == len(found.users) == options["interactions"]
    assert set(found.users.tolist()) == set(range(options["users"]))
    assert found.items.min() >= 0
    assert found.items.max() < options["items"]
    assert np.bincount(found.users).max() <= max(1, options["items"] * 3 // 4)


@pytest.mark.parametrize("shape", [1e-100, 1e-5, 0.01, 0.05, 0.66, 1e30])
def test_users_of_any_inequality_have_all_the_interactions(shape):
    """Of very unequal users most have quantiles that underflow, or that differ by hundreds of orders of magnitude."""
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        counts = draw_user_activity(1, n_users=943, total=100_000, least=20, most=1261, shape=shape)

    assert counts.sum() == 100_000
    assert counts.min() >= 20
    assert counts.max() <= 1261


def test_the_default_has_the_sizes_of_movielens_100k(default):
    told = describe_interactions(default)
    assert (told["users"], told["items"], told["interactions"]) == (943, 1682, 100_000)
    assert told["min_per_user"] == 20


def test_the_default_published_split_has_nearly_the_published_sizes():
    split = load_split("synthetic", {}, "published", {}, 1)
    assert set(split.test.sizes.tolist()) == {10}
    assert int(split.validation.sizes.sum()) == pytest.approx(8_653, rel=0.01)
    assert int(split.train.sizes.sum()) == pytest.approx(81_917, rel=0.01)


def test_small_data_can_be_split_as_published():
    split = load_split("synthetic", {"users": 8, "items": 10, "interactions": 40}, "published", {}, 1)
    assert (split.train.sizes + split.validation.sizes + split.test.sizes).sum() == 40
    assert split.test.sizes.min() >= 1


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    drawn = [digest(dataset("synthetic", **SMALL).load(seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_items_are_drawn_by_their_probabilities():
    """A user's first item: shares within 4 standard deviations of the mixture, 20,000 users."""
    tastes = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    members = np.tile([0.25, 0.75], (20_000, 1))
    _, items = draw_items(3, np.ones(20_000, np.int64), members, tastes)
    expected = members[0] @ tastes
    deviation = np.sqrt(expected * (1 - expected) / 20_000)
    assert np.all(np.abs(np.bincount(items) / 20_000 - expected) < 4 * deviation)


@pytest.mark.parametrize("rounds", [0, 5])
def test_both_ways_to_draw_leave_out_items_alike(monkeypatch, rounds):
    """Three items of four: the share of users who lack item i, within 4 deviations of its enumeration."""
    monkeypatch.setattr("gossiprec.data.synthetic.ROUNDS", rounds)
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    n = 4_000
    _, items = draw_items(5, np.full(n, 3), np.ones((n, 1)), weights[None])
    lacking = 1 - np.bincount(items, minlength=4) / n
    exact = np.array([_probability_last(weights, last) for last in range(4)])
    assert np.all(np.abs(lacking - exact) < 4 * np.sqrt(exact * (1 - exact) / n))


def _probability_last(weights, last):
    total = 0.0
    for order in permutations([i for i in range(len(weights)) if i != last]):
        left, chance = 1.0, 1.0
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        total += chance
    return total


def test_blocks_of_users_cover_everyone(monkeypatch):
    monkeypatch.setattr("gossiprec.data.synthetic.USERS_PER_BLOCK", 7)
    found = dataset("synthetic", **SMALL).load(1)
    assert len(set(zip(found.users.tolist(), found.items.tolist(), strict=True))) == 1800
    assert np.all(np.diff(found.users * 90 + found.items) > 0)


def test_blocks_of_users_draw_apart(monkeypatch):
    monkeypatch.setattr("gossiprec.data.synthetic.USERS_PER_BLOCK", 1)
    _, items = draw_items(1, np.array([20, 20]), np.ones((2, 1)), np.full((1, 200), 1 / 200))
    assert items[:20].tolist() != items[20:].tolist()


def test_what_is_drawn_does_not_depend_on_how_many_threads_draw(monkeypatch):
    monkeypatch.setattr("gossiprec.data.synthetic.USERS_PER_BLOCK", 7)
    drawn = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("gossiprec.data.synthetic.usable_cores", lambda cores=cores: cores)
        drawn.append(digest(dataset("synthetic", **SMALL).load(1)))
    assert drawn[0] == drawn[1] == drawn[2]


def test_communities_are_what_makes_users_alike(default):
    """Without contrast of tastes the mean top-50 Jaccard index falls by a quarter or more."""
    flat = dataset("synthetic", contrast=0).load(1)
    assert (
        describe_interactions(flat)["mean_top50_jaccard"]
        < 0.75 * describe_interactions(default)["mean_top50_jaccard"]
    )


def test_times_tell_nothing_about_items(default):
    """Within users, later items are as popular as earlier ones: correlation within 4 / sqrt(100,000)."""
    popularity = np.bincount(default.items, minlength=1682)[default.items].astype(float)
    times = default.times.astype(float)
    counts = np.bincount(default.users)
    for values in (popularity, times):
        values -= (np.bincount(default.users, values) / counts)[default.users]
        values /= np.sqrt(np.bincount(default.users, values**2) / counts)[default.users]
    assert abs(np.mean(popularity * times)) < 4 / np.sqrt(100_000)


@pytest.mark.parametrize(
    "options",
    [{"interactions": 10}, {"users": 10, "items": 10, "interactions": 51}, {"users": 0}, {"mixing": 0}],
)
def test_impossible_sizes_are_refused(options):
    with pytest.raises(ValidationError):
        dataset("synthetic", **options)
