"""Bulyan, centered clipping and the geometric median against their papers' formulas, written out model by model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gossiprec.rules.aggregators import Inbox, ModelDelta, make_aggregator
from tests.audit.rules import bulyan


def drawn(n, columns=5, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=columns).astype(np.float32), draw.normal(size=(n, columns)).astype(np.float32)


def inbox(models, weights=None, own_weight=0.0):
    places = np.arange(len(models))
    return Inbox(models, places, np.ones(len(models)) if weights is None else weights, own_weight)


@pytest.mark.parametrize(("n", "byzantine"), [(7, 1), (8, 1), (11, 2), (15, 3), (16, 2), (5, 0)])
def test_bulyan_is_the_papers(n, byzantine):
    own, models = drawn(n, seed=n)
    models[:byzantine] *= 50
    rule = make_aggregator({"name": "bulyan", "byzantine": byzantine})

    assert rule.aggregate(own, inbox(models)) == pytest.approx(bulyan(models, byzantine), abs=1e-5)


def test_bulyan_of_few_models_lowers_the_number_that_it_withstands():
    rule = make_aggregator({"name": "bulyan", "byzantine": 3})
    own, models = drawn(8)

    assert rule.min_models == 15
    assert [rule.breakdown(n) for n in (1, 6, 7, 14, 15, 40)] == [0, 2, 1, 2, 3, 3]
    assert rule.aggregate(own, inbox(models)) == pytest.approx(bulyan(models, 1), abs=1e-5)
    assert rule.aggregate(own, inbox(models[:5])) == pytest.approx(np.median(models[:5], axis=0), abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_geometric_median_has_the_smallest_sum_of_distances(weighted):
    own, models = drawn(9, seed=3)
    models[:4] += 100
    weights = np.random.default_rng(1).uniform(0.8, 1.2, 9) if weighted else np.ones(9)
    rule = make_aggregator({"name": "geometric-median", "iterations": 400})
    found = rule.aggregate(own, inbox(models, weights))

    def total(point):
        return (weights * np.linalg.norm(models - point, axis=1)).sum()

    best = minimize(
        total, models[4:].mean(axis=0), method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-10}
    )
    assert total(found) <= best.fun + 1e-4
    assert abs(found).max() < 10


def test_ten_iterations_are_near_the_geometric_median():
    own, models = drawn(20, columns=30, seed=4)
    models[:6] = 1e6
    few, many = (
        make_aggregator({"name": "geometric-median", "iterations": n}).aggregate(own, inbox(models))
        for n in (10, 1000)
    )
    assert np.linalg.norm(few - many) < 1e-5 * np.linalg.norm(many)


def test_the_geometric_median_may_weigh_by_samples():
    rule = make_aggregator({"name": "geometric-median", "weighting": "samples"})
    assert rule.weights(np.array([3, 7])).tolist() == [3, 7]


def test_centered_clipping_moves_a_centre_that_remembers_the_last_change():
    own, models = drawn(5, seed=6)
    rule = make_aggregator({"name": "centered-clipping", "radius": 0.7, "iterations": 2})
    weights = np.array([1.0, 2.0, 1.0, 1.0, 3.0])
    change = np.zeros(5)
    for _ in range(3):
        centre = own + change
        for _ in range(2):
            differences = models - centre
            scale = np.minimum(1.0, 0.7 / np.linalg.norm(differences, axis=1))
            centre = centre + (weights[:, None] * scale[:, None] * differences).sum(axis=0) / weights.sum()
        change = centre - own
        found = rule.aggregate(own, inbox(models, weights))
        assert found == pytest.approx(centre, abs=1e-5)
        own = found
        models = models * np.float32(0.9)


def test_centered_clipping_at_the_own_model_is_norm_bounding():
    own, models = drawn(6, seed=7)
    clipping = make_aggregator({"name": "centered-clipping", "radius": 0.4, "center": "own"})
    bounding = make_aggregator({"name": "norm-bound", "bound": 0.4})
    for _ in range(2):
        assert clipping.aggregate(own, inbox(models)) == pytest.approx(
            bounding.aggregate(own, inbox(models)), abs=1e-6
        )


def test_only_finite_models_move_the_centre():
    own, models = drawn(4)
    models[1, 2], models[3, 0] = np.nan, np.inf
    found, expected = (
        make_aggregator("centered-clipping").aggregate(own, inbox(some)) for some in (models, models[[0, 2]])
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_an_inbox_without_a_finite_model_leaves_the_own_model_and_the_last_change():
    own, models = drawn(4)
    nothing = np.full((2, len(own)), np.nan, np.float32)
    rule, other = make_aggregator("centered-clipping"), make_aggregator("centered-clipping")
    assert np.array_equal(rule.aggregate(own, inbox(nothing)), own)

    for each in (rule, other):
        each.aggregate(own, inbox(models))
    assert np.array_equal(rule.aggregate(own, inbox(nothing)), own)
    assert np.array_equal(rule.aggregate(own, inbox(models)), other.aggregate(own, inbox(models)))


@pytest.mark.parametrize("name", ["bulyan", "geometric-median"])
def test_an_items_deltas_are_reduced_like_models(name):
    """Every client touches both items, one of which is far from zero: each item is reduced by itself."""
    n, width = 7, 3
    draw = np.random.default_rng(8)
    rows = draw.normal(size=(n, 2, width)).astype(np.float32)
    rows[:, 1] *= 40
    shared = draw.normal(size=(n, 1)).astype(np.float32)
    deltas = [ModelDelta(np.arange(2, dtype=np.int32), rows[i], shared[i]) for i in range(n)]
    received = Inbox(np.zeros((n, 2 * width + 1), np.float32), np.arange(n), np.ones(n), deltas=deltas)
    own = np.zeros(2 * width + 1, np.float32)

    found = make_aggregator({"name": name, "over": "touched"}).aggregate(own, received)

    for part, values in ((found[:3], rows[:, 0]), (found[3:6], rows[:, 1]), (found[6:], shared)):
        by_model = make_aggregator(name).aggregate(np.zeros(values.shape[1], np.float32), inbox(values))
        assert part == pytest.approx(by_model, abs=1e-4)


def test_breakdown_points_are_those_of_the_papers():
    points = {
        "mean": 0, "samples": 0, "median": 12, "trimmed-mean": 3, "krum": 1, "norm-bound": 12, "bulyan": 1,
        "geometric-median": 12, "centered-clipping": 12, "fltrust": 25, "ucsu": 12,
    }  # fmt: skip
    assert {name: make_aggregator(name).breakdown(25) for name in points} == points
