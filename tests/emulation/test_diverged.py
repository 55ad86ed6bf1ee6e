"""A local update that gives NaN or infinity ends the run, and names node, update and time, in every mode."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.plan.program import Program
from gossiprec.compute.plan.tape import TapeEvent, concat_segments
from gossiprec.compute.update_noise import run_with_noise
from gossiprec.compute.waves import NotFiniteError
from gossiprec.emulation import prepare, simulate
from gossiprec.numerics.flat_ops import finite_rows
from gossiprec.scenario import load_scenario
from tests.compute.worlds import ON_DEVICE, World, make_executor
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, carried_out, tiny
from tests.slow import slow_except_first

DIVERGES = {"training": {"optimizer": "sgd", "learning_rate": 1e30}, "observers": []}
GOSSIP = {"name": "rand-gossip", "fanout": 2, "view": {"size": 3}, "wakes": 4}
STAR = {"name": "fedavg", "rounds": 4}
VALIDATION = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
MODES = {
    "gossip": {"protocol": GOSSIP},
    "gossip-receive": {"protocol": {**GOSSIP, "train_on": "receive"}},
    "gossip-latency": {"protocol": GOSSIP, "network": {"latency": {"law": "constant", "value": 0.3}}},
    "gossip-inboxes": {
        "protocol": GOSSIP,
        "policies": [{"name": "robust-merge", "nodes": "all", "rule": "median"}],
    },
    "gossip-some-leave-out": {
        "protocol": GOSSIP,
        "policies": [{"name": "robust-merge", "nodes": [0, 1], "rule": "median", "invalid": "discard"}],
    },
    "pers-gossip": {
        "protocol": {"name": "pers-gossip", "view": {"size": 3}, "wakes": 4},
        "dataset": VALIDATION,
    },
    "star": {"protocol": STAR},
    "star-mean": {"protocol": {**STAR, "merge": "mean"}},
    "star-median": {"protocol": {**STAR, "merge": "median"}},
    "star-buffered": {
        "protocol": {**STAR, "aggregation": {"name": "buffered", "buffer": 3, "concurrency": 5}},
        "network": {"latency": {"law": "constant", "value": 0.3}},
    },
    "clients": {"protocol": {**STAR, "client_model": "none"}},
    "clients-median": {"protocol": {**STAR, "client_model": "none", "merge": "median"}},
    "central": {"protocol": {"name": "central", "epochs": 4}},
}
FOUND = re.compile(
    r"node (\d+): local update (\d+) at time ([0-9.e+-]+) produced a model with NaN or infinite values "
    r"after epoch (\d+); lower training\.learning_rate"
)


def refusal(scenario, **how):
    """Return node, update, time and epoch of the message that ends a run."""
    with pytest.raises(ScenarioError) as caught:
        carried_out(scenario) if not how else simulate(scenario, **how)
    found = FOUND.match(str(caught.value))
    assert found, str(caught.value)
    return int(found[1]), int(found[2]), float(found[3]), int(found[4])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("mode", slow_except_first(MODES))
def test_a_run_that_diverges_ends_and_names_node_update_and_time(mode):
    node, update, time, epoch = refusal(tiny(**{**DIVERGES, **MODES[mode]}))
    assert 0 <= node <= 12
    assert epoch == update + 1
    assert time > 0


RULES = {"relevance": ["standardized", "ndcg", "mean_score"], "momentum": [0, 0.9]}
MIA = {"name": "entropy-mia", "who": "single", "community_size": 3}
AIA = {"name": "aia", "community_size": 3, "adversaries": 2, "models": 4, "epochs": 2}
MEMBERSHIP = [
    {"name": "loss-mia", "who": "single"},
    {"name": "update-mia", "who": "coalition", "fraction": 0.25},
]
OBSERVED = {
    "gossip": [
        {**SINGLE, **RULES},
        MIA,
        *MEMBERSHIP,
        {**SINGLE, **RULES, "who": "coalition", "fraction": 0.25},
    ],
    "star": [{**COORDINATOR, **RULES}, AIA],
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("learning_rate", slow_except_first([1e12, 1e19, 1e30]))
@pytest.mark.parametrize("mode", slow_except_first(OBSERVED))
def test_attacks_on_models_that_diverge_add_no_warning(mode, learning_rate):
    training = {"optimizer": "sgd", "learning_rate": learning_rate}
    refusal(tiny(**MODES[mode], training=training, observers=OBSERVED[mode]))


HOW = [(name, storage) for name in EXECUTORS for storage in ("float32", "float16")]
HOW.remove(("fused", "float16"))  # GMF has no kernels for it


@pytest.mark.parametrize(("executor", "storage"), slow_except_first(HOW))
@pytest.mark.parametrize("mode", slow_except_first(["gossip", "gossip-receive", "gossip-latency"]))
@pytest.mark.cases(8)
def test_every_executor_names_the_same_update_at_the_time_when_it_was_run(executor, storage, mode):
    chosen = {"name": executor, "storage": storage}
    scenario = tiny(**{**DIVERGES, **MODES[mode], "executor": chosen})
    node, update, time, _ = refusal(scenario)

    assert (node, update, time) == refusal(
        {**scenario, "executor": {"name": "reference", "storage": storage}}
    )[:3]
    segments = []
    for _ in prepare(load_scenario(scenario)).schedule.play(segments.append):
        pass
    tape = concat_segments(segments)
    kind = TapeEvent.DELIVER if mode == "gossip-receive" else TapeEvent.WAKE
    times = tape.time[(tape.node == node) & (tape.kind == kind)]
    if mode == "gossip-receive":  # without latency messages have no events of their own
        times = np.sort(tape.sent_at[tape.receiver == node])
    assert time == pytest.approx(times[update], rel=1e-5)


@pytest.mark.parametrize("mode", slow_except_first(["gossip", "star", "clients"]))
def test_shards_end_with_the_same_message(mode, tmp_path):
    scenario = tiny(**{**DIVERGES, **MODES[mode]})
    alone = refusal(scenario)
    assert refusal(divided(scenario, 2), out=tmp_path / "run", make_shard_group=Threads) == alone


@pytest.mark.slow
def test_where_every_reader_leaves_such_models_out_the_run_continues():
    aggregation = {"name": "synchronous", "invalid": "discard"}
    prepared = carried_out(tiny(**DIVERGES, protocol={**STAR, "merge": "median", "aggregation": aggregation}))
    assert prepared.seams.reducer.report()["n_discarded"] > 0


@pytest.mark.parametrize("name", [*EXECUTORS, ON_DEVICE])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found_wherever_it_is(name, value):
    executor = make_executor(name, World().workload())
    layout, rows = executor.work.layout, executor.work.arena.rows
    places = (0, layout.size // 2, layout.size - 1)
    for row, column in enumerate(places, start=1):
        rows[row, column] = value
    found = executor.are_finite(np.array([4, 1, 2, 3, 0]), np.array([4, 1, 2, 3, 0], np.int32))
    assert found.tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("model", "storage"), [("gmf", "float32"), ("prme-g", "float32"), ("prme-g", "float16")]
)
def test_the_compiled_executor_knows_which_trained_models_are_finite(model, storage):
    executor = make_executor("fused", World(model=model, storage=storage).workload())
    program = Program.of_updates(np.arange(3, dtype=np.int32), np.array([0, 0, -1], np.int32))
    executor.work.arena.rows[1, 0] = np.nan
    executor.run(program, np.arange(3))
    assert program.finite.tolist() == [True, False, True]  # the last one has not trained


def test_models_with_noise_are_checked_after_it():
    executor = make_executor("fused", World().workload())
    executor.work.node_settings.update_clip[0] = 1.0
    program = Program.of_updates(np.arange(2, dtype=np.int32), np.zeros(2, np.int32))
    run_with_noise(executor)(program, np.arange(2))
    assert program.finite.tolist() == [False, True]


def test_the_error_reaches_other_processes_whole():
    error = NotFiniteError(3, 4, 2, 1.5)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.node, again.update, again.time) == (str(error), 3, 4, 1.5)


def test_large_finite_numbers_are_finite():
    rows = np.full((2, 9), np.finfo(np.float32).max, np.float32)
    assert finite_rows(rows, np.arange(2)).all()
    halves = np.full((2, 9), 65504, np.float16)
    assert finite_rows(halves, np.arange(2)).all()
    halves[1, 8] = np.inf
    assert finite_rows(halves, np.arange(2)).tolist() == [True, False]
