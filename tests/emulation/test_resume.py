"""A run that ended early and is resumed writes what it would have written without a break."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.cli.summary_text import format_footer
from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import resume, simulate
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.testing.tiny_runs import CITY as TOWN
from gossiprec.testing.tiny_runs import attribute_tables
from tests.emulation import ended_early as early
from tests.emulation.ended_early import OFTEN, Patient, checkpoints, ended_early, outcome
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first


def often(**sections):
    """Return a tiny scenario with a checkpoint at each report, on the quickest executor where none is chosen."""
    return early.often(**{"executor": {"name": "fused"}, **sections})


COALITIONS = {**SINGLE, "who": "coalition", "fraction": [0.25, 0.5], "momentum": [0, 0.9]}
SLOW = {"latency": {"law": "exponential", "mean": 0.8}, "loss": 0.1}
JUDGING = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
FEDAVG = {"name": "fedavg", "rounds": 8, "participation": 0.5}
PERSONAL = {"name": "pers-gossip", "view": {"size": 3}, "wakes": 8}
RUNS = {
    "rand-gossip": {"observers": [SINGLE, COALITIONS]},
    "pers-gossip": {"protocol": PERSONAL, "dataset": JUDGING, "observers": [SINGLE, COALITIONS]},
    "fedavg": {"protocol": FEDAVG, "observers": [COORDINATOR]},
}
CITY = {
    "dataset": {
        "name": "synthetic-checkins",
        "users": 12,
        "items": 50,
        "checkins": 300,
        "communities": 3,
        "split": {"name": "published"},
    },
    "model": {"name": "prme-g", "dim": 6, "init_std": 0.1},
    "training": {"optimizer": "sgd", "learning_rate": 0.02, "batch_size": 16, "negatives": 1},
}


def check(tmp_path, scenario, stops=(4,)):
    """Break a run at some reports, one after the other, and compare it with one that was not broken."""
    whole = simulate(scenario, out=tmp_path / "whole")
    run = ended_early(tmp_path / "broken", scenario, stops[0])
    for stop in stops[1:]:
        assert resume(run.path, progress=Patient(stop)).manifest["status"] == "interrupted"
    (run.path / ".positions.csv.e1c518258e94f0ee.writing").write_text("half of what a killed process wrote")
    done = resume(run.path)

    assert outcome(done.path) == outcome(whole.path)
    assert not (done.path / "checkpoints").exists()
    assert not [*done.path.glob(".*")]
    return whole, done


def test_every_protocol_is_tried():
    elsewhere = {
        "central": "tests/emulation/test_central_runs.py",
        "epidemic": "tests/protocols/test_epidemic.py",
        "push-pull": "tests/protocols/test_push_pull.py",
        "semi-decentralised": "tests/protocols/test_semi_decentralised.py",
    }
    assert {*RUNS, *elsewhere} == set(PROTOCOLS)


INSTANT = {("batched", "rand-gossip"), ("reference", "pers-gossip"), ("fused", "fedavg")}
"""Where nothing is under way; each executor and each protocol once."""


@pytest.mark.parametrize("protocol", slow_except_first(RUNS))
@pytest.mark.parametrize("executor", slow_except_first(list(EXECUTORS)))
@pytest.mark.cases(1)
def test_resumed_is_as_uninterrupted(executor, protocol, tmp_path):
    network = {} if (executor, protocol) in INSTANT else SLOW
    scenario = often(**RUNS[protocol], executor={"name": executor, "threads": 2}, network=network)
    check(tmp_path, scenario)


@pytest.mark.slow
def test_a_run_can_be_broken_again_and_again(tmp_path):
    check(tmp_path, often(**RUNS["rand-gossip"], network=SLOW), stops=(3, 2, 3))


@pytest.mark.slow
def test_a_run_that_trains_on_receive_is_resumed(tmp_path):
    check(tmp_path, often(protocol={**often()["protocol"], "train_on": "receive"}))


ATTRIBUTES = [
    {
        "name": "attribute-inference",
        "who": who,
        "attribute": "gender",
        "features": ["user", "items", "updates"],
        **of,
    }
    for who, of in (("single", {"nodes": [1, 2]}), ("coalition", {"members": [0, 3]}))
]
ATTACKED = {
    "cda": RUNS["rand-gossip"],
    "entropy-mia": {
        "observers": [
            {"name": "entropy-mia", "who": "single", "community_size": 3, "storage": "float16"},
            {"name": "entropy-mia", "who": "coalition", "fraction": 0.5, "community_size": 3},
        ]
    },
    "loss-mia": {
        "observers": [
            {"name": "loss-mia", "who": "single", "nodes": [0, 3]},
            {"name": "loss-mia", "who": "coalition", "fraction": 0.25},
        ]
    },
    "update-mia": {"protocol": FEDAVG, "observers": [{"name": "update-mia", "who": "coordinator"}]},
    "imia": {"observers": [{"name": "imia", "who": "single", "nodes": [0, 3], "repeats": 2}]},
    "lira": {
        "protocol": FEDAVG,
        "observers": [{"name": "lira", "who": "coordinator", "models": 2, "rounds": 2}],
    },
    "shadow-mia": {
        "observers": [{"name": "shadow-mia", "who": "coalition", "fraction": 0.5, "models": 2, "rounds": 2}]
    },
    "aia": {
        "protocol": FEDAVG,
        "observers": [{"name": "aia", "adversaries": 2, "models": 4, "epochs": 2, "community_size": 3}],
    },
    "attribute-inference": {"observers": ATTRIBUTES},
    "reconstruction": {
        "protocol": FEDAVG,
        "observers": [{"name": "reconstruction", "who": "coordinator", "over": "all"}],
    },
}


def test_every_attack_is_tried():
    assert set(ATTACKED) == set(ATTACKS)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run of the tiny scenario with a checkpoint at each of its reports."""
    return simulate(often(checkpoint=OFTEN), out=tmp_path_factory.mktemp("plain") / "run", progress=Patient())


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKED)
@pytest.mark.cases(1)
def test_every_attack_goes_on_where_it_was(attack, tmp_path):
    with attribute_tables(needed=True) as tables:
        attacked = often(**ATTACKED[attack])
        if ATTACKS[attack].needs_features:
            attacked["dataset"] = {**TOWN, **tables}
        check(tmp_path, attacked)


