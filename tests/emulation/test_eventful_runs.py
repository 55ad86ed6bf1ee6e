"""Runs under network conditions and churn: what the log and the summary say."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import simulate
from gossiprec.network.sim import network
from gossiprec.runs.schema import DROP_CAUSES, MISS_CAUSES
from tests.emulation.tiny_runs import carried_out, final_models, tiny

EVENTFUL = {
    "network": {
        "latency": {"law": "lognormal", "median": 0.1, "sigma": 0.5},
        "bandwidth": {"up": 10_000, "down": {"law": "uniform", "low": 5_000, "high": 20_000}},
        "loss": 0.05,
        "duplication": 0.1,
        "reordering": {"share": 0.1, "delay": 0.5},
        "partitions": [{"from": 1, "until": 2.5, "parts": 2}],
        "compute": {"time": {"law": "exponential", "mean": 0.2}, "per": "node"},
    },
    "churn": {
        "sessions": {
            "online": {"law": "exponential", "mean": 3},
            "offline": {"law": "exponential", "mean": 1},
        },
        "leave": {"nodes": [3], "at": 4},
    },
}
PROTOCOLS = {
    "rand-gossip": {"name": "rand-gossip", "wakes": 8},
    "train on receive": {"name": "rand-gossip", "wakes": 8, "train_on": "receive"},
    "pers-gossip": {"name": "pers-gossip", "wakes": 8},
    "fedavg": {"name": "fedavg", "rounds": 8},
}


@pytest.fixture(scope="module", params=PROTOCOLS)
def run(request, tmp_path_factory):
    protocol = PROTOCOLS[request.param]
    scenario = tiny(protocol=protocol, **EVENTFUL, observers=[])
    scenario["dataset"]["split"]["validation"] = 2  # pers-gossip judges models by them
    return simulate(scenario, out=tmp_path_factory.mktemp("eventful") / "run")


def test_codes_of_the_engine_are_those_of_the_log():
    assert DROP_CAUSES == ("loss", "receiver_offline", "sender_offline", "run_ended", "partition")
    numbers = [
        network.LOSS,
        network.RECEIVER_OFFLINE,
        network.SENDER_OFFLINE,
        network.RUN_ENDED,
        network.PARTITION,
    ]
    assert numbers == list(range(5))
    assert (MISS_CAUSES[network.OFFLINE], MISS_CAUSES[network.BUSY]) == ("offline", "busy")


def test_every_message_is_delivered_or_dropped(run):
    facts = run.summary["network"]

    assert facts["delivered"] == len(run.events("message")["time"])
    assert facts["delivered"] + sum(facts["dropped"].values()) == run.summary["messages"]
    codes = np.bincount(run.events("drop")["cause"], minlength=5)
    assert facts["dropped"] == {name: n for name, n in zip(DROP_CAUSES, codes.tolist(), strict=True) if n}
    assert {"loss", "partition"} <= set(facts["dropped"])


def test_every_ring_is_a_wake_or_a_miss(run):
    rings = len(run.events("wake")["time"]) + len(run.events("miss")["time"])

    assert rings == run.summary["wakes"]
    assert sum(run.summary["network"]["missed"].values()) == len(run.events("miss")["time"])


def test_what_is_delivered_took_at_least_its_transfer(run):
    messages = run.events("message")
    alone = messages["size_bytes"] / 20_000

    assert (messages["queued"] >= 0.0).all()
    assert messages["queued"].max() > 0.0
    if run.scenario["protocol"]["name"] != "fedavg":  # a coordinator's bandwidth is not limited here
        assert (messages["time"] - messages["sent_at"] >= alone + messages["queued"] - 1e-9).all()


def test_nobody_does_anything_while_away(run):
    sessions = run.events("session")

    def online(node, time):
        mine = sessions["time"][sessions["node"] == node] <= time
        states = sessions["online"][sessions["node"] == node][mine]
        return bool(states[-1]) if len(states) else True

    for kind, who in (("wake", "node"), ("message", "receiver")):
        events = run.events(kind)
        assert all(online(node, time) for node, time in zip(events[who], events["time"], strict=True)), kind
    missed = run.events("miss")
    away = missed["cause"] == network.OFFLINE
    assert not any(
        online(node, time) for node, time in zip(missed["node"][away], missed["time"][away], strict=True)
    )


def test_a_node_that_left_is_never_seen_again(run):
    assert not (run.events("wake")["time"][run.events("wake")["node"] == 3] > 4).any()


def test_updates_are_logged_in_the_order_of_their_ends(run):
    update, others = run.events("update"), run.summary["node_updates"]

    assert (np.diff(update["time"]) >= 0).all()
    assert len(update["time"]) == others


def test_views_of_wakes_are_filled_up(run):
    if "view" not in run.log.rows or run.scenario["protocol"]["name"] == "fedavg":
        return
    for row in run.events("view")["peers"]:
        known = row[row >= 0]
        assert len(set(known.tolist())) == len(known)
        assert (row[len(known) :] == -1).all()


def test_a_plain_run_says_nothing_of_the_network(tmp_path):
    assert "network" not in simulate(tiny(observers=[]), out=tmp_path / "run").summary


def test_computing_takes_time_but_changes_no_draw(tmp_path):
    """A constant latency larger than the time to compute: the same events, the messages later."""
    compute = {"compute": {"time": {"law": "constant", "value": 1e-6}}}
    one, other = (
        simulate(tiny(observers=[], network=network), out=tmp_path / name).events("message")
        for name, network in (("one", {"loss": 0.1}), ("other", {"loss": 0.1, **compute}))
    )

    assert one["sender"].tolist() == other["sender"].tolist()
    np.testing.assert_allclose(other["time"] - one["time"], 1e-6, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kept", "reset"])
@pytest.mark.parametrize("executor", ["batched", "fused"])
@pytest.mark.cases(3)
def test_executors_agree_under_churn(executor, model):
    churn = {**EVENTFUL["churn"], "model": model}
    reference, other = (
        final_models(carried_out(tiny(**{**EVENTFUL, "churn": churn}, executor={"name": name})))
        for name in ("reference", executor)
    )

    np.testing.assert_allclose(reference, other, atol=2e-5)


@pytest.mark.slow
def test_a_node_that_comes_back_reset_has_its_first_version():
    """Node 0 is away from 4 to 8.5, and cut off from 8 on: it comes back and nobody reaches it again."""
    sessions = {"online": {"law": "constant", "value": 4}, "offline": {"law": "constant", "value": 4.5}}
    rows = {}
    for model in ("kept", "reset"):
        scenario = tiny(
            protocol={"name": "rand-gossip", "wakes": 9, "wake": {"law": "constant"}, "train_on": "receive"},
            network={"partitions": [{"from": 8, "until": 100, "groups": [[0]]}]},
            churn={"sessions": {**sessions, "start": "online", "nodes": [0]}, "model": model},
        )
        prepared = carried_out(scenario)
        rows[model] = prepared.planner.current_rows[0]
        assert prepared.planner.update_counts[0] > 0

    assert rows["reset"] == prepared.components.protocol.n_nodes  # where its first version lies
    assert rows["kept"] != prepared.components.protocol.n_nodes
