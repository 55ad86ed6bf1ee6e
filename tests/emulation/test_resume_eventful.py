"""Runs under network conditions, churn, waiting coordinators and exchanged views are resumed to the same bytes."""

from __future__ import annotations

import pytest

from gossiprec.emulation import simulate
from gossiprec.emulation.run.simulate import resume
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.tiny_runs import SINGLE
from tests.slow import slow_except_first

COALITION = {**SINGLE, "who": "coalition", "fraction": 0.25, "momentum": 0.9}
COORDINATOR = {**SINGLE, "who": "coordinator"}
NETWORK = {
    "latency": {"law": "lognormal", "median": 0.3, "sigma": 1.0},
    "bandwidth": {"up": 3000.0, "down": 5000.0},
    "loss": 0.05,
    "duplication": 0.1,
    "in_order": True,
    "partitions": [{"from": 2.0, "until": 4.0, "parts": 2}],
    "compute": {"time": {"law": "exponential", "mean": 0.3}, "per": "node"},
}
SESSIONS = {"online": {"law": "exponential", "mean": 3.0}, "offline": {"law": "exponential", "mean": 1.0}}
CHURN = {"sessions": SESSIONS, "leave": {"nodes": [7], "at": 5.0}, "messages": "held", "model": "reset"}
GOSSIP = {"name": "rand-gossip", "fanout": 2, "wakes": 8}
FUSED = {"name": "fused"}
CASES = {
    "gossip": {"protocol": {**GOSSIP, "view": {"size": 3}}, "executor": FUSED},
    "gossip that trains on receive": {"protocol": {**GOSSIP, "train_on": "receive"}},
    "cyclon": {
        "protocol": {**GOSSIP, "view": {"sampling": "cyclon", "size": 4, "shuffle": 2}},
        "executor": FUSED,
    },
    "inboxes": {
        "protocol": {**GOSSIP, "view": {"size": 3}},
        "policies": [{"name": "robust-merge", "rule": "median", "nodes": {"fraction": 0.5}}],
        "executor": FUSED,
    },
    "graph": {"protocol": {**GOSSIP, "view": {"graph": {"family": "watts-strogatz", "k": 4}}}},
    "waiting": {
        "executor": FUSED,
        "protocol": {
            "name": "fedavg",
            "rounds": 8,
            "round": {"deadline": 2.0, "minimum": 0.5, "give_up": 4.0},
        },
        "observers": [COORDINATOR],
    },
    "buffered": {
        "protocol": {
            "name": "fedavg",
            "rounds": 8,
            "aggregation": {"name": "buffered", "buffer": 2, "concurrency": 5, "give_up": 5.0, "mixing": 0.5},
        },
        "observers": [COORDINATOR],
    },
}


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.cases(2)
def test_an_eventful_run_goes_on_where_it_was(case, tmp_path):
    chosen = {"observers": [SINGLE, COALITION], **CASES[case]}
    scenario = often(**chosen, network=NETWORK, churn=CHURN)
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)
    done = resume(broken.path)

    assert whole.summary["network"]["dropped"]
    assert outcome(done.path) == outcome(whole.path)
    assert done.summary["network"] == whole.summary["network"]
