"""Clients that hold no model, divided among shards: the bytes that one process writes."""

from __future__ import annotations

import pytest

from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_clients_without_models import CHURN, NETWORK, star
from tests.emulation.test_shards import BUFFERED, LDP, told
from tests.emulation.tiny_runs import COORDINATOR
from tests.recommenders.test_fedcl_runs import TOWERS, fedcl
from tests.recommenders.test_perfedrec import AUTHORS, personal
from tests.recommenders.test_perfedrec import LDP as OF_UPDATES
from tests.recommenders.test_recommended_runs import SLICES, recommended
from tests.slow import slow_except_first

DATASET = (
    "dataset={name: synthetic, users: 20, items: 40, interactions: 240, "
    "split: {name: leave_last_k, test: 2, validation: 1}}"
)
SHIPPED = {
    "fedncf": (["protocol.slice=7"], "fused"),
    "poisoned_fedncf": (["protocol.slice=7", "attackers.0.fraction=0.2"], "fused"),
    "cl4fedrec": (
        ["protocol.slice=7", "recommender.hot_items=4", "recommender.sub_items=10", "observers.0.community_size=3"],
        "fused",
    ),
    "pdc_frs": (["protocol.slice=7"], "reference"),
    "perfedrec_pp": (["protocol.rounds=5", "recommender.clusters={number: 3, first: 2, every: 2}"], "batched"),
    "fedcl": (["protocol.slice=7", "recommender.clusters=3", "recommender.semi_hard=4"], "batched"),
}  # fmt: skip
OBSERVERS = [
    {**COORDINATOR, "momentum": [0, 0.9]},
    {**COORDINATOR, "fictive_user": "own_embedding"},
    {"name": "entropy-mia", "who": "coordinator", "community_size": 3, "threshold": [0.4]},
    {"name": "aia", "adversaries": 2, "community_size": 3, "models": 2, "epochs": 1},
    {"name": "loss-mia", "who": "coordinator", "pairs": 5},
    {"name": "update-mia", "who": "coordinator", "pairs": 5},
    {"name": "imia", "who": "coordinator", "pairs": 5, "repeats": 1},
    {"name": "lira", "who": "coordinator", "pairs": 5, "models": 2, "rounds": 1},
]
COMPILED = {"executor": {"name": "fused"}}
PLAIN = {"executor": {"name": "reference"}}
A_HUM = {
    "attackers": [{"name": "a-hum", "number": 3, "targets": [7], "start": 2}],
    "evaluate": {"every": 2, "metrics": ["hr@5", "full_ndcg@5", "er@5"], "targets": "attacked"},
}
RULES = ["median", {"name": "krum", "byzantine": 1}, {"name": "trimmed-mean"}, {"name": "hics"}]
LATE = {"network": NETWORK, "churn": CHURN}
DEADLINE = {"round": {"deadline": 1.0}}
BUFFER = {"aggregation": BUFFERED, "participation": 1}
WORLDS = {
    "late-lost-and-copied": star(rounds=6, observers=OBSERVERS, **PLAIN, **LATE),
    "deadline": star(protocol=DEADLINE, rounds=6, network=NETWORK, policies=LDP, **PLAIN),
    "buffered": star(protocol=BUFFER, rounds=9, **PLAIN, **LATE),
    "told-late": personal(policies=[OF_UPDATES], **COMPILED, **LATE),
    "rows-averaged-late": personal(**AUTHORS, **COMPILED, **LATE),
    "vectors-told": fedcl({"leaks": 3}, model=TOWERS, **PLAIN),
    "synthetic-users-late": recommended(observers=OBSERVERS[:1], **COMPILED, **LATE),
    **{
        rule if isinstance(rule, str) else rule["name"]: recommended(
            protocol={**SLICES, "merge": rule}, **COMPILED, **A_HUM
        )
        for rule in RULES
    },
}


def check(tmp_path, scenario, *shards):
    one = simulate(scenario, out=tmp_path / "one")
    for n in shards:
        run = simulate(divided(scenario, n), out=tmp_path / str(n), make_shard_group=Threads)
        assert told(run.path) == told(one.path)


@pytest.mark.parametrize("name", slow_except_first(SHIPPED))
@pytest.mark.full
def test_shipped_scenarios_are_divided(name, tmp_path):
    overrides, executor = SHIPPED[name]
    overrides = [
        DATASET, "protocol.rounds=3", "plots=false", "evaluate.every=1", f"executor.name={executor}", *overrides,
    ]  # fmt: skip
    check(tmp_path, load_scenario(f"scenarios/{name}.yaml", overrides).resolved(), 2, 3)


@pytest.mark.parametrize("inner", slow_except_first(["reference", "batched", "fused"]))
@pytest.mark.cases(1)
def test_every_executor_computes_in_shards(inner, tmp_path):
    check(tmp_path, recommended(executor={"name": inner}, protocol={**SLICES, "rounds": 2}), 4)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.full
def test_every_world_is_divided(world, tmp_path):
    check(tmp_path, WORLDS[world], 3)
