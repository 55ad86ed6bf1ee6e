"""Rules against poisoners since 2020, against their formulas written out client by client."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.rules.aggregators import Inbox, ModelDelta, make_aggregator
from gossiprec.rules.aggregators.foolsgold import weights_by_similarity
from gossiprec.rules.aggregators.union import cluster_spreads, smaller_cluster
from tests.audit.rules import foolsgold_weights

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


def test_ucsu_of_whole_models_is_norm_bounding_of_the_larger_numbers():
    own, dense, _ = drawn(5)
    received = Inbox(own + dense, np.arange(5), np.ones(5), 1.0)
    bounded = make_aggregator("norm-bound").aggregate(own, received) - own
    bounded[np.argsort(-np.abs(bounded))[COLUMNS // 4 :]] = 0

    found = make_aggregator({"name": "ucsu", "top": 0.25}).aggregate(own, received)

    assert found - own == pytest.approx(bounded, abs=1e-5)


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


def test_one_cluster_is_left_whole():
    even = np.linspace(0, 1, 40)
    assert not smaller_cluster(even).any()
    assert not smaller_cluster(np.ones(7)).any()
    apart = np.append(np.linspace(0, 0.01, 37), [5.0, 5.01, 5.02])
    assert np.flatnonzero(smaller_cluster(apart)).tolist() == [37, 38, 39]
    spreads, size = cluster_spreads(np.array([0.0, 1.0, 5.0, 7.0]))
    assert spreads == pytest.approx([32.75, 2.5])
    assert size == 2
