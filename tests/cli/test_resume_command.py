"""``gossiprec resume`` and ``gossiprec replay`` as a shell sees them, and kill -9."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossiprec.cli.main import exit_code
from tests.cli.calls import ROOT, SMOKE, environment, invoke
from tests.manifests import change_manifest
from tests.processes import forks

OPTIONS = (
    "--executor",
    "reference",
    "--no-plots",
    "--set",
    "evaluate.every=1",
    "--set",
    "checkpoint.minutes=1e-9",
)
DEADLINE_S = 120


SHORT = ("--set", "protocol.wakes=3")


def simulate(out, *options):
    """Run the smoke scenario in this process."""
    command = ["simulate", SMOKE, *OPTIONS, *options, "--quiet", "--out", str(out)]
    assert exit_code(command) == 0
    return out


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return simulate(tmp_path_factory.mktemp("complete") / "run", *SHORT)


@pytest.fixture
def simulated(complete, tmp_path):
    """Return a copy of a complete run."""
    return Path(shutil.copytree(complete, tmp_path / "run"))


def killed_at(tmp_path, *options, reports):
    """Start a run in a process of its own, and kill it when it has a checkpoint of so many reports."""
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *OPTIONS, *options, "--out", str(out)]
    run = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_S
    while not any(int(path.stem) >= reports for path in out.glob("checkpoints/[0-9]*.ckpt")):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.002)
    run.kill()
    run.communicate()
    return out, run


def manifest(path):
    return json.loads((path / "manifest.json").read_text())


LONG = ("--set", "protocol.wakes=48")


@pytest.mark.slow
def test_a_run_killed_by_the_system_is_resumed_to_the_same_bytes(tmp_path, capsys):
    whole = simulate(tmp_path / "whole", *LONG)
    out, run = killed_at(tmp_path, *LONG, reports=4)
    assert run.returncode == -signal.SIGKILL
    assert manifest(out)["status"] == "running"

    code, printed, said = invoke(capsys, "resume", out, "--no-plots")

    assert code == 0
    assert "smoke, seed 1: complete" in printed
    assert "resuming at virtual time" in said
    assert manifest(out)["log_digest"] == manifest(whole)["log_digest"]
    for table in ("metrics.csv", "attacks.csv"):
        assert (out / table).read_bytes() == (whole / table).read_bytes()


@pytest.mark.slow
def test_a_complete_run_has_nothing_to_resume(simulated, capsys):
    told = f"{simulated} is complete: there is nothing to resume\n"
    assert invoke(capsys, "resume", simulated) == (0, told, "")


def test_what_cannot_be_resumed_is_one_message(tmp_path, simulated, capsys):
    run = simulated
    change_manifest(run, status="failed")
    code, _, said = invoke(capsys, "resume", run, "-q")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {run} has no checkpoint")

    code, _, said = invoke(capsys, "resume", tmp_path / "nothing")
    assert code == 2
    assert "is not a directory" in said


@pytest.mark.slow
def test_from_start_runs_it_again_in_place(simulated, capsys):
    run, facts = simulated, manifest(simulated)
    change_manifest(run, status="failed")

    assert invoke(capsys, "resume", run, "-q", "--from-start", "--no-plots")[0] == 0
    assert manifest(run)["log_digest"] == facts["log_digest"]


@pytest.mark.slow
def test_replay_confirms_a_run_and_tells_of_a_changed_one(simulated, capsys):
    run = simulated
    code, printed, _ = invoke(capsys, "replay", run, "-q")
    assert code == 0
    assert f"{run}: confirmed, digest {manifest(run)['log_digest']}" in printed

    (run / "metrics.csv").write_text((run / "metrics.csv").read_text().replace("hr@5", "hr@6", 1))
    code, printed, _ = invoke(capsys, "replay", run, "-q", "--json")
    found = json.loads(printed)
    assert code == 2
    assert found["confirmed"] is False
    assert found["difference"].startswith("metrics.csv, line 2")


@pytest.mark.slow
def test_no_process_is_left_behind(tmp_path):
    before = forks()
    simulate(tmp_path / "run", *SHORT)
    assert forks() <= before
