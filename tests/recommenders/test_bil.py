"""The batch-insensitive loss, beside the same by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.federated import RECOMMENDERS
from gossiprec.federated.bil import item_mask, pairwise_dot_norm
from tests.recommenders.test_fedcl import DIM, DRAWN, GRU, N_ITEMS, TOWERS, client, version

BIL = RECOMMENDERS["bil"]


def bil(model=GRU, **options):
    return BIL(BIL.Options(**options), model, negatives=1, learning_rate=0.1)


def unit(rows):
    return rows / np.sqrt(np.square(rows).sum(-1, keepdims=True))


def case(model, lists, negatives, rows=9):
    """Return parameters and a batch of some lists of items, each with the one before it, and their negatives."""
    draw = np.random.default_rng(3)
    p = {
        name: torch.from_numpy(draw.normal(0, 0.5, shape).astype(np.float32))
        for name, shape in model.layout(rows).tables.items()
    }
    wanted = np.full((len(lists), 8), -1)
    before = wanted.copy()
    for row, items in enumerate(lists):
        wanted[row, : len(items) - 1], before[row, : len(items) - 1] = items[1:], items[:-1]
    batch = {
        "items": torch.from_numpy(wanted),
        "previous": torch.from_numpy(before),
        "negatives": torch.tensor(negatives),
        "user": torch.zeros(1, dtype=torch.int64),
        "weights": torch.ones(len(lists)),
    }
    return p, batch


@pytest.mark.parametrize("model", [GRU, TOWERS])
def test_the_loss_is_that_of_the_formula(model):
    p, batch = case(model, [[0, 4, 2, 7]], [[5, -1, 8]])
    rows = unit(p["items"].numpy())
    states = model.states({**p, "items": torch.from_numpy(rows)}, batch)[0].numpy()
    near = [unit(states[place]) @ rows[item] for place, item in enumerate([4, 2, 7])]
    hinge = np.mean([max(0.0, 0.9 - cosine) ** 2 for cosine in near])
    there = rows[[0, 2, 4, 5, 7, 8]]
    products = there @ there.T
    spread_out = np.sqrt(np.square(products).sum() - np.square(np.diag(products)).sum())
    for weight in (0.0, 0.1, 2.0):
        found = bil(model, spread_weight=weight).loss(p, batch, {}).item()
        assert found == pytest.approx(hinge + weight * spread_out, rel=1e-4)


def test_a_positive_that_is_near_enough_has_no_loss():
    p, batch = case(TOWERS, [[1, 3]], [[-1]])
    p["users"] = 7 * p["items"][3:4].clone().requires_grad_()
    loss = bil(TOWERS, spread_weight=0.0).loss(p, batch, {})
    assert loss.item() == 0.0


def test_items_count_once_and_padding_does_not():
    _, batch = case(GRU, [[0, 4, 2, 4], [6, 1]], [[2, 5], [3, 8]])
    batch["weights"] = torch.tensor([1.0, 0.0])
    assert item_mask(batch, 9).tolist() == [1, 0, 1, 0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("items", [[0, 1], [1, 2]])
def test_slopes_are_numbers_where_items_are_alone_alike_or_zero(items):
    rows = torch.tensor([[0.0, 0.0], [0.3, 0.1], [0.3, 0.1]], requires_grad=True)
    there = torch.zeros(3)
    there[items] = 1.0
    (slope,) = torch.autograd.grad(pairwise_dot_norm(rows, there), rows)
    assert torch.isfinite(slope).all()
    p, batch = case(GRU, [[0, 1]], [[-1]])
    p["items"] = torch.zeros_like(p["items"]).requires_grad_()
    assert torch.isfinite(torch.autograd.grad(bil().loss(p, batch, {}), p["items"])[0]).all()


def test_rows_that_are_at_right_angles_are_spread_out():
    assert pairwise_dot_norm(torch.eye(4), torch.ones(4)).item() < 1e-5
    assert pairwise_dot_norm(torch.ones(3, 1), torch.ones(3)).item() == pytest.approx(np.sqrt(6))


def test_random_items_are_none_of_the_client_s_own():
    made, one = bil(random_items=20), client()
    (row,) = made.transform_samples(DRAWN, one, np.random.default_rng(1))["negatives"]
    assert len(set(row.tolist())) == 20
    assert not set(row.tolist()) & {2, 7, 40, -1}
    (other,) = made.transform_samples(DRAWN, one, np.random.default_rng(2))["negatives"]
    assert set(other.tolist()) != set(row.tolist())
    (most,) = bil().transform_samples(DRAWN, one, np.random.default_rng(1))["negatives"]
    assert sorted(most.tolist()) == [-1] * (256 - 57) + sorted(set(range(N_ITEMS)) - {2, 7, 40})
    assert bil(spread_weight=0.0).transform_samples(DRAWN, one, np.random.default_rng(1))[
        "negatives"
    ].shape == (1, 0)


@pytest.mark.parametrize("model", [GRU, TOWERS])
def test_all_recommend_by_rows_of_norm_one(model):
    layout = model.layout(N_ITEMS)
    given = version(layout=layout)
    given[:DIM] = 0.0
    before = given.copy()
    found = bil(model).personal_models(np.arange(3), given, {})
    assert np.array_equal(given, before)
    assert found.of.tolist() == [0, 0, 0]
    assert found.local == 0.0
    (one,) = found.versions
    rows = one[: N_ITEMS * DIM].reshape(N_ITEMS, DIM)
    np.testing.assert_allclose(np.square(rows[1:]).sum(axis=1), 1.0, rtol=1e-5)
    assert not rows[0].any()
    assert np.array_equal(one[N_ITEMS * DIM :], given[N_ITEMS * DIM :])
