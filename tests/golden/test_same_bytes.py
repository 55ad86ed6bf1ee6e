"""The same scenario gives the same bytes: in another process, on other threads, in waves of another size."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import gossiprec
from gossiprec.compute.executors import EXECUTORS

SCENARIO = {
    "name": "tiny",
    "seed": 3,
    "dataset": {
        "name": "synthetic",
        "users": 24,
        "items": 60,
        "interactions": 600,
        "split": {"name": "leave_last_k", "test": 5, "validation": 0},
    },
    "model": {"name": "gmf", "dim": 8},
    "training": {"batch_size": 16},
    "network": {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1},
    "observers": [
        {
            "name": "cda",
            "who": who,
            "community_size": 5,
            "momentum": [0.9, 0],
            "relevance": ["standardized", "ndcg"],
            "reference_items": 20,
            **more,
        }
        for who, more in (("single", {"nodes": "all"}), ("coalition", {"fraction": 0.25}))
    ],
    "evaluate": {"every": 2, "metrics": ["hr@5", "ndcg@5"]},
}
GOSSIP = {"name": "rand-gossip", "fanout": 2, "train_on": "receive", "wakes": 4}
FEDAVG = {"name": "fedavg", "rounds": 4, "participation": 0.5}
COORDINATOR = [{"name": "cda", "who": "coordinator", "community_size": 5, "reference_items": 20}]


def scenario(**sections):
    """Return a small scenario as plain data."""
    if sections.get("protocol") == FEDAVG:
        sections = {"observers": COORDINATOR, **sections}
    return {**SCENARIO, "protocol": GOSSIP, **sections}


def outcome(path):
    """Return what a run directory says of events, models and attacks."""
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    return [
        manifest["log_digest"],
        (path / "metrics.csv").read_text(),
        (path / "attacks.csv").read_text(),
    ]


def simulated(path, **sections):
    gossiprec.simulate(scenario(**sections), out=path)
    return outcome(path)


IN_ANOTHER_PROCESS = """
import json, sys, gossiprec
for out, scenario in json.loads(sys.argv[1]).items():
    gossiprec.simulate(scenario, out=out)
"""


def simulated_elsewhere(folder, *, hash_seed, threads, executors):
    """Return what another process finds, by executor."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    runs = {str(folder / name): scenario(executor={"name": name, "threads": 2}) for name in executors}
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, json.dumps(runs)]
    environment = {**os.environ, **counts, "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True)
    return {name: outcome(folder / name) for name in executors}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [GOSSIP, FEDAVG], ids=lambda p: p["name"])
@pytest.mark.parametrize("executor", list(EXECUTORS))
@pytest.mark.cases(2)
def test_threads_and_wave_size_change_no_byte(executor, protocol, tmp_path):
    first = simulated(tmp_path / "first", protocol=protocol, executor={"name": executor, "threads": 1})
    assert len(first[2].splitlines()) > 2

    for threads, wave_size in [(2, "unlimited"), (2, 1), (1, 64)]:
        chosen = {"name": executor, "threads": threads, "wave_size": wave_size}
        out = tmp_path / f"{threads}-{wave_size}"
        assert simulated(out, protocol=protocol, executor=chosen) == first, (threads, wave_size)


@pytest.mark.slow
def test_another_process_gives_the_same_bytes(tmp_path):
    executors = ("reference", "fused")

    one = simulated_elsewhere(tmp_path / "one", hash_seed=0, threads=1, executors=executors)
    two = simulated_elsewhere(tmp_path / "two", hash_seed=12345, threads=2, executors=executors)

    for name in executors:
        assert one[name] == two[name], name


@pytest.mark.slow
@pytest.mark.parametrize("executor", [name for name in EXECUTORS if name != "reference"])
def test_executors_log_the_same_events(executor, tmp_path):
    """Model values differ by rounding; who met whom, and when, does not."""
    expected = simulated(tmp_path / "expected", executor={"name": "reference"})
    found = simulated(tmp_path / "found", executor={"name": executor})

    assert found[0] == expected[0]


@pytest.mark.slow
def test_an_observer_more_changes_no_event_and_no_model(tmp_path):
    chosen = {"executor": {"name": "reference"}}
    watched, alone = (
        simulated(tmp_path / "watched", **chosen),
        simulated(tmp_path / "alone", observers=[], **chosen),
    )

    assert watched[:2] == alone[:2]


@pytest.mark.slow
def test_another_seed_changes_everything(tmp_path):
    chosen = {"executor": {"name": "reference"}}
    one, two = simulated(tmp_path / "one", **chosen), simulated(tmp_path / "two", seed=4, **chosen)

    assert all(a != b for a, b in zip(one, two, strict=True))