@pytest.mark.parametrize(
    ("fictive", "executor"),
    slow_except_first(
        [("fitted", "fused"), ("fitted", "reference"), ("own_embedding", "reference"), ("paper", "fused")]
    ),
)
@pytest.mark.cases(1)
def test_fictive_users_go_on_where_they_were(fictive, executor, tmp_path):
    refit = {"refit_every": 2.0} if fictive == "fitted" else {}
    coalition = {**COALITIONS, "fraction": 0.25}
    observers = [
        {**each, "fictive_user": fictive} for each in ({**SINGLE, "nodes": [0, 3, 7], **refit}, coalition)
    ]
    policies = [{"name": "share-less", "nodes": {"fraction": 0.5}, "tau": 0.5}]
    check(tmp_path, often(observers=observers, policies=policies, executor={"name": executor}))


@pytest.mark.slow
@pytest.mark.parametrize(("executor", "storage"), [("reference", "float32"), ("fused", "float16")])
@pytest.mark.cases(1)
def test_models_of_moves_are_resumed(executor, storage, tmp_path):
    chosen = {"name": executor, "storage": storage}
    check(tmp_path, often(**CITY, observers=[SINGLE, COALITIONS], executor=chosen))


@pytest.mark.slow
def test_privacy_spent_goes_on_to_be_counted(tmp_path):
    policies = [{"name": "dp-sgd", "epsilon": 10, "nodes": [1, 4, 6]}]
    policies.append({"name": "dp-sgd", "unit": "user", "epsilon": 10, "nodes": [2, 3]})
    whole, done = check(tmp_path, often(policies=policies))

    assert whole.summary["privacy"]["nodes"] == 5
    assert len(done.events("privacy")["node"]) > 3


