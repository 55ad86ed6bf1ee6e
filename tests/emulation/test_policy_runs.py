"""Runs with policies: what the log, the summary and the command line say, and when training stops."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import simulate
from gossiprec.base.errors import ScenarioError
from gossiprec.defences import compute_epsilon, max_epochs
from gossiprec.emulation import estimate_run, prepare
from gossiprec.emulation.progress import NullProgress
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from tests.cli.calls import SMOKE, invoke
from tests.emulation.tiny_runs import carried_out, final_models, tiny
from tests.slow import slow_except_first

DP = {"name": "dp-sgd", "epsilon": 10}
FEDAVG = {"name": "fedavg", "rounds": 4}
LAYOUT = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40)


def updates_of(run):
    return np.bincount(run.events("update")["node"], minlength=12)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [tiny()["protocol"], FEDAVG], ids=lambda p: p["name"])
def test_every_node_spends_its_budget_to_the_end(protocol, tmp_path):
    observers = [] if protocol == FEDAVG else tiny()["observers"]
    run = simulate(tiny(policies=[DP], protocol=protocol, observers=observers), out=tmp_path / "run")

    spent, privacy = run.events("privacy"), run.summary["privacy"]
    final = dict(zip(spent["node"].tolist(), spent["epsilon"].tolist(), strict=True))  # the last row of each
    assert sorted(final) == list(range(12))
    assert list(final.values()) == pytest.approx([10] * 12, rel=1e-5)
    assert privacy["nodes"] == 12
    assert privacy["delta"] == 1e-6
    assert privacy["epsilon_max"] <= 10 == pytest.approx(privacy["epsilon_mean"], rel=1e-5)
    assert 0 < privacy["noise_multiplier_min"] <= privacy["noise_multiplier_max"]


@pytest.mark.slow
def test_the_log_tells_the_spending_at_each_report_of_the_nodes_that_trained_since(tmp_path):
    run = simulate(tiny(policies=[{**DP, "nodes": [2, 5]}]), out=tmp_path / "run")
    spent, updates = run.events("privacy"), run.events("update")
    noise = dict(
        zip([2, 5], noise_of(tiny(policies=[{**DP, "nodes": [2, 5]}]))[[2, 5]].tolist(), strict=True)
    )

    told = {2: 0, 5: 0}
    rows = set()
    for report in run.events("round")["time"].tolist():
        for node in (2, 5):
            count = int(((updates["node"] == node) & (updates["time"] <= report)).sum())
            if count > told[node]:
                told[node] = count
                rows.add((report, node, round(compute_epsilon(noise[node], count, 1e-6), 9)))
    found = zip(
        spent["time"].tolist(), spent["node"].tolist(), spent["epsilon"].round(9).tolist(), strict=True
    )
    assert set(found) == rows
    assert len(rows) == len(spent["node"]) > 4


def noise_of(scenario):
    return carried_out(scenario, upto=0).executor.work.node_settings.noise_multiplier.astype(float)


@pytest.mark.slow
def test_training_stops_when_the_budget_is_spent(tmp_path):
    """Noise enough for four of the about six local updates of a node."""
    policy = {**DP, "noise_multiplier": 1.15, "nodes": [0, 1, 2, 3, 4, 5]}
    most = max_epochs(1.15, 10.0, 1e-6)
    run = simulate(tiny(policies=[policy]), out=tmp_path / "run")
    free = simulate(tiny(), out=tmp_path / "free")

    assert most == 4
    assert updates_of(run)[:6].tolist() == np.minimum(updates_of(free)[:6], most).tolist()
    assert updates_of(run)[6:].tolist() == updates_of(free)[6:].tolist()
    assert updates_of(free)[:6].max() > most
    assert run.summary["node_updates"] == updates_of(run).sum() < free.summary["node_updates"]
    assert run.summary["privacy"]["epsilon_max"] <= 10


@pytest.mark.slow
def test_a_stopped_node_keeps_merging_and_sending(tmp_path):
    policy = {**DP, "noise_multiplier": 1.15}
    run, free = (simulate(tiny(policies=p), out=tmp_path / str(len(p))) for p in ([policy], []))

    for column, values in free.events("message").items():
        np.testing.assert_array_equal(run.events("message")[column], values)


@pytest.mark.slow
def test_messages_of_share_less_nodes_are_smaller_by_the_user_row(tmp_path):
    run = simulate(tiny(policies=[{"name": "share-less", "nodes": [1, 7]}]), out=tmp_path / "run")

    messages = run.events("message")
    hides = np.isin(messages["sender"], [1, 7])
    assert set(messages["size_bytes"][hides]) == {LAYOUT.message_bytes - 4 * 8}
    assert set(messages["size_bytes"][~hides]) == {LAYOUT.message_bytes}
    assert run.summary["privacy"] is None


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["batched", "fused"])
@pytest.mark.full
def test_executors_agree_on_a_mixed_population(executor):
    policies = [
        {"name": "share-less", "nodes": {"fraction": 0.5}},
        {"name": "dp-sgd", "nodes": [0, 3, 8, 9], "epsilon": 100},
    ]
    training = {"eps": 1e-3, "batch_size": 16}
    runs = [
        final_models(carried_out(tiny(policies=policies, training=training, executor={"name": name})))
        for name in ("reference", executor)
    ]

    assert np.linalg.norm(runs[1] - runs[0]) < 1e-5 * np.linalg.norm(runs[0])


def test_nodes_without_a_policy_train_as_they_would_without_policies_until_they_merge():
    """Under FedAvg the first local update of a client depends on the common start alone."""
    scenario = tiny(protocol={**FEDAVG, "rounds": 1}, observers=[])
    plain, mixed = (carried_out({**scenario, "policies": p}) for p in ([], [{**DP, "nodes": [4, 5]}]))

    same = (final_models(plain) == final_models(mixed)).all(axis=1)
    assert np.flatnonzero(~same).tolist() == [4, 5, 12]  # and the coordinator, which averages


@pytest.mark.parametrize("name", slow_except_first(["share-less", "dp-sgd"]))
def test_an_empty_policy_changes_no_event(name, tmp_path):
    options = {"tau": 0} if name == "share-less" else {"epsilon": "inf"}
    run, free = (
        simulate(tiny(policies=p), out=tmp_path / str(len(p))) for p in ([{"name": name, **options}], [])
    )

    for kind in ("wake", "view", "update"):
        for column, values in free.events(kind).items():
            np.testing.assert_array_equal(run.events(kind)[column], values)
    if name == "share-less":
        np.testing.assert_array_equal(run.metrics["value"], free.metrics["value"])


@pytest.mark.slow
def test_infinite_epsilon_is_told_as_such(tmp_path):
    run = simulate(tiny(policies=[{**DP, "epsilon": "inf"}]), out=tmp_path / "run")

    assert set(run.events("privacy")["epsilon"].tolist()) == {np.inf}
    assert run.summary["privacy"]["epsilon_max"] is None


def test_share_less_and_an_averaged_user_table_are_refused(tmp_path):
    scenario = tiny(
        protocol={**FEDAVG, "user_table": "averaged"}, policies=[{"name": "share-less"}], observers=[]
    )
    with pytest.raises(ScenarioError, match=r"set protocol\.user_table to 'own'"):
        simulate(scenario, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_closing_words_say_what_was_spent(capsys, tmp_path):
    dp = "policies.0={name: dp-sgd, nodes: {fraction: 0.5}, epsilon: 50}"
    code, out, err = invoke(
        capsys, "simulate", SMOKE, "--out", tmp_path / "run", "--set", dp, "--set", "protocol.wakes=2",
        "--no-plots",
    )  # fmt: skip

    assert code == 0, err
    assert "privacy       epsilon up to 50 (delta 1e-06) on 12 nodes, noise multiplier 0." in out


@pytest.mark.parametrize(
    ("policy", "noted"),
    [
        ({"name": "dp-sgd", "epsilon": 8, "delta": 0.5}, True),
        ({"name": "dp-sgd", "epsilon": 8}, False),
        ({"name": "ldp", "noise": "gaussian", "norm": "l2", "scale": 1, "delta": 0.5}, True),
        ({"name": "ldp", "noise": "laplace", "scale": 1, "delta": 0.5}, False),  # which has no delta
    ],
)
def test_a_delta_that_protects_no_single_interaction_is_noted(policy, noted):
    class Heard(NullProgress):
        def note(self, text):
            notes.append(text)

    notes = []
    estimate_run(load_scenario(tiny(policies=[policy])), Heard())
    prepare(load_scenario(tiny(policies=[policy])), Heard())
    assert len(notes) == 2 * noted
    for note in notes:
        assert note.startswith("policies.0.delta: found 0.5; expected less than 1 / the number of a user's")
