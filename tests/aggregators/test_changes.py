"""Rules on changes, by hand: two items of two numbers and one shared weight."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.store.update import ReceivedModels, Update
from gossiprec.rules.aggregators import Inbox, ModelDelta, SummableRows, make_aggregator

BASE = np.float32([1, 2, 3, 4, 5])
FIRST = Update(BASE, np.int32([0, 1]), np.float32([[2, 2], [3, 6]]), np.float32([8]))
SECOND = Update(BASE, np.int32([1]), np.float32([[3, 0]]), np.float32([5]))
OWN = np.float32([10, 20, 30, 40, 50])


def aggregated(rule, updates, weights):
    changes = [update.change for update in updates]
    models = np.stack([update.model for update in updates])
    return make_aggregator(rule).aggregate(
        OWN, Inbox(models, np.arange(len(updates)), np.array(weights), 0.0, changes)
    )


def test_an_update_is_its_version_with_the_touched_rows_replaced():
    assert SECOND.model.tolist() == [1, 2, 3, 0, 5]
    change: ModelDelta = FIRST.change
    assert (change.rows.tolist(), change.shared.tolist()) == ([[1, 0], [0, 2]], [3])
    assert BASE.tolist() == [1, 2, 3, 4, 5]
    assert SECOND.size_bytes == 4 * (1 + 2 + 1)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # item 0: the first alone; item 1: (3 [0, 2] + 1 [0, -4]) / 4; shared: 3 * 3 / 4
        ("touched-mean", [11, 20, 30, 40.5, 52.25]),
        ("sum", [11, 20, 30, 38, 53]),
    ],
)
def test_changes_are_added_to_the_own_model(rule, expected):
    assert aggregated(rule, [FIRST, SECOND], [3.0, 1.0]).tolist() == expected


def test_an_item_that_nobody_touched_stays_as_it_is():
    assert aggregated("touched-mean", [SECOND], [7.0]).tolist() == [10, 20, 30, 36, 50]


def test_any_columns_of_an_update_are_those_of_the_whole():
    rng = np.random.default_rng(4)
    base, rows = rng.normal(size=7 * 3 + 4).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    update = Update(base, np.int32([0, 3, 6]), rows, rng.normal(size=4).astype(np.float32))
    expected = base.copy()
    expected[:21].reshape(7, 3)[[0, 3, 6]] = rows
    expected[21:] = update.shared

    for low in range(25):
        for high in range(low + 1, 26):
            assert update.model_columns(low, high).tolist() == expected[low:high].tolist()


def test_a_mean_of_updates_is_that_of_the_models_that_they_make():
    """Of two versions, one with a single update; a version's part is added once."""
    rng = np.random.default_rng(7)
    bases = [rng.normal(size=7 * 3 + 2).astype(np.float32) for _ in range(2)]
    touched = [(0, [0, 3]), (1, [3, 6]), (0, [2]), (0, [])]
    updates = [
        Update(
            bases[of], np.int32(items), *(rng.normal(size=s).astype(np.float32) for s in ((len(items), 3), 2))
        )
        for of, items in touched
    ]
    rows, weights = ReceivedModels(updates, 23), np.array([1.0, 5.0, 2.0, 0.5])
    assert isinstance(rows, SummableRows)
    found = make_aggregator("mean").aggregate(bases[0], Inbox(rows, np.arange(4), weights))
    models = np.stack([update.model for update in updates])
    expected = make_aggregator("mean").aggregate(bases[0], Inbox(models, np.arange(4), weights))

    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    alone = make_aggregator("mean").aggregate(bases[0], Inbox(rows, np.array([2]), np.array([3.0])))
    np.testing.assert_allclose(alone, updates[2].model, rtol=1e-6, atol=1e-7)


def test_a_model_without_shared_weights_has_none_to_change():
    update = Update(np.float32([1, 2]), np.int32([1]), np.float32([[5]]), np.float32([]))

    assert update.change.shared.tolist() == []
    assert update.model.tolist() == [1, 5]
