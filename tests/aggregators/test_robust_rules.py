"""Bulyan, centered clipping and the geometric median against their papers' formulas, written out model by model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from gossiprec.base.errors import ScenarioError
from gossiprec.rules import aggregators
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


def sum_of_distances(point, models, weights):
    return float(weights @ np.linalg.norm(models.astype(np.float64) - point, axis=1))


def smallest_sum(models, weights):
    """Return the smallest sum of distances, at a model or by BFGS from the median and from next to the best model."""
    models = models.astype(np.float64)

    def objective(point):
        away = point - models
        distances = np.maximum(np.linalg.norm(away, axis=1), 1e-300)
        return weights @ distances, (weights / distances) @ away

    at_models = [sum_of_distances(model, models, weights) for model in models]
    best = models[np.argmin(at_models)]
    near = best + 1e-3 * np.random.default_rng(0).normal(size=best.shape)
    found = [
        minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10}).fun
        for start in (np.median(models, axis=0), near)
    ]
    return min(*at_models, *found)


def random_models(kind, seed):
    """Return models and weights, in which the median may be slow to find."""
    draw = np.random.default_rng(seed)
    n, columns = int(draw.integers(3, 14)), int(draw.integers(1, 9))
    models, weights = draw.normal(size=(n, columns)), np.ones(n)
    if kind == "outliers":
        models[: (n - 1) // 2] += 10.0 ** draw.integers(1, 7)
    elif kind == "coincide":
        models[n // 2 :] = models[0]
    elif kind == "few coincide":
        models[1:3], weights = models[0], draw.uniform(0.5, 2, n)
    elif kind == "nearly coincide":
        models[1] = models[0] + 1e-4 * draw.normal(size=columns)
    elif kind == "on a line":
        models = draw.normal(size=(n, 1)) * draw.normal(size=columns) + draw.normal(size=columns)
    elif kind == "on a lattice":
        models = draw.integers(-1, 2, size=(n, columns)).astype(np.float64)
    elif kind == "weighted":
        weights = draw.uniform(0.1, 5, n)
    elif kind == "median at a model":
        models = np.concatenate([[np.zeros(columns)], np.abs(models[1:]) * np.resize([1, -1], (n - 1, 1))])
        models[1::2, -1] *= -3
    return models.astype(np.float32), weights


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "kind",
    ["plain", "outliers", "coincide", "few coincide", "nearly coincide", "on a line", "on a lattice", "weighted",
     "median at a model"],
)  # fmt: skip
def test_the_geometric_median_has_the_smallest_sum_of_distances(kind, seed):
    models, weights = random_models(kind, seed)
    found = make_aggregator("geometric-median").aggregate(np.zeros_like(models[0]), inbox(models, weights))
    best = smallest_sum(models, weights)
    assert (
        sum_of_distances(found, models, weights) <= best * (1 + 1e-6) + 1e-7
    )  # and rounding to single precision


@pytest.mark.parametrize("size", [1e6, 1e15, 3e38])
def test_a_minority_of_huge_models_only_pulls_the_geometric_median_in_its_direction(size):
    _, models = drawn(9, seed=3)
    directions = models[:4] / np.linalg.norm(models[:4], axis=1, keepdims=True)
    models[:4] = size / 10 * directions
    found = make_aggregator("geometric-median").aggregate(np.zeros_like(models[0]), inbox(models))

    def objective(point):  # far away, the distance falls by the way in that direction
        away = point - models[4:].astype(np.float64)
        distances = np.linalg.norm(away, axis=1)
        slope = (away / distances[:, None]).sum(axis=0) - directions.sum(axis=0)
        return distances.sum() - (directions @ point).sum(), slope

    best = minimize(objective, models[4:].mean(axis=0) + 0.01, jac=True, method="BFGS")
    assert objective(found.astype(np.float64))[0] == pytest.approx(best.fun, abs=100 / size + 1e-6)


def test_the_geometric_median_of_too_few_iterations_ends_the_run():
    _, models = drawn(9, seed=3)
    rule = make_aggregator({"name": "geometric-median", "iterations": 1})
    with pytest.raises(
        ScenarioError, match="geometric-median: found no point within the tolerance in 1 iterations"
    ):
        rule.aggregate(np.zeros_like(models[0]), inbox(models))


def test_the_geometric_median_of_two_models_is_their_mean():
    own, models = drawn(2)
    assert make_aggregator("geometric-median").aggregate(own, inbox(models)) == pytest.approx(
        models.mean(axis=0)
    )


def test_the_geometric_median_has_the_same_bytes_for_any_number_of_threads():
    own, models = drawn(40, columns=3000, seed=2)
    found = []
    for threads in (1, 4):
        with threadpool_limits(limits=threads):
            found.append(make_aggregator("geometric-median").aggregate(own, inbox(models)).tobytes())
    assert found[0] == found[1]


def test_blocks_of_columns_do_not_move_the_geometric_median(monkeypatch):
    own, models = drawn(7, columns=50, seed=4)
    models[:3] += 10
    whole = make_aggregator("geometric-median").aggregate(own, inbox(models))
    monkeypatch.setattr(aggregators, "BLOCK", 70)
    blocks = make_aggregator("geometric-median").aggregate(own, inbox(models))
    assert blocks == pytest.approx(whole, abs=1e-6)


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
