from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_data import dataset, interactions

from gossiprec.base.ragged import Ragged
from gossiprec.data import load_split, reports
from gossiprec.data.reports import describe_interactions, top_jaccard
from gossiprec.measures import communities


def by_definition(sets, k):
    users = [set(sets[user].tolist()) for user in range(len(sets))]
    k = min(k, len(users) - 1)
    means = []
    for me, own in enumerate(users):
        likeness = [
            len(own & other) / max(len(own | other), 1) for you, other in enumerate(users) if you != me
        ]
        means.append(sum(sorted(likeness, reverse=True)[:k]) / k)
    return means


@given(
    users=st.lists(st.sets(st.integers(0, 6), max_size=7), min_size=2, max_size=8),
    k=st.integers(1, 9),
)
def test_top_jaccard_is_its_definition(users, k):
    pairs = np.array([(u, i) for u, items in enumerate(users) for i in items], np.int64).reshape(-1, 2)
    sets = Ragged.sets_from_pairs(pairs[:, 0], pairs[:, 1], len(users))
    assert top_jaccard(sets, 7, k) == pytest.approx(by_definition(sets, k))


def test_beyond_the_limit_a_sample_of_users_is_compared_with_everyone(monkeypatch):
    split = load_split("synthetic", {"users": 60, "items": 90, "interactions": 1800}, "published", {}, 1)
    whole = top_jaccard(split.train, 90, 10)
    monkeypatch.setattr(reports, "COMPARED_USERS", 50)
    monkeypatch.setattr(reports, "SAMPLED_USERS", 4)
    assert top_jaccard(split.train, 90, 10) == pytest.approx(whole[[0, 19, 39, 59]])


def test_small_blocks_change_nothing(monkeypatch):
    split = load_split("synthetic", {"users": 60, "items": 90, "interactions": 1800}, "published", {}, 1)
    whole = top_jaccard(split.train, 90, 10)
    monkeypatch.setattr(communities, "BLOCK_CELLS", 130)
    assert np.array_equal(top_jaccard(split.train, 90, 10), whole)


def test_describe_counts_repeated_pairs_once():
    told = describe_interactions(interactions([(0, 0), (0, 0), (0, 1), (1, 2)], n_items=4))
    assert told == {
        "name": "tiny",
        "users": 2,
        "items": 4,
        "interactions": 3,
        "density": 3 / 8,
        "gini_items": 0.25,
        "gini_users": pytest.approx(1 / 6),
        "min_per_user": 1,
        "median_per_user": 1.5,
        "max_per_user": 2,
        "mean_top50_jaccard": 0.0,
    }


def test_describe_of_a_split_adds_its_parts_and_keeps_the_totals():
    options = {"users": 60, "items": 90, "interactions": 1800}
    whole = describe_interactions(dataset("synthetic", **options).load(1))
    split = load_split("synthetic", options, "published", {}, 1)
    told = describe_interactions(split)
    parts = [told[f"{part}_interactions"] for part in ("train", "validation", "test")]
    assert sum(parts) == told["interactions"] == 1800
    for key in ("gini_items", "gini_users", "density", "max_per_user"):
        assert told[key] == whole[key]
    assert told["mean_top50_jaccard"] == pytest.approx(top_jaccard(split.train, 90).mean())
    json.dumps(told)
