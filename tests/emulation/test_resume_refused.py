"""Resuming where something is amiss: damaged checkpoints and logs, other code, other scenarios, a full disk."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest

from gossiprec.base.errors import LogError
from gossiprec.emulation import resume, simulate
from gossiprec.runs import checkpoints as checkpoints_module
from gossiprec.runs import open_run
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoints import read_checkpoint, read_stamp, write_checkpoint
from gossiprec.runs.lock import RunLock
from gossiprec.runs.record_format import MAGIC, read_record
from tests.emulation.ended_early import OFTEN, Patient, checkpoints, ended_early, often, outcome
from tests.eventlog.small_logs import file_size_limit
from tests.manifests import change_manifest
from tests.slow import slow_except_first


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return outcome(simulate(often(), out=tmp_path_factory.mktemp("runs") / "whole").path)


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    return ended_early(tmp_path_factory.mktemp("runs") / "early", often()).path


@pytest.fixture
def broken(early, tmp_path):
    """Return a test's own copy of a run that ended early."""
    return open_run(shutil.copytree(early, tmp_path / "run"))


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_passed_over_and_said(broken, whole):
    newest, before = checkpoints(broken)
    flip(newest, newest.stat().st_size // 2)
    progress = Patient()
    done = resume(broken.path, progress=progress)

    assert outcome(done.path) == whole
    assert done.manifest["resumed"][0]["time"] == float(before.stem)
    assert newest.name in progress.notes[0]
    assert "trying the previous checkpoint" in progress.notes[0]
    assert newest.name in done.manifest["notes"][0]


def test_two_damaged_checkpoints_are_both_named_and_nothing_is_touched(broken):
    for path in checkpoints(broken):
        flip(path, 100)
    before = (broken.path / "events.mplog").read_bytes()

    with pytest.raises(LogError, match=r"(?s)00000003\.ckpt: damage.*00000002\.ckpt: damage.*--from-start"):
        resume(broken.path)
    assert (broken.path / "events.mplog").read_bytes() == before
    assert open_run(broken.path).status == "interrupted"


@pytest.mark.slow
def test_without_a_checkpoint_the_next_step_is_said(tmp_path, whole):
    run = simulate(often(checkpoint={"minutes": None}), out=tmp_path / "run", progress=Patient(3))

    with pytest.raises(LogError, match=r"has no checkpoint.*--from-start"):
        resume(run.path)
    assert outcome(resume(run.path, from_start=True).path) == whole


@pytest.mark.slow
def test_an_edited_scenario_is_refused(broken):
    scenario = broken.path / "scenario.yaml"
    scenario.write_text(scenario.read_text().replace("seed: 5", "seed: 6"))

    for force in (False, True):
        with pytest.raises(LogError, match="was changed after the run began"):
            resume(broken.path, force=force)
    assert resume(broken.path, from_start=True).manifest["seed"] == 6


@pytest.mark.slow
def test_a_scenario_edited_while_the_run_goes_on_is_refused_too(tmp_path):
    class Editor(Patient):
        def tick(self, status):
            scenario = tmp_path / "run" / "scenario.yaml"
            scenario.write_text(scenario.read_text().replace("seed: 5", "seed: 6"))
            super().tick(status)

    simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=Editor(4))
    with pytest.raises(LogError, match="was changed after the run began"):
        resume(tmp_path / "run")


@pytest.mark.slow
def test_another_code_version_is_refused_unless_forced(broken, whole, monkeypatch):
    module = importlib.import_module("gossiprec.emulation.run.execution")
    monkeypatch.setattr(module, "scenario_code_version", lambda scenario: "another")

    with pytest.raises(LogError, match=r"was written by code version .*, this is another.*--force"):
        resume(broken.path)
    assert outcome(resume(broken.path, force=True).path) == whole


def rewrite(path, change):
    """Write a checkpoint as another version of the code would have; `change` gets its stamp and state."""
    stamp, state = read_checkpoint(path, limit_bytes=2**30)
    stamp = {**asdict(stamp), "code": "another"}
    change(stamp, state)
    with path.open("wb", buffering=0) as file:
        write_checkpoint(file, CheckpointStamp(**stamp), state)


