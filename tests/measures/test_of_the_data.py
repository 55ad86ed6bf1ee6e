"""Measures that depend on the data: each against its formula, written out item by item."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged
from gossiprec.data.features import label_column
from gossiprec.measures import MEASURES, MeasureData, TopItems

N_USERS, N_ITEMS, K = 12, 40, 7
GENRES = ["action", "comedy", "drama", "war"]


@pytest.fixture(params=range(3))
def drawn(request):
    """Return data and lists, with a user without test items and lists that end early."""
    draw = np.random.default_rng(request.param)
    items = np.argsort(draw.random((N_USERS, N_ITEMS)) ** (1 + np.arange(N_ITEMS) / 9), axis=1)
    train = [sorted(row[: draw.integers(1, 9)].tolist()) for row in items]
    test = [sorted(row[9 : 9 + draw.integers(1, 5)].tolist()) for row in items]
    test[3] = []
    kinds = [sorted(set(draw.choice(GENRES, draw.integers(0, 3)).tolist())) for _ in range(N_ITEMS)]
    lists = np.argsort(draw.random((N_USERS, N_ITEMS)), axis=1)[:, : K + 2].astype(np.int32)
    lists[5, 4:] = -1
    parts = [Ragged.from_parts([np.array(row, np.int32) for row in rows]) for rows in (train, test, test)]
    table = FeatureTable(("genres",), (label_column(kinds),), "items.csv")
    data = MeasureData("drawn", N_USERS, N_ITEMS, *parts, item_features=table)
    users = np.array([u for u in range(N_USERS) if u != 7])
    return data, train, test, kinds, TopItems(lists[users], N_ITEMS, users)


def listed(top, place):
    return [item for item in top.items[place, :K].tolist() if item >= 0]


def popularity(train):
    return Counter(item for row in train for item in row)


def test_novelty(drawn):
    data, train, _, _, top = drawn
    seen = popularity(train)
    expected = [np.mean([1 - seen[i] / N_USERS for i in listed(top, n)]) for n in range(len(top.users))]
    np.testing.assert_allclose(MEASURES["novelty"](data).compute_values(top, K), expected, rtol=1e-12)


def test_gini_is_the_mean_difference_of_all_pairs_of_items(drawn):
    data, _, _, _, top = drawn
    shown = Counter(item for n in range(len(top.users)) for item in listed(top, n))
    x = [shown[item] for item in range(N_ITEMS)]
    differences = sum(abs(a - b) for a in x for b in x) / (2 * N_ITEMS * sum(x))
    expected = differences * N_ITEMS / (N_ITEMS - 1)  # the form with n - 1, which is 1 for a single item
    np.testing.assert_allclose(MEASURES["exposure_gini"](data).compute_values(top, K), [expected], rtol=1e-12)


@pytest.mark.parametrize(("lists", "expected"), [([[0, 1], [2, 3]], 0.0), ([[2], [2]], 1.0)])
def test_gini_of_equal_exposure_and_of_one_item(lists, expected):
    top = TopItems(np.array(lists, np.int32), 4, np.arange(2))
    assert MEASURES["exposure_gini"](None).compute_values(top, 2).tolist() == [expected]


def test_stratified_recall(drawn):
    data, train, test, _, top = drawn
    seen = popularity(train)

    def weight(items):
        return sum(max(seen[i], 1) ** -0.5 for i in items)

    found = MEASURES["stratified_recall"](data).compute_values(top, K)
    for n, user in enumerate(top.users.tolist()):
        if not test[user]:
            assert math.isnan(found[n])
            continue
        assert found[n] == pytest.approx(weight(set(test[user]) & set(listed(top, n))) / weight(test[user]))


def test_miscalibration(drawn):
    data, train, _, kinds, top = drawn

    def distribution(items):
        weights = [sum(1 / len(kinds[i]) for i in items if genre in kinds[i]) for genre in GENRES]
        return [weight / sum(weights) for weight in weights] if sum(weights) else [math.nan]

    found = MEASURES["miscalibration"](data).compute_values(top, K)
    for n, user in enumerate(top.users.tolist()):
        p, q = distribution(train[user]), distribution(listed(top, n))
        if math.isnan(p[0] + q[0]):
            assert math.isnan(found[n])
            continue
        overlap = sum(math.sqrt(a * b) for a, b in zip(p, q, strict=True))  # Bhattacharyya's coefficient
        assert found[n] == pytest.approx(math.sqrt(max(0.0, 1 - overlap)), abs=1e-7)


def test_miscalibration_needs_genres(drawn):
    data = drawn[0]
    plain = MeasureData("plain", N_USERS, N_ITEMS, data.train, data.validation, data.test)
    with pytest.raises(DataError, match="plain: has no attributes of items, which miscalibration needs"):
        MEASURES["miscalibration"](plain)
