"""The whole emulator against a plain simulation."""

import numpy as np
import pytest

from gossiprec.emulation import simulate
from tests.emulation.plain_simulation import (
    PlainCoordinator,
    PlainFederation,
    PlainPersonal,
    PlainSimulation,
)
from tests.emulation.tiny_runs import carried_out, final_models, tiny
from tests.slow import slow_except_first

GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 4}
PERSONAL = {"name": "pers-gossip", "view": {"size": 3, "refresh": {"every": 2}}, "wakes": 6}
MANY_ITEMS = {
    **tiny()["dataset"],
    "items": 150,
    "interactions": 170,
    "split": {"name": "random", "test": 0.15, "validation": 0.12},
}
JUDGED = {"protocol": PERSONAL, "dataset": MANY_ITEMS, "model": {"name": "gmf", "dim": 8, "init_std": 1.0}}
"""Scores far apart: a hundred thousand comparisons must not turn on rounding."""
SLOW = {"latency": {"law": "constant", "value": 0.7}, "loss": 0.2}
UNEVEN = {"latency": {"law": "exponential", "mean": 3.0}}
WORLDS = {
    "on-wake": {},
    "on-receive-full-batch": {
        "protocol": {**GOSSIP, "train_on": "receive", "merge": "mean", "wakes": 3},
        "training": {"batch_size": "full", "local_epochs": 2, "eps": 1e-3},
    },
    "slow-and-lossy": {"network": SLOW},
    "on-receive-slow-and-lossy": {"network": SLOW, "protocol": {**GOSSIP, "train_on": "receive", "wakes": 3}},
    "fedavg": {"protocol": {"name": "fedavg", "rounds": 5}},
    "fedavg-slow-some-clients": {
        "network": {"latency": {"law": "exponential", "mean": 0.2}, "loss": 0.1},
        "protocol": {"name": "fedavg", "rounds": 7, "participation": 0.5},
    },
    "fedavg-waiting": {
        "network": {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1},
        "protocol": {
            "name": "fedavg",
            "rounds": 12,
            "participation": 0.5,
            "round": {"deadline": 0.6, "minimum": 0.5, "give_up": 1.5, "late": "discard"},
            "aggregation": {"name": "synchronous", "mixing": 0.7},
        },
    },
    "fedavg-late-weighted": {
        "network": {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1},
        "protocol": {
            "name": "fedavg",
            "rounds": 8,
            "round": {"deadline": 0.6, "give_up": 1.5},
            "aggregation": {"name": "synchronous", "staleness": {"law": "polynomial", "exponent": 1.0}},
        },
    },
    "fedavg-buffered": {
        "network": {"latency": {"law": "exponential", "mean": 0.5}, "loss": 0.1},
        "protocol": {
            "name": "fedavg",
            "rounds": 14,
            "aggregation": {
                "name": "buffered",
                "buffer": 3,
                "concurrency": 7,
                "give_up": 2.0,
                "late": "discard",
                "mixing": 0.8,
                "staleness": {"law": "polynomial"},
            },
        },
    },
    "overtaken": {"network": UNEVEN},
    "personal": JUDGED,
    "personal-on-receive": {**JUDGED, "protocol": {**PERSONAL, "train_on": "receive", "wakes": 4}},
    "personal-slow-and-lossy": {**JUDGED, "network": SLOW},
    "sgd": {"training": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 16}},
}
BETAS = [0.0, 0.7]
STEERED = ("fedavg-waiting", "fedavg-late-weighted", "fedavg-buffered")
COALITION = (1, 4, 7, 9)
DAMPED = {"batch_size": 16, "eps": 1e-3}
"""Adam would enlarge rounding where samples cancel: see ``tests.compute.worlds.worlds``."""


def federated(world):
    return world.startswith("fedavg")


def simulation_of(world):
    if world.startswith("personal"):
        return PlainPersonal
    if world in STEERED:
        return PlainCoordinator
    return PlainFederation if federated(world) else PlainSimulation


def scenario(world):
    observed = {"name": "cda", "community_size": 3, "reference_items": 9, "relevance": "mean_score"}
    gossiping = [{"who": "single"}, {"who": "coalition", "members": [*COALITION]}]
    watchers = [{"who": "coordinator"}] if federated(world) else gossiping
    return tiny(
        **{
            "training": DAMPED,
            "protocol": GOSSIP,
            **WORLDS[world],
            "observers": [{**observed, **who, "momentum": BETAS} for who in watchers],
            "evaluate": {"every": 2, "metrics": ["recall@5", "full_ndcg@5"]},
        }
    )


def informants(observer):
    """Return the adversaries of an observer, and who tells each what it received."""
    if observer == "single":
        return range(12), lambda adversary: [adversary]
    if observer == "coordinator":
        return range(12), lambda adversary: [12]
    return COALITION, lambda adversary: COALITION


@pytest.mark.parametrize("world", slow_except_first(WORLDS))
@pytest.mark.cases(2)
@pytest.mark.slow
def test_the_emulator_agrees_with_a_plain_simulation_at_every_tick(world, tmp_path):
    run = simulate(scenario(world), out=tmp_path / "run")
    prepared = carried_out(scenario(world))
    plain = simulation_of(world)(prepared, run)
    ticks = sorted(set(run.metrics["time"].tolist()))
    assert len(ticks) >= 3

    for time in ticks:
        plain.advance(time)
        measured = {
            name: value
            for name, value, at in zip(
                run.metrics["metric"], run.metrics["value"], run.metrics["time"], strict=True
            )
            if at == time and "@" in name
        }
        assert measured == pytest.approx(plain.full_metrics(), abs=1e-4)
        for row in np.flatnonzero(run.attacks["time"] == time):
            adversaries, told = informants(run.attacks["observer"][row])
            expected = plain.attack_accuracy(told, adversaries, run.attacks["momentum"][row])
            assert run.attacks["aac"][row] == pytest.approx(expected, abs=1e-4)

    assert plain.done == len(plain.events)
    assert len(plain.received) > 30
    parameters = np.stack([node.model.flat() for node in plain.nodes])
    np.testing.assert_allclose(final_models(prepared)[:12], parameters, rtol=1e-3, atol=1e-4)
    if world in STEERED:
        assert_answers_are_late(world, plain)
    if world in ("personal", "personal-on-receive"):
        assert_every_edge_case_was_met(world, plain, run)


def assert_answers_are_late(world, plain):
    plain.advance(np.inf)
    assert (plain.discarded > 2) == (world != "fedavg-late-weighted")
    assert (plain.stale > 2) == (world != "fedavg-waiting")


def assert_every_edge_case_was_met(world, plain, run):
    plain.advance(np.inf)
    assert plain.exploited > 5
    assert plain.refused > 3
    assert plain.equal > 3
    if world == "personal-on-receive":
        assert len(run.events("update")["time"]) == len(plain.received) - plain.refused
        assert run.summary["node_updates"] == len(plain.received) - plain.refused
