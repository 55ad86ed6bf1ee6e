"""PRME-G: the distance, the loss and its gradient against numbers worked by hand, and distances on the globe."""

from __future__ import annotations

import haversine
import numpy as np
import pytest
import torch
from torch.func import functional_call

from gossiprec.geodesy import EARTH_RADIUS_KM, distances_km, unit_vectors
from tests.compute.worlds import make_model

COORDINATES = np.array([[40.7, -74.0], [40.7, -74.0], [40.8, -73.9], [-33.9, 151.2]])
USER = torch.zeros(1, dtype=torch.int64)


def module_of(model, users, items):
    """Return a float64 module that holds these numbers."""
    module = model.module(model.layout(len(items))).double()
    module.users.data = torch.tensor(users, dtype=torch.float64)[None]
    module.items.data = torch.tensor(items, dtype=torch.float64)
    return module


def small_model(**options):
    return make_model("prme-g", dim=1, **options).with_places(unit_vectors(COORDINATES))


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


def test_score_after_a_known_visit_weighs_both_spaces_and_the_way():
    module = module_of(small_model(alpha=0.25), [1.0], [[0.0, 0.5], [3.0, 1.0], [2.0, -1.5], [0.0, 0.0]])
    km = haversine.haversine(COORDINATES[0], COORDINATES[2])

    score = module(USER, torch.tensor([2]), torch.tensor([0])).item()

    assert score == pytest.approx(-((1 + km) ** 0.25) * (0.25 * 1.0 + 0.75 * 4.0), rel=1e-5)


def test_score_after_an_unknown_visit_is_the_preference_alone():
    module = module_of(small_model(), [1.0], [[0.0, 0.5], [3.0, 1.0], [2.0, -1.5], [0.0, 0.0]])
    items = torch.arange(4)

    assert module(USER, items).tolist() == [-1.0, -4.0, -1.0, -1.0]
    assert module(USER, items, torch.full((4,), -1)).tolist() == [-1.0, -4.0, -1.0, -1.0]


def test_visits_need_places():
    model = make_model("prme-g", dim=1)

    with pytest.raises(ValueError, match="places"):
        model.module(model.layout(4))(USER, torch.tensor([1]), torch.tensor([0]))


def test_places_must_be_as_many_as_items():
    with pytest.raises(ValueError, match="4 places for 3 items"):
        small_model().module(small_model().layout(3))


def test_loss_and_step_of_one_move_are_those_worked_by_hand():
    """User 1; from item 0 (S = 1) to item 1 (P = 0, S = 2) at the same place; negative: item 2 at the same place too.

    Weights of the way are 1 and alpha is 1/2, so D(1) = (1 + 1) / 2 = 1 and D(2) = (4 + 9) / 2 = 6.5, x = 5.5. With
    s = sigmoid(-5.5) and l2 = 0.2: d/dP_1 = s (P_1 - u) + 0.2 P_1 = -s,
    d/dS_0 = -s (2 - 1) + s (4 - 1) + 0.2 S_0 = 2 s + 0.2.
    """
    model = make_model("prme-g", dim=1, alpha=0.5, l2=0.2).with_places(unit_vectors(COORDINATES[[0, 0, 0]]))
    module = module_of(model, [1.0], [[7.0, 1.0], [0.0, 2.0], [3.0, 4.0]])
    move = torch.tensor([[1, 2, 0]])
    ones = torch.ones(1, dtype=torch.float64)

    loss = model.batch_loss(module, USER, move, ones, ones)
    loss.backward()

    squares = 1.0 + 0.0 + 9.0 + 1.0 + 4.0 + 16.0
    assert loss.item() == pytest.approx(np.log1p(np.exp(-5.5)) + 0.1 * squares)
    s = 1 / (1 + np.exp(5.5))
    expected = [[0.0, 2 * s + 0.2], [-s, s + 0.4], [-2 * s + 0.6, -3 * s + 0.8]]
    np.testing.assert_allclose(module.items.grad, expected)
    np.testing.assert_allclose(module.users.grad, [[s * (1 - 0) - s * (1 - 3) + 0.2]])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradient_of_moves_is_that_of_finite_differences(reduction):
    model = make_model("prme-g", dim=3, loss_reduction=reduction).with_places(unit_vectors(COORDINATES))
    module = model.module(model.layout(4)).double()
    rng = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    moves = torch.tensor([[0, 2, 1], [1, 3, 1], [2, 0, -1], [3, 3, 0], [0, 0, -1]])
    weights = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    names = [name for name, _ in module.named_parameters()]

    def loss(*values):
        named = dict(zip(names, values, strict=True))
        return model.batch_loss(
            lambda *asked: functional_call(module, named, asked),
            USER,
            moves,
            torch.ones_like(weights),
            weights,
        )

    assert torch.autograd.gradcheck(loss, tuple(module.parameters()), eps=1e-6, atol=1e-6)


def test_a_sum_is_the_mean_times_the_samples_and_padding_counts_in_neither():
    moves = torch.tensor([[0, 2, 1], [1, 3, 1], [2, 0, -1], [0, 0, -1]])
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    losses = []
    for reduction in ("sum", "mean"):
        model = small_model(loss_reduction=reduction)
        module = module_of(model, [1.0], [[0.0, 0.5], [3.0, 1.0], [2.0, -1.5], [0.1, 0.2]])
        losses.append(model.batch_loss(module, USER, moves, torch.ones_like(weights), weights).item())

    assert losses[0] == pytest.approx(3 * losses[1])
    assert losses[0] > 0
