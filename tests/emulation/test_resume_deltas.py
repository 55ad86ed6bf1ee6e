"""Runs with checkpoints of what has changed alone go on to the same bytes, whatever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gossiprec.emulation import resume, simulate
from gossiprec.runs import checkpoint_format, open_run
from gossiprec.runs import checkpoints as checkpoint_files
from gossiprec.runs.checkpoints import base_tick
from tests.emulation.ended_early import OFTEN, Patient, checkpoints, ended_early, often, outcome
from tests.emulation.test_resume import CITY, COALITIONS, RUNS, SLOW
from tests.emulation.tiny_runs import SINGLE
from tests.slow import slow_except_first

FORCED = {"MIN_DELTA_BYTES": 0, "MAX_DELTA_FRACTION": 1.0}
SELDOM = {"observers": [SINGLE, COALITIONS]}
SESSIONS = {"online": {"law": "exponential", "mean": 4.0}, "offline": {"law": "exponential", "mean": 1.0}}
WORLDS = {
    "fused": {**SELDOM, "executor": {"name": "fused", "threads": 2}},
    "reference": {**SELDOM, "executor": {"name": "reference"}, "network": SLOW},
    "half": {**SELDOM, **CITY, "executor": {"name": "fused", "storage": "float16"}},
    "pers-gossip": {**RUNS["pers-gossip"], "executor": {"name": "fused"}},
    "away": {**SELDOM, "churn": {"model": "reset", "sessions": SESSIONS}, "executor": {"name": "fused"}},
    "fedavg": {**RUNS["fedavg"], "executor": {"name": "fused"}},
    "inboxes": {
        **SELDOM,
        "policies": [{"name": "robust-merge", "rule": "median", "nodes": {"fraction": 0.5}}],
        "executor": {"name": "fused"},
    },
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return what an unbroken run of the tiny scenario writes."""
    return outcome(simulate(often(), out=tmp_path_factory.mktemp("runs") / "whole").path)


@pytest.fixture(autouse=True)
def _deltas(monkeypatch):
    for name, value in FORCED.items():
        monkeypatch.setattr(checkpoint_files, name, value)


@pytest.mark.parametrize("world", slow_except_first(WORLDS))
@pytest.mark.cases(1)
def test_a_run_goes_on_from_a_delta(world, tmp_path):
    whole = simulate(often(**WORLDS[world]), out=tmp_path / "whole")
    run = ended_early(tmp_path / "broken", often(**WORLDS[world]), stop=5)
    assert base_tick(checkpoints(run)[0]) == 3

    assert outcome(resume(run.path).path) == outcome(whole.path)
    assert not (run.path / "checkpoints").exists()


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(("damaged", "time"), [(0, 3.0), (1, 2.0)])
@pytest.mark.cases(1)
def test_a_damaged_delta_costs_what_rests_on_it_and_is_said(damaged, time, whole, tmp_path):
    run = ended_early(tmp_path / "run", often(), stop=5)
    flip(checkpoints(run)[damaged])
    progress = Patient()
    done = resume(run.path, progress=progress)

    assert outcome(done.path) == whole
    assert done.manifest["resumed"][0]["time"] == time
    assert all("trying the previous checkpoint" in note for note in progress.notes)
    assert len(progress.notes) == damaged + 1


@pytest.mark.slow
def test_without_its_base_no_delta_is_used(whole, tmp_path, monkeypatch):
    """The base before the last is kept for that."""
    monkeypatch.setattr(checkpoint_files, "MAX_DELTAS", 1)
    run = ended_early(tmp_path / "run", often(), stop=5)
    newest, base, older = checkpoints(run)
    assert (base_tick(newest), base_tick(base), base_tick(older)) == (3, None, None)
    base.unlink()
    done = resume(run.path)

    assert outcome(done.path) == whole
    assert done.manifest["resumed"][0]["time"] == 1.0
    assert "00000003.ckpt: No such file" in done.manifest["notes"][0]


KILLER = """
import os, signal, sys
from gossiprec.emulation import simulate
from gossiprec.runs import checkpoint_format, checkpoints
from tests.emulation.ended_early import OFTEN, Patient, often

checkpoints.MIN_DELTA_BYTES, checkpoints.MAX_DELTA_FRACTION = 0, 1.0
write = checkpoint_format.write_block

def dying(file, flat, block):
    if block.tracked and len(block.stored) and block.stored_bytes < sum(block.extents[:, 1] - block.extents[:, 0]):
        if "00000005" in str(file.name):  # some of it is written
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    return write(file, flat, block)

checkpoint_format.write_block = dying
simulate(often(checkpoint=OFTEN), out=sys.argv[1], progress=Patient())
"""


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_a_delta_is_told_as_such_and_resumed(whole, tmp_path):
    out = tmp_path / "run"
    ended = subprocess.run(
        [sys.executable, "-c", KILLER, str(out)], env=os.environ, capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    run = open_run(out)
    assert run.manifest["status"] == "running"
    assert run.status == "killed"
    assert f"killed (process {run.manifest['writer']['process']} on " in run.status_text
    assert [path.name for path in (out / "checkpoints").glob(".00000005.ckpt.*.writing")]
    assert base_tick(checkpoints(run)[0]) == 3

    done = resume(out)
    assert outcome(done.path) == whole
    assert done.manifest["resumed"][0]["time"] == 4.0
    assert done.manifest["writer"]["process"] == os.getpid()


@pytest.mark.slow
def test_a_writer_killed_in_the_middle_of_a_delta_ends_no_run(whole, tmp_path, monkeypatch):
    write, parent = checkpoint_format.write_block, os.getpid()

    def dying(file, flat, block):
        if block.tracked and "00000004" in str(file.name):
            assert os.getpid() != parent
            os.kill(os.getpid(), signal.SIGKILL)
        return write(file, flat, block)

    monkeypatch.setattr(checkpoint_format, "write_block", dying)
    progress = Patient(7)
    run = simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=progress)

    assert "could not write a checkpoint at time 4 (its process ended with status -9)" in progress.notes[0]
    assert [int(path.stem) for path in checkpoints(run)][:3] == [6, 5, 3]  # 5 rests on 3
    assert base_tick(checkpoints(run)[1]) == 3
    assert outcome(resume(run.path).path) == whole
