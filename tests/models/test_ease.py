"""EASE against ridge regressions, one per item, in plain numpy; and its run under a coordinator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.models import MODELS
from gossiprec.testing.tiny_runs import run_to_end, tiny_scenario
from tests.compute.worlds import World


def made(split, l2=3.0):
    return MODELS["ease"](MODELS["ease"].Options(l2=l2)).bind_to_data(split)


def interactions(split):
    x = np.zeros((split.n_users, split.n_items))
    for user in range(split.n_users):
        x[user, split.train[user]] = 1
    return x


def by_regressions(x, l2):
    """Return B: item j is regressed on all other items, by the normal equations."""
    n_items = x.shape[1]
    weights = np.zeros((n_items, n_items))
    for j in range(n_items):
        others = np.arange(n_items) != j
        rest = x[:, others]
        weights[others, j] = np.linalg.solve(rest.T @ rest + l2 * np.eye(n_items - 1), rest.T @ x[:, j])
    return weights


def test_the_closed_form_is_a_ridge_regression_of_each_item_on_the_others():
    split = World(n_nodes=9, seed=2).split()
    model = made(split)
    rows = model.solve(model.make_feed(split.training_data()))["items"]

    np.testing.assert_allclose(rows.numpy().T, by_regressions(interactions(split), 3.0), atol=1e-10)


def test_the_loss_is_lowest_at_the_closed_form():
    split = World(n_nodes=9, seed=2).split()
    model = made(split)
    feed = model.make_feed(split.training_data())
    columns = feed.samples_of_all(update=0, negatives=1, seed=1)
    batch = {name: torch.from_numpy(column.astype(np.int64)) for name, column in columns.items()}
    batch["weights"] = torch.ones(split.n_users, dtype=torch.float64)
    rows = model.solve(feed)["items"].requires_grad_()

    loss = model.loss({"items": rows}, batch)
    (slopes,) = torch.autograd.grad(loss, rows)

    x, b = interactions(split), rows.detach().numpy().T
    assert float(loss.detach()) == pytest.approx(
        (((x - x @ b) ** 2).sum() + 3.0 * (b**2).sum()) / split.n_users
    )
    assert float(slopes.abs().max()) < 1e-9


def test_a_score_adds_the_weights_of_the_known_items():
    split = World(n_nodes=9, seed=2).split()
    model, rng = made(split), np.random.default_rng(3)
    rows = rng.normal(size=(split.n_items, split.n_items))
    query = {"items": torch.tensor([5, 0]), "user": torch.tensor([0])}

    found = model.score({"items": torch.from_numpy(rows)}, {**query, "history": torch.tensor([2, 7, -1])})

    np.testing.assert_allclose(found.numpy(), rows[[5, 0], 2] + rows[[5, 0], 7])
    assert model.score({"items": torch.from_numpy(rows)}, query).tolist() == [0, 0]


@pytest.mark.slow
def test_a_coordinator_computes_it_once_to_the_same_bytes_for_any_number_of_threads():
    run = tiny_scenario(
        model={"name": "ease", "l2": 2.0},
        protocol={"name": "central", "epochs": 3},
        training={"batch_size": "full"},
    )
    one, two = (run_to_end(run, threads=n)[0] for n in (1, 2))
    arena = one.executor.work.arena
    assert arena.rows.tobytes() == two.executor.work.arena.rows.tobytes()
    assert arena.steps[0] == 3
    items = arena.rows[0, : arena.layout.size].reshape(one.components.split.n_items, -1)
    np.testing.assert_allclose(items.T, by_regressions(interactions(one.components.split), 2.0), atol=1e-6)
