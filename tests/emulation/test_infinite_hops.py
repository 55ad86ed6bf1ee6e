"""Random networks: a user whom no data can have reached has the same model without these data."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gossiprec import counterfactual
from gossiprec.emulation import simulate
from gossiprec.emulation.run.influence import influence

USERS = 10
VIEWS = (
    {"size": 1},
    {"graph": {"family": "ring", "k": 2}},
    {"graph": {"family": "nearest-by-taste", "k": 2}},
    {"sampling": "descriptors", "size": 2},
    {"sampling": "cyclon", "size": 2, "shuffle": 1},
)
ATTACKERS = (
    {"name": "a-hum", "targets": [5]},
    {"name": "a-hum", "targets": [4], "scale": "matched"},
    {"name": "shilling", "targets": {"least_popular": 3}},
    {"name": "fedrecattack", "knowledge": 0.5},
)
RULES = ("mean", "samples", {"name": "fltrust", "root": {"users": 4}})
RECOMMENDERS = (
    None,
    {"name": "gpfedrec"},
    {"name": "pdc-frs", "similarity": {"name": "co-occurrence", "public_users": 0.5}, "augmented": 3},
)


def draw_protocol(name, draw):
    """Return a protocol of few messages."""
    wake = {"law": draw.choice(["constant", "exponential"])}
    gossip = {"wakes": draw.choice([1, 2]), "wake": wake, "merge": draw.choice(["mean", "samples"])}
    match name:
        case "rand-gossip":
            return {
                **gossip,
                "fanout": 1,
                "view": draw.choice(VIEWS),
                "train_on": draw.choice(["wake", "receive"]),
            }
        case "push-pull":
            return {**gossip, "receivers": 1, "exchange": draw.choice(["push-pull", "pull"])}
        case "epidemic":
            return {**gossip, "receivers": 1}
        case "pers-gossip":
            return {"wakes": gossip["wakes"], "wake": wake, "view": {"size": 1}}
        case "semi-decentralised":
            rounds = {"rounds": gossip.pop("wakes"), "head": draw.choice(["user", "server"])}
            return {**gossip, **rounds, "clusters": 3}
    rounds = {"rounds": draw.choice([2, 3]), "participation": 0.3, "merge": draw.choice(RULES)}
    return {**rounds, "client_model": draw.choice(["own", "none", "none"])}


def draw_network(kind, draw):
    """Return delays, losses, and computers that take longer for more items."""
    found = {}
    if draw.random() < 0.5:
        found["latency"] = draw.choice([{"law": "constant", "value": 0.3}, {"law": "uniform", "high": 1.0}])
    if draw.random() < 0.3:
        found["loss"] = 0.2
    if draw.random() < 0.4:
        found["compute"] = {"time": {"law": "constant", "value": 0.02}, "per_sample": True}
        if kind.get("client_model") != "none":
            found["bandwidth"] = {"up": 3000.0, "down": 3000.0}
    return found


def draw_scenario(seed):
    """Return a random scenario of ten users."""
    draw = random.Random(seed)
    name = draw.choice(
        ["rand-gossip", "push-pull", "epidemic", "pers-gossip", "semi-decentralised", "fedavg", "fedavg"]
    )
    protocol = draw_protocol(name, draw)
    updates = protocol.get("client_model") == "none"
    split = {"name": "leave_last_k", "test": 2, "validation": 2}
    scenario = {
        "name": "random",
        "seed": seed,
        "plots": False,
        "observers": [],
        "dataset": {"name": "synthetic", "users": USERS, "items": 30, "interactions": 100, "split": split},
        "model": {"name": "gmf", "dim": 4, "init_std": 0.1},
        "training": {"learning_rate": 0.05, **({"batch_size": "full"} if updates else {})},
        "protocol": {"name": name, **protocol},
        "network": draw_network(protocol, draw),
        "evaluate": {"every": 1, "metrics": ["recall@5", "val_recall@5"]},
        "executor": {"name": draw.choice(["reference", "batched"])},
    }
    if name != "pers-gossip" and draw.random() < 0.3:
        scenario["attackers"] = [{**draw.choice(ATTACKERS), "number": 1}]
    if updates and (recommender := draw.choice(RECOMMENDERS)):
        scenario["recommender"] = recommender
        if recommender["name"] == "gpfedrec":
            scenario["model"] = {"name": "mf", "loss": "bce", "dim": 4}
    if draw.random() < 0.2 and protocol.get("rounds", protocol.get("wakes")) > 1:
        scenario["stop"] = {"measure": "val_recall@5", "patience": 1}
    return scenario, draw.randrange(USERS)


def check(seed, folder):
    scenario, user = draw_scenario(seed)
    run = simulate(scenario, out=folder / "run")
    found = influence(run.path, counterfactual(run.path, [user]).path, k=5)
    unreached = np.isinf(found.hops)
    assert not found.distance[unreached].any(), (seed, scenario)
    assert (found.overlap[unreached] == 1).all(), (seed, scenario)
    return int(unreached.sum())


QUICK = (7, 14, 19)


@pytest.mark.parametrize("seed", QUICK)
@pytest.mark.cases(1)
def test_no_model_changes_at_infinite_hops(tmp_path, seed):
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.full
def test_no_model_of_many_random_networks_changes_at_infinite_hops(tmp_path):
    assert sum(check(seed, tmp_path / str(seed)) for seed in range(40)) > 100