OTHERS = {
    "a table too few": (
        lambda stamp, state: stamp["tables"].pop("findings.csv"),
        "with the tables metrics.csv, att",
    ),
    "a table too many": (
        lambda stamp, state: stamp["tables"].update(more=[0, 0]),
        r"findings.csv, more, not metrics",
    ),
    "a part too few": (
        lambda stamp, state: state.pop("attack_results"),
        "the state lacks attack_results and has nothing in",
    ),
    "a part too many": (
        lambda stamp, state: state.update(serving={}),
        "lacks nothing and has serving in excess",
    ),
    "an entry too few": (
        lambda stamp, state: state["attack_results"].pop("kept"),
        "attack_results lacks kept and",
    ),
    "an entry too many": (
        lambda stamp, state: state["planner"].update(more=1),
        "planner lacks nothing and has more",
    ),
    "an attack too few": (lambda stamp, state: state["attacks"].pop(), "ValueError: zip"),
    "less of an attack": (lambda stamp, state: state["attacks"][0].clear(), "KeyError"),
    "a time too many": (lambda stamp, state: state["times"].update(more=1.0), "TypeError.*'more'"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_with_other_entries_is_refused_even_if_forced(other, broken):
    change, told = OTHERS[other]
    for path in checkpoints(broken):
        rewrite(path, change)

    with pytest.raises(LogError, match=f"(?s){told}.*--from-start"):
        resume(broken.path, force=True)


@pytest.mark.parametrize(
    "spoil",
    slow_except_first(
        [lambda path: path.write_bytes(b""), lambda path: rewrite(path, OTHERS["a part too few"][0])]
    ),
    ids=["empty", "other entries"],
)
def test_from_start_runs_again_where_no_checkpoint_can_be_used(spoil, broken, whole):
    for path in checkpoints(broken):
        spoil(path)

    assert outcome(resume(broken.path, from_start=True).path) == whole


def test_a_log_damaged_before_the_checkpoint_is_not_continued(broken):
    log = broken.path / "events.mplog"
    header = read_record(memoryview(log.read_bytes()), len(MAGIC))
    flip(log, header.end + 100)

    with pytest.raises(LogError, match=r"events\.mplog cannot be continued: damage at byte"):
        resume(broken.path)


@pytest.mark.slow
def test_a_log_damaged_after_the_older_checkpoint_goes_on_from_there(broken, whole):
    newest, before = checkpoints(broken)
    flip(broken.path / "events.mplog", (read_stamp(newest).log_bytes + read_stamp(before).log_bytes) // 2)

    assert outcome(resume(broken.path).path) == whole


@pytest.mark.parametrize("table", ["metrics.csv", "attacks.csv"])
def test_an_edited_table_is_not_continued(table, broken):
    flip(broken.path / table, 70)

    with pytest.raises(LogError, match=f"{table} cannot be continued"):
        resume(broken.path)


@pytest.mark.slow
def test_a_run_that_is_alive_is_left_alone(broken, monkeypatch):
    monkeypatch.setattr("gossiprec.runs.lock.TIMEOUT_S", 0.05)
    change_manifest(broken.path, status="running")
    alive = RunLock(broken.path / "events.mplog")
    try:
        assert open_run(broken.path).status == "running"
        with pytest.raises(LogError, match="is in use by a running process"):
            resume(broken.path)
        with pytest.raises(LogError, match="is in use by a running process"):
            simulate(often(checkpoint=OFTEN), out=broken.path, overwrite=True)
    finally:
        alive.close()
    assert open_run(broken.path).status == "killed"
    assert resume(broken.path).status == "complete"


def test_overwriting_a_run_deletes_its_checkpoints(broken):
    run = simulate(often(checkpoint={"minutes": None}), out=broken.path, overwrite=True, progress=Patient(2))

    assert checkpoints(run) == []


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def check_the_run_went_on(run, progress, whole, reason):
    assert outcome(run.path) == whole
    assert len(progress.notes) == 1
    assert reason in progress.notes[0]
    assert run.manifest["notes"] == progress.notes == run.summary["notes"][:1]  # then notes on utility


@pytest.mark.slow
def test_a_full_disk_costs_the_checkpoint_and_not_the_run(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(checkpoints_module, "write_checkpoint", full)
    progress = Patient()
    run = simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=progress)

    check_the_run_went_on(run, progress, whole, "No space left on device")
    assert not (run.path / "checkpoints").exists()


@pytest.mark.slow
def test_a_file_that_may_not_grow_leaves_no_half_checkpoint(tmp_path, whole):
    """The log and the tables are smaller than the limit, a checkpoint is larger."""
    progress = Patient()
    with file_size_limit(40_000):
        run = simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=Patient(4))
        assert list((run.path / "checkpoints").iterdir()) == []
        run = simulate(often(checkpoint=OFTEN), out=tmp_path / "again", progress=progress)

    check_the_run_went_on(run, progress, whole, "File too large")


@pytest.mark.slow
def test_a_writer_that_is_killed_costs_one_checkpoint(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(checkpoints_module, "write_checkpoint", lambda *_: os.kill(os.getpid(), 9))
    progress = Patient()
    run = simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=progress)

    check_the_run_went_on(run, progress, whole, "ended with status -9")


KILLER = """
import os, signal, sys
from gossiprec.emulation import simulate
from gossiprec.runs import checkpoint_format
from tests.emulation.ended_early import OFTEN, Patient, often

write = checkpoint_format.write_block

def dying(file, flat, block):
    if "00000005" in str(file.name) and file.tell() > 1000:  # some of it is written
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return write(file, flat, block)

checkpoint_format.write_block = dying
simulate(often(checkpoint=OFTEN), out=sys.argv[1], progress=Patient())
"""


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_a_checkpoint_is_told_as_such_and_resumed(whole, tmp_path):
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

    done = resume(out)
    assert outcome(done.path) == whole
    assert done.manifest["resumed"][0]["time"] == 4.0
    assert done.manifest["writer"]["process"] == os.getpid()


@pytest.mark.slow
def test_an_attack_that_cannot_be_noted_costs_the_checkpoints_and_says_so(tmp_path, whole, monkeypatch):
    from gossiprec.adversaries.attacks import Attack
    from gossiprec.adversaries.attacks.cda import CDA

    monkeypatch.setattr(CDA, "state", Attack.state)
    progress = Patient()
    run = simulate(often(checkpoint=OFTEN), out=tmp_path / "run", progress=progress)

    check_the_run_went_on(run, progress, whole, "no checkpoints: the attack CDA has no state()")


@pytest.mark.slow
def test_resuming_leaves_a_trace_in_the_manifest(broken):
    begun = json.loads((broken.path / "manifest.json").read_text())
    done = resume(broken.path).manifest

    assert done["started"] == begun["started"]
    assert [set(entry) for entry in done["resumed"]] == [{"at", "time", "code", "processor", "target"}]
