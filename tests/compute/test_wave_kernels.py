"""The compiled loop over waves: the same bytes as the loop in Python, and what ends it."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from gossiprec import simulate
from gossiprec.base.machine import ThreadPool
from gossiprec.compute import wave_kernels, waves
from gossiprec.compute.waves import NotFiniteError
from gossiprec.native.numba_support import is_plain

SMOKE = yaml.safe_load((Path(__file__).resolve().parents[2] / "scenarios" / "smoke.yaml").read_text())
DEADLINE_S = 60.0
pytestmark = pytest.mark.skipif(is_plain(), reason="the plain path has no compiled loop over waves")


@pytest.fixture
def lanes(monkeypatch):
    """Use the compiled loop for every plan; return the waves that each call of it ran."""
    monkeypatch.setattr(waves, "LEAST_TASKS", 1)
    monkeypatch.setattr(waves, "LEAST_WAVES", 1)
    ran, run = [], wave_kernels.Lanes.run

    def noted(self, threads, first):
        reached, seconds = run(self, threads, first)
        ran.append((first, reached, seconds))
        return reached, seconds

    monkeypatch.setattr(wave_kernels.Lanes, "run", noted)
    return ran


def bytes_of(folder, *, threads=2, **changes):
    settings = {"executor": {"name": "fused", "threads": threads}, **changes}
    run = simulate({**SMOKE, **settings}, out=folder)
    tables = [(run.path / name).read_bytes() for name in ("metrics.csv", "attacks.csv")]
    return run.log.digest, hashlib.sha256(b"".join(tables)).hexdigest(), run.summary


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The run with the loop in Python."""
    return bytes_of(tmp_path_factory.mktemp("plain") / "run")[:2]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_compiled_loop_gives_the_bytes_of_the_loop_in_python(
    plain, lanes, tmp_path, monkeypatch, threads
):
    monkeypatch.setattr(wave_kernels, "MOST_TASKS", 100)
    log, tables, summary = bytes_of(tmp_path / "run", threads=threads)
    assert (log, tables) == plain
    assert len(lanes) > 5  # a plan of 48 updates and more is divided
    assert all(first < reached for first, reached, _ in lanes)
    assert all(seconds > 0 for seconds in summary["attack_seconds"].values())


SOME = {"name": "cda", "community_size": 5, "reference_items": 20, "momentum": [0, 0.9]}
COORDINATOR = {**SOME, "who": "coordinator"}
BOTH = [{**SOME, "who": "coalition", "fraction": 0.2}, {**SOME, "who": "single", "nodes": "all"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"observers": []},
        {"observers": BOTH},
        {"protocol": {"name": "fedavg", "rounds": 20}, "observers": [COORDINATOR]},
    ],
    ids=["none", "without momentum, too", "a coordinator's pool"],
)
def test_other_observers_and_protocols_have_the_same_bytes_in_both_loops(
    lanes, tmp_path, monkeypatch, changes
):
    compiled = bytes_of(tmp_path / "compiled", **changes)[:2]
    n_calls = len(lanes)
    monkeypatch.setattr(waves, "LEAST_TASKS", 10**9)
    assert bytes_of(tmp_path / "plain", **changes)[:2] == compiled
    assert len(lanes) == n_calls > 0


@pytest.mark.slow
def test_a_hook_without_a_compiled_form_is_shown_everything_by_the_loop_in_python(
    lanes, plain, tmp_path, monkeypatch
):
    monkeypatch.setattr("gossiprec.adversaries.attacks.cda.CDA.bind", lambda *about: None)
    assert bytes_of(tmp_path / "run")[:2] == plain
    assert not lanes


@pytest.mark.slow
def test_a_busy_pool_leaves_the_waves_to_the_loop_in_python(lanes, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(ThreadPool, "run_together", lambda *about: False)
    assert bytes_of(tmp_path / "run")[:2] == plain
    assert {(first, reached) for first, reached, _ in lanes} == {(0, 0)}


def test_the_compiled_loop_names_the_same_model_that_is_not_finite(lanes, tmp_path, monkeypatch):
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(waves, "LEAST_TASKS", least)
        with pytest.raises(NotFiniteError) as raised:
            bytes_of(tmp_path / str(least), **{"training": {"optimizer": "sgd", "learning_rate": 1e30}})
        found.append((raised.value.node, raised.value.update, raised.value.time))
    assert found[0] == found[1]
    assert lanes


def test_an_interrupt_before_the_waves_lets_no_thread_wait(monkeypatch):
    seen = []

    def interrupted(shares, first, last, part, calls, gate, spent):
        if part == 0:
            raise KeyboardInterrupt
        deadline = time.monotonic() + DEADLINE_S
        while not gate[wave_kernels.BEGUN] and time.monotonic() < deadline:
            time.sleep(0.001)
        seen.append(int(gate[wave_kernels.BEGUN]))
        return first

    monkeypatch.setattr(wave_kernels, "run_waves", interrupted)
    nothing, offsets = np.zeros(0, np.int64), np.zeros(3, np.int64)
    shares = wave_kernels.Shares(nothing, offsets, offsets[:2], np.zeros(0, np.bool_), 2)
    with pytest.raises(KeyboardInterrupt):
        wave_kernels.Lanes(shares, ((), (), ()), ()).run(ThreadPool(2), 0)
    assert seen == [wave_kernels.NO]


def come_to_a_gate():
    """Return an empty gate for two threads, and a function that takes a thread to it and returns its last wave."""
    gate = np.zeros(wave_kernels.GATE, np.int64)
    shares = wave_kernels.Shares(
        np.zeros(0, np.int64), np.zeros(3, np.int64), np.zeros(2, np.int64), np.zeros(0, np.bool_), 2
    )
    arguments = (((), (), ()), gate, np.zeros((3, 0), np.int64))
    return gate, lambda part: wave_kernels.run_waves(shares, 0, 1, part, *arguments)


def test_two_threads_that_come_together_run_all_waves():
    _, come = come_to_a_gate()
    ends = []
    threads = [threading.Thread(target=lambda part=part: ends.append(come(part))) for part in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [1, 1]


def test_a_thread_that_stays_alone_gives_up_and_so_does_one_that_comes_later():
    gate, come = come_to_a_gate()
    assert come(0) == 0  # after `PATIENCE` looks, about a second
    assert gate[wave_kernels.BEGUN] == wave_kernels.NO
    assert come(1) == 0
