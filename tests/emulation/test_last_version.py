"""What is kept of a trained model, on request: the coordinator's last version."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, often
from tests.emulation.tiny_runs import carried_out, tiny

KEPT = {"every": 2, "metrics": ["recall@5"], "keep_version": True}
POISON = [{"name": "a-ra", "number": 2}]


def federated(**more):
    own = {
        "model": {"name": "ncf", "dim": 4, "hidden": [6, 3], "init_std": 0.1},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": "full"},
        "protocol": {"name": "fedavg", "rounds": 4, "slice": 5, "client_model": "none", "merge": "sum"},
        "executor": {"name": "batched"},
        "observers": [],
        "evaluate": KEPT,
    }
    return tiny(**{**own, **more})


@pytest.mark.parametrize("client_model", ["none", "own"])
@pytest.mark.parametrize("attackers", [[], POISON])
@pytest.mark.cases(1)
def test_it_is_the_coordinators_row_by_table(tmp_path, client_model, attackers):
    protocol = {"name": "fedavg", "rounds": 4, "client_model": client_model, "merge": "mean"}
    scenario = federated(protocol=protocol, attackers=attackers)
    kept = simulate(scenario, out=tmp_path / "r").version
    prepared = carried_out(scenario)

    store, current = prepared.executor.store, prepared.planner.current_rows
    row = store.load(current[-1:])[0]  # the coordinator is the last node
    parts = [kept[name].ravel() for name in kept if name != "popularity"]
    np.testing.assert_array_equal(np.concatenate(parts), row[store.layout.merged])
    assert kept["items"].shape == (40, 4)
    train = prepared.components.split.train
    counts = [sum(item in train[user] for user in range(12)) for item in range(40)]
    assert kept["popularity"].tolist() == counts


@pytest.mark.slow
def test_nothing_is_kept_unasked_and_asking_changes_nothing_else(tmp_path):
    plain = simulate(federated(evaluate={**KEPT, "keep_version": False}), out=tmp_path / "plain")
    asked = simulate(federated(), out=tmp_path / "asked")

    assert plain.version == {}
    assert asked.metrics["value"].tolist() == plain.metrics["value"].tolist()
    assert asked.manifest["log_digest"] == plain.manifest["log_digest"]


@pytest.mark.slow
@pytest.mark.full
def test_a_resumed_run_keeps_the_same_one(tmp_path):
    protocol = {"name": "fedavg", "rounds": 6, "slice": 5, "client_model": "none", "merge": "sum"}
    scenario = often(**federated(protocol=protocol, evaluate={**KEPT, "every": 1}))
    whole = simulate(scenario, out=tmp_path / "whole").version
    cut = ended_early(tmp_path / "cut", scenario).version["items"]
    found = resume(tmp_path / "cut").version

    assert {name: a.tolist() for name, a in found.items()} == {name: a.tolist() for name, a in whole.items()}
    assert (cut != whole["items"]).any()


def test_gossip_has_no_version_to_keep():
    with pytest.raises(
        ScenarioError, match=r"evaluate.keep_version: found true, but in rand-gossip there is no"
    ):
        prepare(load_scenario(tiny(evaluate=KEPT)))


def test_a_damaged_file_is_named(tmp_path):
    run = simulate(federated(), out=tmp_path / "r")
    (run.path / "version.npz").write_bytes(b"PK")
    with pytest.raises(LogError, match=r"cannot read .*version.npz"):
        run.version  # noqa: B018 (read on first use)
