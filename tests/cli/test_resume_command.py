"""``gossiprec resume`` and ``gossiprec replay`` as a shell sees them, and kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.calls import ROOT, SMOKE, environment, invoke
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
DEADLINE_S = 60


@pytest.fixture
def simulated(tmp_path, capsys):
    """Run the smoke scenario; return the run directory."""

    def run(name, *options):
        assert invoke(capsys, "simulate", SMOKE, *OPTIONS, *options, "--out", tmp_path / name)[0] == 0
        return tmp_path / name

    return run


def killed_at(tmp_path, *options, reports, sent=signal.SIGKILL):
    """Start a run in a process of its own, and send it a signal when it has a checkpoint of so many reports."""
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *OPTIONS, *options, "--out", str(out)]
    run = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_S
    while not any(int(path.stem) >= reports for path in out.glob("checkpoints/[0-9]*.ckpt")):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.002)
    run.send_signal(sent)
    return out, run, run.communicate()[1]


def manifest(path):
    return json.loads((path / "manifest.json").read_text())


LONG = ("--set", "protocol.wakes=60")


def test_a_run_killed_by_the_system_is_resumed_to_the_same_bytes(tmp_path, simulated, capsys):
    whole = simulated("whole", *LONG)
    out, run, _ = killed_at(tmp_path, *LONG, reports=4)
    assert run.returncode == -signal.SIGKILL
    assert manifest(out)["status"] == "running"

    code, printed, said = invoke(capsys, "resume", out, "--no-plots")

    assert code == 0
    assert "smoke, seed 1: complete" in printed
    assert "going on from time" in said
    assert manifest(out)["log_digest"] == manifest(whole)["log_digest"]
    for table in ("metrics.csv", "attacks.csv"):
        assert (out / table).read_bytes() == (whole / table).read_bytes()


def test_ctrl_c_names_the_command_that_goes_on(tmp_path, capsys):
    out, run, said = killed_at(tmp_path, *LONG, reports=2, sent=signal.SIGINT)

    assert run.returncode == 130
    assert f"go on with it: gossiprec resume {out}" in said
    assert invoke(capsys, "resume", out, "-q", "--json")[0] == 0
    assert manifest(out)["status"] == "complete"


def test_a_complete_run_has_nothing_to_resume(simulated, capsys):
    run = simulated("run")

    assert invoke(capsys, "resume", run) == (0, f"{run} is complete: there is nothing to resume\n", "")


def test_what_cannot_be_resumed_is_one_message(tmp_path, simulated, capsys):
    run = simulated("run")
    facts = manifest(run)
    (run / "manifest.json").write_text(json.dumps({**facts, "status": "failed"}))
    code, _, said = invoke(capsys, "resume", run, "-q")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {run} has no checkpoint")

    code, _, said = invoke(capsys, "resume", tmp_path / "nothing")
    assert code == 2
    assert "is not a folder" in said


def test_from_start_runs_it_again_in_place(simulated, capsys):
    run = simulated("run")
    facts = manifest(run)
    (run / "manifest.json").write_text(json.dumps({**facts, "status": "failed"}))

    assert invoke(capsys, "resume", run, "-q", "--from-start", "--no-plots")[0] == 0
    assert manifest(run)["log_digest"] == facts["log_digest"]


def test_replay_confirms_a_run_and_tells_of_a_changed_one(simulated, capsys):
    run = simulated("run")
    code, printed, _ = invoke(capsys, "replay", run, "-q")
    assert code == 0
    assert f"{run}: confirmed, digest {manifest(run)['log_digest']}" in printed

    (run / "metrics.csv").write_text((run / "metrics.csv").read_text().replace("hr@5", "hr@6", 1))
    code, printed, _ = invoke(capsys, "replay", run, "-q", "--json")
    found = json.loads(printed)
    assert code == 2
    assert found["confirmed"] is False
    assert found["difference"].startswith("metrics.csv, line 2")


def test_no_process_is_left_behind(simulated):
    before = forks()
    simulated("run")
    assert forks() <= before
