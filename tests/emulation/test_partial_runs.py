"""Runs with messages in parts: resumed, divided and replayed they give the same bytes; sizes are in the log."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.messages import OutgoingTransforms
from gossiprec.emulation import prepare, replay, resume, simulate
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import OFTEN, ended_early, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import told
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first

COALITION = {**SINGLE, "who": "coalition", "fraction": 0.3, "momentum": 0.5}
OBSERVED = {"observers": [SINGLE, COALITION]}
SLOW = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1, "duplication": 0.2}
CLIENTS = {"name": "fedavg", "rounds": 8, "participation": 0.5}
NODES = {"fraction": 0.7}
LAST_ONE = {"name": "leave_last_k", "test": 1}
WORLDS = {
    "chunks": often(policies=[{"name": "chunks", "nodes": NODES, "pieces": 3}], network=SLOW, **OBSERVED),
    "virtual": often(
        policies=[{"name": "chunks", "nodes": NODES, "pieces": 3, "virtual_nodes": True}], network=SLOW, **OBSERVED,
    ),
    "top-k": often(policies=[{"name": "top-k", "nodes": "all", "share": 0.2}], network=SLOW, **OBSERVED),
    "updates without a push": often(
        policies=[{"name": "top-k", "nodes": "all", "share": 0.2}], network=SLOW,
        protocol={"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 8, "train_on": "receive"},
        **OBSERVED,
    ),
    "both": often(
        policies=[{"name": "random-k", "nodes": NODES}, {"name": "quantize", "nodes": "all"}],
        protocol={"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8, "average": "all"},
        **OBSERVED,
    ),
    "fedavg": often(
        policies=[{"name": "top-k", "nodes": "all"}], protocol=CLIENTS, network=SLOW,
        observers=[{**COORDINATOR, "momentum": 0.5}],
    ),
    "updates": often(
        policies=[{"name": "top-k", "nodes": "all"}], protocol={**CLIENTS, "client_model": "none"}, observers=[],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a run in one process, each made once."""
    made = {}

    def of(world):
        if world not in made:
            made[world] = simulate(WORLDS[world], out=tmp_path_factory.mktemp(world) / "run").path
        return made[world]

    return of


@pytest.mark.parametrize("world", slow_except_first(list(WORLDS)))
@pytest.mark.full
def test_a_run_that_ended_early_goes_on_to_the_same_bytes(world, whole, tmp_path):
    run = ended_early(tmp_path / "run", WORLDS[world])

    assert outcome(resume(run.path).path) == outcome(whole(world))


@pytest.mark.parametrize("world", slow_except_first(list(WORLDS)))
@pytest.mark.cases(2)
def test_shards_give_the_same_bytes(world, whole, tmp_path):
    run = simulate(divided(WORLDS[world], 2), out=tmp_path / "run", make_shard_group=Threads)

    assert told(run.path) == told(whole(world))


@pytest.mark.parametrize(
    ("storage", "average"),
    slow_except_first([("float32", "pairwise"), ("float16", "pairwise"), ("float32", "all")]),
)
@pytest.mark.parametrize("name", ["chunks", "top-k"])
@pytest.mark.full
def test_pieces_and_packed_numbers_give_what_rows_with_gaps_give(
    name, storage, average, monkeypatch, tmp_path
):
    parts = {"name": name, "nodes": NODES} | ({"pieces": 3} if name == "chunks" else {})
    policies = [parts, {"name": "share-less", "nodes": {"fraction": 0.5}}]
    gossip = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 4, "average": average}
    executor = {"name": "fused" if storage == "float32" else "reference", "storage": storage}
    world = load_scenario(
        tiny(policies=policies, protocol=gossip, network=SLOW, executor=executor, **OBSERVED)
    )
    short = simulate(world, out=tmp_path / "short")
    for property_, kind in (("only_cuts", bool), ("fixed_sizes", bool), ("packed_counts", np.int64)):
        none = property(lambda self, kind=kind: np.zeros(len(self.extra_bytes), kind))
        monkeypatch.setattr(OutgoingTransforms, property_, none)
    rows = simulate(world, out=tmp_path / "rows")

    assert outcome(short.path) == outcome(rows.path)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["chunks", "top-k", "fedavg"])
@pytest.mark.full
def test_a_divided_run_goes_on_in_one_process(world, whole, tmp_path):
    run = simulate(
        divided({**WORLDS[world], "checkpoint": OFTEN}, 2),
        out=tmp_path / "run",
        make_shard_group=Threads,
        progress=_until(5),
    )

    assert told(resume(run.path, shards=1).path) == told(whole(world))


def _until(stop):
    from tests.emulation.ended_early import Patient

    return Patient(stop)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["chunks", "top-k"])
def test_a_run_is_replayed(world, whole):
    assert replay(whole(world)).confirmed


def test_the_log_has_the_size_of_each_message(whole):
    from gossiprec.runs import open_run

    messages = open_run(whole("chunks")).events("message")
    n = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40).message_bytes // 4
    pieces = {4 * (-(-(n - piece) // 3)) + 8 for piece in range(3)}
    sizes = set(np.unique(messages["size_bytes"]).tolist())

    assert sizes == pieces | {4 * n}


@pytest.mark.parametrize(
    "policy", [{"name": "chunks", "pieces": 3}, {"name": "top-k"}], ids=lambda each: each["name"]
)
def test_nodes_work_at_the_same_time_as_without_parts(policy):
    def waves(policies):
        data = {"name": "synthetic", "users": 200, "items": 60, "interactions": 2000, "split": LAST_ONE}
        world = tiny(
            dataset=data, protocol={"name": "rand-gossip", "wakes": 4}, policies=policies, observers=[]
        )
        prepared = prepare(load_scenario(world))
        plans = []

        def plan(segment):
            for encoder in prepared.seams.encoders:
                encoder.pushes.read_segment(segment)
            plans.append(prepared.planner.plan(segment))

        for _ in prepared.schedule.play(plan):
            pass
        return sum(len(each.task_offsets) - 1 for each in plans)

    found, plain = waves([policy | {"nodes": "all"}]), waves([])
    if policy["name"] == "chunks":
        assert found == plain  # pieces are read in the sender's version
    else:  # an update, the rewriting of its result and the merging of what arrived are tasks of their own
        assert plain < found < 3 * plain
