"""Rules against poisoners since 2020, against their formulas written out client by client."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.rules.aggregators import Inbox, ModelDelta, make_aggregator
from gossiprec.rules.aggregators.foolsgold import weights_by_similarity
from gossiprec.rules.aggregators.union import cluster_spreads, smaller_cluster

N_ITEMS, WIDTH, N_SHARED = 6, 3, 2
COLUMNS = N_ITEMS * WIDTH + N_SHARED


def drawn(n, seed=0):
    """Return an own model and the dense deltas of clients, each of which touches four items."""
    draw = np.random.default_rng(seed)
    dense = draw.normal(size=(n, COLUMNS)).astype(np.float32)
    items = [np.sort(draw.choice(N_ITEMS, 4, replace=False)).astype(np.int32) for _ in range(n)]
    for each, touched in zip(dense, items, strict=True):
        rows = each[:-N_SHARED].reshape(N_ITEMS, WIDTH)
        rows[np.setdiff1d(np.arange(N_ITEMS), touched)] = 0
    return draw.normal(size=COLUMNS).astype(np.float32), dense, items


def inbox(dense, items):
    deltas = [
        ModelDelta(touched, each[:-N_SHARED].reshape(N_ITEMS, WIDTH)[touched], each[-N_SHARED:])
        for each, touched in zip(dense, items, strict=True)
    ]
    n = len(dense)
    return Inbox(np.zeros((n, COLUMNS), np.float32), np.arange(n), np.ones(n), deltas=deltas)


def test_ucsu_clips_users_as_a_whole_and_updates_the_items_that_move_most():
    own, dense, items = drawn(5)
    dense[3] *= 30
    norms = np.linalg.norm(dense, axis=1)
    total = (dense * np.minimum(1, np.median(norms) / norms)[:, None]).sum(axis=0)
    moved = np.linalg.norm(total[:-N_SHARED].reshape(N_ITEMS, WIDTH), axis=1)
    total[:-N_SHARED].reshape(N_ITEMS, WIDTH)[np.argsort(-moved)[3:]] = 0

    found = make_aggregator({"name": "ucsu", "over": "touched", "gather": "sum"}).aggregate(
        own, inbox(dense, items)
    )

    assert found == pytest.approx(own + total, abs=1e-4)


def test_ucsu_of_whole_models_is_norm_bounding_of_the_larger_numbers():
    own, dense, _ = drawn(5)
    received = Inbox(own + dense, np.arange(5), np.ones(5), 1.0)
    bounded = make_aggregator("norm-bound").aggregate(own, received) - own
    bounded[np.argsort(-np.abs(bounded))[COLUMNS // 4 :]] = 0

    found = make_aggregator({"name": "ucsu", "top": 0.25}).aggregate(own, received)

    assert found - own == pytest.approx(bounded, abs=1e-5)


def foolsgold_weights(dense, kappa=1.0):
    """Return the weights of algorithm 1 of the paper."""
    n = len(dense)
    cosines = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                cosines[i, j] = dense[i] @ dense[j] / np.linalg.norm(dense[i]) / np.linalg.norm(dense[j])
    most = np.array([max(cosines[i, j] for j in range(n) if j != i) for i in range(n)])
    for i in range(n):
        for j in range(n):
            if i != j and most[j] > max(most[i], 0):
                cosines[i, j] *= max(most[i] / most[j], 0)
    weights = np.array([1 - max(cosines[i, j] for j in range(n) if j != i) for i in range(n)]).clip(0, 1)
    weights /= weights.max()
    return np.clip(kappa * (np.log(weights / np.maximum(1 - weights, 1e-5)) + 0.5), 0, 1)


def test_foolsgold_weighs_clients_by_how_little_they_resemble_another():
    own, dense, items = drawn(6, seed=3)
    dense[4], items[4] = 0.7 * dense[2], items[2]  # poisoners with one aim
    weights = foolsgold_weights(dense.astype(np.float64))
    assert (weights[[2, 4]] == 0).all()
    assert np.count_nonzero(weights) >= 3
    expected = own + weights @ dense
    rule = {"name": "foolsgold", "over": "touched", "then": "sum"}
    assert make_aggregator(rule).aggregate(own, inbox(dense, items)) == pytest.approx(expected, abs=1e-4)

    whole = Inbox(own + dense, np.arange(6), np.ones(6), 2.0)
    mean = own + weights @ dense / (2 + weights.sum())
    assert make_aggregator("foolsgold").aggregate(own, whole) == pytest.approx(mean, abs=1e-4)


def test_clients_that_all_resemble_one_another_leave_the_model():
    assert not weights_by_similarity(np.ones((4, 4)), 1.0).any()
    assert weights_by_similarity(np.eye(4), 1.0).tolist() == [1, 1, 1, 1]


def test_union_leaves_out_clients_that_draw_item_rows_together():
    own, dense, items = drawn(12, seed=1)
    dense *= np.float32(0.01)
    table = own[:-N_SHARED].reshape(N_ITEMS, WIDTH)
    for place in (2, 7, 8):
        items[place] = np.arange(N_ITEMS, dtype=np.int32)
        dense[place, :-N_SHARED] = 0.9 * (table.mean(axis=0) - table).ravel()
    kept = [place for place in range(12) if place not in (2, 7, 8)]
    rule = make_aggregator({"name": "union", "then": "sum"})

    found = rule.aggregate(own, inbox(dense, items))

    assert found == pytest.approx(own + dense[kept].sum(axis=0), abs=1e-4)
    assert rule.findings() == {"filtered_share": pytest.approx(0.25)}


def test_union_measures_the_mean_distance_of_the_compared_items():
    own, dense, items = drawn(3, seed=2)
    rule = make_aggregator({"name": "union", "items": 3})  # items 0, 2 and 5
    found = rule._uniformity(own, inbox(dense, items))
    for value, each in zip(found, dense, strict=True):
        rows = (own + each)[:-N_SHARED].reshape(N_ITEMS, WIDTH)[[0, 2, 5]].astype(np.float64)
        pairs = [np.linalg.norm(rows[i] - rows[j]) for i in range(3) for j in range(3) if i != j]
        assert value == pytest.approx(np.mean(pairs), rel=1e-6)


def test_one_cluster_is_left_whole():
    even = np.linspace(0, 1, 40)
    assert not smaller_cluster(even).any()
    assert not smaller_cluster(np.ones(7)).any()
    apart = np.append(np.linspace(0, 0.01, 37), [5.0, 5.01, 5.02])
    assert np.flatnonzero(smaller_cluster(apart)).tolist() == [37, 38, 39]
    spreads, size = cluster_spreads(np.array([0.0, 1.0, 5.0, 7.0]))
    assert spreads == pytest.approx([32.75, 2.5])
    assert size == 2


def test_item_regularisation_draws_unpopular_items_towards_popular_ones():
    own, dense, items = drawn(4, seed=5)
    rule = make_aggregator({"name": "item-regularisation", "popular": 2, "weight": 0.3, "then": "sum"})
    first = rule.aggregate(own, inbox(dense, items))
    assert first == pytest.approx(own + dense.sum(axis=0), abs=1e-4)  # nothing has changed before

    found = rule.aggregate(first, inbox(dense, items))

    table = first[:-N_SHARED].reshape(N_ITEMS, WIDTH).astype(np.float64)
    best = np.argsort(-np.linalg.norm(table - own[:-N_SHARED].reshape(N_ITEMS, WIDTH), axis=1))[:2]

    def similarity(row):
        cosines = [table[p] @ row / np.linalg.norm(table[p]) / np.linalg.norm(row) for p in best]
        return (4 * cosines[0] + cosines[1]) / 5

    expected = (first + dense.sum(axis=0)).astype(np.float64)
    rows = expected[:-N_SHARED].reshape(N_ITEMS, WIDTH)
    for touched in items:
        unpopular = [i for i in touched if i not in best]
        for i in unpopular:
            slope = [
                (similarity(table[i] + step) - similarity(table[i] - step)) / 2e-5
                for step in 1e-5 * np.eye(WIDTH)
            ]
            rows[i] += 0.3 * np.array(slope) / len(unpopular)
    assert found == pytest.approx(expected, abs=1e-4)
