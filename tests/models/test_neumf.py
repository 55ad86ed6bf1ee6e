"""NeuMF by plain numpy, sample by sample, and its first weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.models import MODELS

N_USERS, N_ITEMS = 3, 7


def made(**options):
    kind = MODELS["neumf"]
    return kind(kind.Options(**options))


def tables(model):
    draw, layout = np.random.default_rng(4), model.layout(N_ITEMS, N_USERS)
    return layout.blocks_by_name({name: draw.normal(size=shape) for name, shape in layout.tables.items()})


def logit_by_hand(p, user, item):
    """Return h . [p_u * q_j; MLP([u; v_j])] + b, the two last layers' inputs one after the other."""
    values = np.concatenate([p["users"][user], p["items"][item]])
    for k in (0, 1):
        values = np.maximum(p[f"weight{k}"] @ values + p[f"offset{k}"], 0)
    last = np.concatenate([p["user_factors"][user] * p["item_factors"][item], values])
    return np.concatenate([p["factor_weights"], p["weight2"][0]]) @ last + p["offset2"][0]


@pytest.mark.parametrize("gmf_dim", [None, 2])
def test_the_loss_is_the_cross_entropy_of_both_branches_under_one_output(gmf_dim):
    model = made(dim=3, hidden=(5, 4), gmf_dim=gmf_dim)
    p = tables(model)
    assert p["user_factors"].shape == (N_USERS, gmf_dim or 3)
    user, items, labels = np.array([0, 2, 1, 2]), np.array([6, 1, 0, 5]), np.array([1.0, 0.0, 0.0, 1.0])
    logits = np.array([logit_by_hand(p, u, j) for u, j in zip(user, items, strict=True)])
    due = np.mean(np.log1p(np.exp(-logits)) * labels + np.log1p(np.exp(logits)) * (1 - labels))
    batch = {"user": user, "items": items, "labels": labels, "weights": np.ones(4)}
    tensors = ({name: torch.from_numpy(value) for name, value in each.items()} for each in (p, batch))
    assert float(model.loss(*tensors)) == pytest.approx(due, rel=1e-9)


def test_first_weights_have_the_bounds_of_their_inputs():
    model = made(dim=40, hidden=(60, 8), gmf_dim=20)
    first = {block.name: block.initial(np.random.default_rng(1), 4000) for block in model.blocks()}
    inputs = {"weight0": 80, "offset0": 80, "weight1": 60, "weight2": 28, "offset2": 28, "factor_weights": 28}
    for name, n in inputs.items():
        assert np.abs(first[name]).max() == pytest.approx(n**-0.5, rel=2e-3), name
    for name in ("users", "items", "user_factors", "item_factors"):
        assert first[name].std() == pytest.approx(0.01, rel=0.05), name
