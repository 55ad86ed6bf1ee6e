"""A run divided among shards writes the bytes that one process writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gossiprec.base.errors import ResourceError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import simulate
from gossiprec.emulation.carriers.shards.leader import ShardStateService
from tests.emulation.ended_early import outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first

OF_ONE = ("shards", "needed_mib", "wall_seconds")
COALITIONS = {**SINGLE, "who": "coalition", "fraction": [0.25, 0.5], "momentum": [0, 0.9]}
JUDGING = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
PERSONAL = {"protocol": {"name": "pers-gossip", "view": {"size": 3}, "wakes": 6}, "dataset": JUDGING}
SLOW = {"latency": {"law": "exponential", "mean": 0.8}, "loss": 0.1}
SESSIONS = {"online": {"law": "exponential", "mean": 4.0}, "offline": {"law": "exponential", "mean": 1.0}}
AWAY = {"model": "reset", "sessions": SESSIONS}
RING = {"name": "rand-gossip", "fanout": 2, "view": {"graph": {"family": "ring", "k": 4}}, "wakes": 6}
LARGE = {"model": {"name": "gmf", "dim": 64, "init_std": 0.1}}
"""Rows of ten kibibytes, whose memory can be given back."""
METRICS = ["hr@5", "ndcg@5", "full_ndcg@5", "recall@5", "coverage@5", "val_recall@5", "er@5"]
LISTS = {"evaluate": {"every": 2, "metrics": METRICS, "targets": [1, 7], "activity_groups": 3}}
ROBUST = [{"name": "robust-merge", "rule": "median", "buffer": 4}]
LDP = [{"name": "ldp", "norm": "l2", "bound": 1.0, "scale": 0.1, "nodes": [0, 3, 5, 11]}]
HIDING = [{"name": "share-less", "nodes": {"fraction": 0.6}}]
POISONED = {
    "attackers": [{"name": "pieck", "number": 2, "targets": [7], "popular": 4, "changes": 9}],
    "model": {"name": "ncf", "dim": 4},
}
FEDAVG = {"name": "fedavg", "rounds": 6}
BUFFERED = {"name": "buffered", "buffer": 3, "concurrency": 6}
AIA = {"name": "aia", "adversaries": 2, "community_size": 3, "models": 6, "epochs": 2}
WORLDS = {
    "slow-and-lossy": {"network": SLOW, **LARGE},
    "away": {"churn": AWAY, "network": SLOW, **LARGE},
    "ring": {"protocol": RING, **LARGE},
    "epidemic": {"protocol": {"name": "epidemic", "receivers": 2, "wakes": 6}, **LARGE},
    "push-pull": {"protocol": {"name": "push-pull", "exchange": "pull", "wakes": 6}, "network": SLOW},
    "heads": {"protocol": {"name": "semi-decentralised", "rounds": 6}, "network": SLOW, **LARGE},
    "lists": LISTS,
    "half": {"executor": {"name": "reference", "storage": "float16"}, **LARGE},
    "hiding": {"policies": HIDING, "observers": [SINGLE, {**COALITIONS, "fictive_user": "own_embedding"}]},
    "hiding-among-judges": {"policies": HIDING, **PERSONAL, "observers": [{**SINGLE, "fictive_user": "own_embedding"}]},
    "inboxes": {"policies": ROBUST, **LARGE},
    "rewritten": {"policies": LDP, **LARGE},
    "poisoned": POISONED,
    "coordinator": {"protocol": FEDAVG, **LISTS, "policies": HIDING, **LARGE},
    "deadline": {"protocol": {**FEDAVG, "round": {"deadline": 1.0}, "merge": "median"}, "network": SLOW, **LARGE},
    "buffered": {"protocol": {**FEDAVG, "aggregation": BUFFERED}, "network": SLOW},
    "server": {"protocol": {**FEDAVG, "participation": 0.5, "server": "adam"}, "churn": AWAY, **POISONED},
    "accomplices": {"protocol": FEDAVG, "observers": [AIA]},
    "trains-on-receive": {"protocol": {**tiny()["protocol"], "train_on": "receive"}, **LARGE},
}  # fmt: skip


def told(path):
    """Return all that a run wrote but for what depends on how it was computed."""
    found = outcome(path)
    return {**found, "summary": {k: v for k, v in found["summary"].items() if k not in OF_ONE}}


def check(tmp_path, scenario, shards):
    one = simulate(scenario, out=tmp_path / "one")
    run = simulate(divided(scenario, shards), out=tmp_path / "divided", make_shard_group=Threads)
    assert told(run.path) == told(one.path)
    return json.loads((run.path / "summary.json").read_text())["shards"]


@pytest.mark.parametrize("protocol", slow_except_first([{}, PERSONAL]), ids=["rand-gossip", "pers-gossip"])
@pytest.mark.parametrize("executor", slow_except_first(list(EXECUTORS)))
@pytest.mark.cases(3)
def test_shards_write_what_one_process_writes(executor, protocol, tmp_path):
    shards = 4 if (executor == "batched") == bool(protocol) else 2
    scenario = tiny(**protocol, observers=[SINGLE, COALITIONS], executor={"name": executor, "threads": 1})
    each = check(tmp_path, scenario, shards)

    assert len(each) == shards
    assert all(shard["updates"] > 0 and shard["rows"] > 0 for shard in each)


@pytest.mark.parametrize("world", slow_except_first(WORLDS))
@pytest.mark.cases(3)
def test_shards_write_it_in_every_world(world, tmp_path):
    federated = WORLDS[world].get("protocol", {}).get("name") == "fedavg"
    observers = [{**COORDINATOR, "momentum": [0, 0.9]}] if federated else [SINGLE, COALITIONS]
    scenario = tiny(**{"observers": observers, **WORLDS[world]})
    check(tmp_path, scenario, 3)


def test_a_shard_that_plans_other_events_ends_the_run(tmp_path, monkeypatch):
    def by_number(service):
        return [service.shard.number]

    monkeypatch.setattr(ShardStateService, "fingerprint", property(by_number))
    with pytest.raises(ResourceError, match="shard 1 planned different events than shard 0"):
        simulate(divided(tiny(observers=[]), 2), out=tmp_path / "run", make_shard_group=Threads)


def test_memory_of_rows_that_others_own_is_given_back(tmp_path):
    """Every row that shard 0 neither owns nor needs reads as zeros again, where rows fill pages."""
    seats = []

    class Watched(Threads):
        def start(self, prepared):
            seats.append(prepared)
            super().start(prepared)

    scenario = tiny(observers=[], model={"name": "gmf", "dim": 256, "init_std": 0.1})
    simulate(divided(scenario, 2), out=tmp_path / "run", make_shard_group=Watched)
    prepared = seats[0]
    rows, current = prepared.executor.work.arena.rows, prepared.planner.current_rows
    written = np.flatnonzero(rows[:, rows.shape[1] // 2])
    own = current[prepared.carrier.place.parts.own_nodes]
    assert set(own) <= set(written)
    assert len(written) <= 1.5 * len(own)
