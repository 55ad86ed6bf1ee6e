"""The training loss at reports, next to the same by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.utility import train_loss
from tests.emulation.test_clients_without_models import star
from tests.emulation.tiny_runs import carried_out, tiny

FULL = {"batch_size": "full", "learning_rate": 0.05, "negatives": 2}
MF = {"model": {"name": "mf", "dim": 4, "init_std": 0.3, "loss": "bpr"}, "training": FULL, "observers": []}
GMF = {"model": {"name": "gmf", "dim": 4, "init_std": 0.3}, "training": FULL, "observers": []}


def loss_of(prepared):
    return train_loss(prepared.executor, prepared.planner.current_rows, prepared.components.split.n_users)


def softplus(x):
    return np.log1p(np.exp(x))


@pytest.mark.parametrize("name", ["reference", "batched", "fused"])
@pytest.mark.parametrize("loop", ["gossip", "clients"])
def test_it_is_the_mean_over_users_of_the_formula_on_their_own_samples(name, loop):
    """BPR of clients that are sent one version, and cross-entropy of whole models in gossip, by numpy."""
    if loop == "clients":
        prepared = carried_out(star(executor={"name": name}, **MF))
    else:
        prepared = carried_out(tiny(executor={"name": name}, **GMF))
    store, current = prepared.executor.store, prepared.planner.current_rows
    expected = []
    for user in range(12):
        samples = prepared.components.feed.samples(user, update=0, negatives=2, seed=5)
        row = store.models(current, np.array([user]))[0].astype(np.float64)
        tables = prepared.components.layout.blocks_by_name(
            {
                "users": row[prepared.components.layout.users].reshape(1, -1),
                "items": row[prepared.components.layout.items].reshape(40, -1),
                **dict.fromkeys(("shared",), row[prepared.components.layout.shared]),
            }
        )
        u, v = tables["users"][0], tables["items"]
        if loop == "clients":
            expected.append(softplus(-(v[samples["items"]] - v[samples["negatives"]]) @ u).mean())
        else:
            shared = row[prepared.components.layout.shared]
            weights, bias = shared[:4], shared[4:].sum()
            logits = (v[samples["items"]] * u) @ weights + bias
            expected.append((softplus(logits) - samples["labels"] * logits).mean())
    assert loss_of(prepared) == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.slow
def test_executors_and_recommenders_agree(tmp_path):
    lightgcn = {
        "model": {"name": "lightgcn", "dim": 5},
        "training": {**FULL, "negatives": 1},
        "observers": [],
    }
    recommender = {"recommender": {"name": "perfedrec", "clusters": {"number": 2, "first": 1, "every": 1}}}
    found = [
        loss_of(carried_out(star(executor={"name": name}, **lightgcn, **recommender)))
        for name in ("reference", "batched", "fused")
    ]
    assert found == pytest.approx([found[0]] * 3, rel=1e-4)


@pytest.mark.slow
def test_reports_have_it_if_it_is_asked_for(tmp_path):
    losses = {}
    for asked in (False, True):
        evaluate = {"every": 2, "metrics": ["recall@5"], "train_loss": asked}
        run = simulate(star(rounds=8, evaluate=evaluate, **MF), out=tmp_path / f"{asked}")
        rows = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()[1:]]
        losses[asked] = [float(row[-1]) for row in rows if "train_loss" in row]
        assert ("train_loss" in run.summary["utility"]) == asked
    assert losses[False] == []
    assert len(losses[True]) == 4
    assert losses[True][-1] < losses[True][0]


def test_where_there_are_no_models_of_single_users_it_is_refused(tmp_path):
    central = tiny(protocol={"name": "central", "epochs": 1}, **{**MF, "executor": {"name": "batched"}})
    with pytest.raises(
        ScenarioError, match="train_loss: found true with central training; expected models of single"
    ):
        simulate(
            {**central, "evaluate": {"every": 1, "metrics": ["recall@5"], "train_loss": True}},
            out=tmp_path / "r",
        )