@pytest.mark.slow
def test_the_resumed_run_has_done_the_work_only_once(tmp_path):
    scenario = often()
    run = ended_early(tmp_path / "run", scenario, stop=5)
    before, processor_before = (run.summary[f"{clock}_seconds"] for clock in ("wall", "processor"))
    progress = Patient()
    done = resume(run.path, progress=progress)

    assert progress.ticks[0].time == 5.0
    assert len(progress.ticks) == len(done.events("evaluate")["time"]) - 4
    assert done.summary["wall_seconds"] > 0 < before
    assert done.summary["processor_seconds"] > processor_before > 0
    assert done.manifest["resumed"][0]["time"] == 4.0
    assert "notes" not in done.manifest


@pytest.mark.slow
def test_a_failed_run_is_resumed(plain, tmp_path):
    with pytest.raises(RuntimeError, match="stopped by the test"):
        simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=Patient(4, RuntimeError))

    assert outcome(resume(tmp_path / "run").path) == outcome(plain.path)


@pytest.mark.slow
def test_threads_can_be_changed_on_the_way(tmp_path):
    chosen = {"executor": {"name": "fused", "threads": 1}, "observers": [SINGLE, COALITIONS]}
    whole = simulate(often(**chosen), out=tmp_path / "whole")
    run = ended_early(tmp_path / "run", often(**chosen))
    done = resume(run.path, threads=2)

    assert outcome(done.path) == outcome(whole.path)
    assert (done.summary["threads"], whole.summary["threads"]) == (2, 1)


@pytest.mark.slow
def test_checkpoints_change_nothing(plain, tmp_path):
    without = simulate(often(checkpoint={"minutes": None}), out=tmp_path / "without")

    assert outcome(plain.path) == outcome(without.path)


@pytest.mark.slow
def test_checkpoints_come_every_so_many_rounds_and_the_last_are_kept(tmp_path):
    clock = {**often()["protocol"], "wake": {"law": "constant"}}  # rounds are then reports
    scenario = often(checkpoint={"every": 2, "minutes": None, "keep": 3}, protocol=clock)
    run = simulate(scenario, out=tmp_path / "run", progress=Patient(8))

    assert [int(path.stem) for path in checkpoints(run)] == [6, 4, 2]
    sizes = [path.stat().st_size for path in checkpoints(run)]
    assert run.summary["checkpoints"] == {"written": 3, "largest_mib": max(sizes) / 2**20}
    said = f"3, the largest of {max(sizes) / 2**20:,.1f} MiB; the run waited "
    assert said in format_footer(run.summary, run.path)


@pytest.mark.slow
def test_a_checkpoint_is_due_after_some_minutes(tmp_path):
    soon = simulate(often(checkpoint=OFTEN), out=tmp_path / "soon", progress=Patient(4))
    late = simulate(often(checkpoint={"minutes": 60.0}), out=tmp_path / "late", progress=Patient(4))

    assert len(checkpoints(soon)) == 2
    assert checkpoints(late) == []
    assert "checkpoints" not in late.summary


def test_a_complete_run_is_returned_as_it_is(plain):
    before = outcome(plain.path)

    assert outcome(resume(plain.path).path) == before
    assert "resumed" not in json.loads((plain.path / "manifest.json").read_text())


def test_dead_slots_of_single_adversaries_are_left_out(tmp_path):
    """Of a pair's rows only those are noted that a later meeting will read."""
    from gossiprec.emulation import prepare
    from gossiprec.scenario import load_scenario

    prepared = prepare(load_scenario(often()))
    state = prepared.attacks[0].state(4.0)["observers"]["memory"]
    extents = state.extents()
    slots = {(int(low), int(high)) for low, high in extents}

    messages = prepared.schedule.deliveries
    pairs = {}
    for time, pair in zip(
        messages.time, zip(messages.receiver.tolist(), messages.sender.tolist(), strict=True), strict=True
    ):
        pairs.setdefault(pair, []).append(time)
    met_and_to_meet = sum(min(times) <= 4.0 < max(times) for times in pairs.values())
    assert len(slots) == met_and_to_meet > 0
    assert 0 < int(np.diff(extents).sum()) < state.array.size
