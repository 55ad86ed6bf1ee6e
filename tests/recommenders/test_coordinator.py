"""What the coordinators of recommenders do between slices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.federated import CoordinatorContext
from gossiprec.federated.cl4fedrec import NEGATIVES, PopularityRegulariser, SyntheticUsers
from gossiprec.models import MODELS

N_ITEMS = 40
MODEL = MODELS["ncf"](MODELS["ncf"].Options(dim=5, hidden=(6,)))
LAYOUT = MODEL.layout(N_ITEMS)


def known(popularity=None, **more):
    counts = np.arange(N_ITEMS, 0, -1) if popularity is None else popularity
    return CoordinatorContext(
        MODEL,
        LAYOUT,
        np.asarray(counts, np.int64),
        3,
        **{"seed": 4, "n_clients": 8, "contribution": None, **more},
    )


def synthetic(of=None, **options):
    given = {"number": 4, "items": 6, "by": "popularity", "steps": 3, "rate": 0.01, **options}
    return SyntheticUsers(of or known(), **given)


def version():
    return (
        np.random.default_rng(1).normal(0, 0.5, LAYOUT.merged.stop - LAYOUT.merged.start).astype(np.float32)
    )


def test_synthetic_users_are_fitted_to_their_items_by_adam():
    users, sent = synthetic(), version()
    before = users.users.copy()
    users.refresh(sent, epoch=2)

    row = np.concatenate([np.zeros(5, np.float32), sent])
    tables, at = {}, 0
    for name, shape in LAYOUT.tables.items():
        tables[name] = torch.from_numpy(row[at : at + int(np.prod(shape))]).view(*shape).double()
        at += int(np.prod(shape))
    for user in range(4):
        asked = users._samples(user, 2)
        assert asked.reshape(6, -1)[:, 0].tolist() == users.items[user].tolist()
        assert asked.shape == (6 * (1 + NEGATIVES),)
        assert not set(users.items[user]) & set(asked.reshape(6, -1)[:, 1:].ravel().tolist())
        own = torch.tensor(before[user : user + 1], dtype=torch.float64, requires_grad=True)
        adam = torch.optim.Adam([own], lr=0.01)
        labels = torch.tensor([1.0, 0, 0, 0, 0] * 6, dtype=torch.float64)
        batch = {
            "items": torch.from_numpy(asked),
            "labels": labels,
            "weights": torch.ones(30),
            "user": torch.tensor([0]),
        }
        for _ in range(3):
            adam.zero_grad()
            MODEL.loss({**tables, "users": own}, batch).backward()
            adam.step()
        np.testing.assert_allclose(users.users[user], own.detach().numpy()[0], rtol=1e-4, atol=1e-6)


def test_their_items_are_drawn_by_popularity_without_repetition():
    counts = np.where(np.arange(N_ITEMS) < 10, 1000, 1)
    popular = synthetic(known(counts), number=200).items
    uniform = synthetic(known(counts), number=200, by="uniform").items
    assert all(len(set(items)) == 6 for items in popular.tolist())
    assert (popular < 10).mean() > 0.95
    assert abs((uniform < 10).mean() - 0.25) < 0.05
    assert synthetic(known(seed=5)).items.tolist() != synthetic(known(seed=6)).items.tolist()


def test_an_item_that_nobody_has_is_not_drawn_and_too_many_are_refused():
    counts = np.where(np.arange(N_ITEMS) < 6, 1, 0)
    assert synthetic(known(counts)).items.max() < 6
    with pytest.raises(
        ScenarioError, match="synthetic_items is 7, but there are 6 items to draw from among 40"
    ):
        synthetic(known(counts), items=7)
    with pytest.raises(ScenarioError, match="synthetic_items is 40"):
        synthetic(items=40)


def regulariser(of=None, **options):
    given = {"hot": 5, "sub": 12, "steps": 1, "rate": 0.01, "temperature": 0.2, **options}
    return PopularityRegulariser(of or known(), **given)


def nearness(sent, hot, others):
    rows = sent[: N_ITEMS * 5].reshape(N_ITEMS, 5)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.exp(rows[hot] @ rows[others].T / 0.2).sum(axis=1)


def test_the_regulariser_draws_popular_items_apart_from_others():
    tool, sent = regulariser(steps=60), version()
    assert tool.hot.tolist() == [0, 1, 2, 3, 4]
    found = tool.regularise(sent, 1)
    others = np.arange(5, N_ITEMS)
    assert (nearness(found, tool.hot, others) < 0.8 * nearness(sent, tool.hot, others)).all()
    np.testing.assert_array_equal(found[N_ITEMS * 5 :], sent[N_ITEMS * 5 :])


def test_data_without_differences_in_popularity_and_too_few_items_are_refused():
    with pytest.raises(ScenarioError, match="all 40 items have 3 interactions; use cl4fedrec"):
        regulariser(known(np.full(N_ITEMS, 3)))
    with pytest.raises(ScenarioError, match="hot_items 30 and sub_items 12 are more than the 40 items"):
        regulariser(hot=30)
