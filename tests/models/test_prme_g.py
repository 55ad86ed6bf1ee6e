"""PRME-G: the distance, the loss and its gradient against numbers worked by hand, and distances on the globe."""

from __future__ import annotations

import haversine
import numpy as np
import pytest
import torch

from gossiprec.base.geodesy import EARTH_RADIUS_KM, distances_km, unit_vectors
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.tensors import constants_to_tensors
from tests.compute.worlds import make_model, split_of

COORDINATES = np.array([[40.7, -74.0], [40.7, -74.0], [40.8, -73.9], [-33.9, 151.2]])
USER = torch.zeros(1, dtype=torch.int64)


def small_model(coordinates=COORDINATES, **options):
    """Return a model with d = 1 unless told otherwise, whose items are at some places."""
    n = len(coordinates)
    nothing = Ragged(np.zeros(2, np.int64), np.zeros(0, np.int32))
    split = split_of(nothing, n, coordinates, [np.zeros(1, np.int32)], [np.full(1, -1)])
    return make_model("prme-g", **{"dim": 1, **options}).bind_to_data(split)


def numbers(model, users, items):
    """Return the blocks of a float64 version that holds these numbers, and the model's constants."""
    dim, known = model.options.dim, constants_to_tensors(model.constants)
    blocks = {
        "users": torch.tensor([users], dtype=torch.float64, requires_grad=True),
        "items": torch.tensor(items, dtype=torch.float64).reshape(-1, 2, dim).requires_grad_(),
    }
    return blocks | {name: part.double() for name, part in known.items()}


def asked(items, previous=None):
    """Return a query, after visits if these are given."""
    query = {"user": USER, "items": torch.tensor(items)}
    return query if previous is None else {**query, "previous": torch.tensor(previous)}


def moved(*moves, weights=None):
    """Return a batch of moves (positive, negative, previous)."""
    columns = dict(zip(("items", "negatives", "previous"), torch.tensor(moves).T, strict=True))
    ones = torch.ones(len(moves), dtype=torch.float64)
    return {"user": USER, **columns, "weights": ones if weights is None else torch.tensor(weights).double()}


def test_distances_on_the_globe_are_those_of_the_haversine_library():
    rng = np.random.default_rng(0)
    one, other = rng.uniform([-90, -180], [90, 180], (2, 500, 2))
    other[:250] = one[:250] + rng.normal(0, 0.01, (250, 2))
    other = np.clip(other, [-90, -180], [90, 180])

    found = distances_km(unit_vectors(one), unit_vectors(other))

    expected = haversine.haversine_vector(one.tolist(), other.tolist())
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-3)
    assert pytest.approx(haversine.haversine((0, 0), (0, 180)) / np.pi) == EARTH_RADIUS_KM


def test_opposite_places_are_half_a_circumference_apart():
    points = unit_vectors(np.array([[12.0, 30.0], [-12.0, -150.0]]))

    assert distances_km(points[0], points[1]) == pytest.approx(np.pi * EARTH_RADIUS_KM, rel=1e-4)


ITEMS = [[0.0, 0.5], [3.0, 1.0], [2.0, -1.5], [0.0, 0.0]]


def test_score_after_a_known_visit_weighs_both_spaces_and_the_way():
    model = small_model(alpha=0.25)
    km = haversine.haversine(COORDINATES[0], COORDINATES[2])

    score = model.score(numbers(model, [1.0], ITEMS), asked([2], [0])).item()

    assert score == pytest.approx(-((1 + km) ** 0.25) * (0.25 * 1.0 + 0.75 * 4.0), rel=1e-5)


def test_score_after_an_unknown_visit_is_the_preference_alone():
    model = small_model()
    p = numbers(model, [1.0], ITEMS)

    assert model.score(p, asked([0, 1, 2, 3])).tolist() == [-1.0, -4.0, -1.0, -1.0]
    assert model.score(p, asked([0, 1, 2, 3], [-1] * 4)).tolist() == [-1.0, -4.0, -1.0, -1.0]


def test_visits_need_places():
    model = make_model("prme-g", dim=1)

    with pytest.raises(KeyError, match="places"):
        model.score(numbers(model, [1.0], ITEMS), asked([1], [0]))


def test_loss_and_step_of_one_move_are_those_worked_by_hand():
    """User 1; from item 0 (S = 1) to item 1 (P = 0, S = 2) at the same place; negative: item 2 at the same place too.

    Weights of the way are 1 and alpha is 1/2, so D(1) = (1 + 1) / 2 = 1 and D(2) = (4 + 9) / 2 = 6.5, x = 5.5. With
    s = sigmoid(-5.5) and l2 = 0.2: d/dP_1 = s (P_1 - u) + 0.2 P_1 = -s,
    d/dS_0 = -s (2 - 1) + s (4 - 1) + 0.2 S_0 = 2 s + 0.2.
    """
    model = small_model(COORDINATES[[0, 0, 0]], alpha=0.5, l2=0.2)
    p = numbers(model, [1.0], [[7.0, 1.0], [0.0, 2.0], [3.0, 4.0]])

    loss = model.loss(p, moved([1, 2, 0]))
    loss.backward()

    squares = 1.0 + 0.0 + 9.0 + 1.0 + 4.0 + 16.0
    assert loss.item() == pytest.approx(np.log1p(np.exp(-5.5)) + 0.1 * squares)
    s = 1 / (1 + np.exp(5.5))
    expected = [[0.0, 2 * s + 0.2], [-s, s + 0.4], [-2 * s + 0.6, -3 * s + 0.8]]
    np.testing.assert_allclose(p["items"].grad[..., 0], expected)
    np.testing.assert_allclose(p["users"].grad, [[s * (1 - 0) - s * (1 - 3) + 0.2]])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradient_of_moves_is_that_of_finite_differences(reduction):
    model = small_model(dim=3, loss_reduction=reduction)
    draw = np.random.default_rng(1)
    p = numbers(model, draw.normal(size=3).tolist(), draw.normal(size=(4, 6)).tolist())
    moves = moved([0, 2, 1], [1, 3, 1], [2, 0, -1], [3, 3, 0], [0, 0, -1], weights=[1, 1, 1, 1, 0])

    def loss(users, items):
        return model.loss({**p, "users": users, "items": items}, moves)

    assert torch.autograd.gradcheck(loss, (p["users"], p["items"]), eps=1e-6, atol=1e-6)


def test_a_sum_is_the_mean_times_the_samples_and_padding_counts_in_neither():
    moves = moved([0, 2, 1], [1, 3, 1], [2, 0, -1], [0, 0, -1], weights=[1, 1, 1, 0])
    losses = []
    for reduction in ("sum", "mean"):
        model = small_model(loss_reduction=reduction)
        losses.append(model.loss(numbers(model, [1.0], [*ITEMS[:3], [0.1, 0.2]]), moves).item())

    assert losses[0] == pytest.approx(3 * losses[1])
    assert losses[0] > 0
