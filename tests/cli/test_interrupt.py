"""Ctrl-C during a run."""

import json
import signal
import subprocess
import sys
import time

import pytest
from calls import ROOT, SMOKE, call, environment

from gossiprec import open_run
from gossiprec.eventlog.checkpoint_folder import CheckpointFolder
from gossiprec.eventlog.checkpoints import read_stamp
from gossiprec.eventlog.verify import verify

LONG = (
    "--set",
    "plots=true",
    "--set",
    "protocol.wakes=1000",
    "--set",
    "evaluate.every=1",
    "--executor",
    "reference",
)
ENDLESS = ("--set", "protocol.wakes=300000")
DEADLINE_S = 60


def interrupted_after(tmp_path, begun, *options, by=signal.SIGINT):
    """Start a run that would last for hours, press Ctrl-C as soon as `begun(directory)`, and wait."""
    out = tmp_path / "run"
    run = subprocess.Popen(
        [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *LONG, "--out", str(out), *options],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not begun(out):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, "the run did not begin"
            time.sleep(0.05)
        run.send_signal(by)
        output, errors = run.communicate(timeout=DEADLINE_S)
    finally:
        run.kill()
    return run.returncode, output, errors, out


def reported(out):
    table = out / "attacks.csv"
    return table.exists() and table.read_text().count("\n") > 4


def test_a_run_keeps_what_it_found_before_ctrl_c(tmp_path):
    code, output, errors, out = interrupted_after(tmp_path, reported)

    assert code == 130
    assert "Traceback" not in errors
    assert "interrupted at virtual time" in errors
    assert str(out) in errors
    assert "smoke, seed 1: interrupted" in output
    run = open_run(out)
    assert run.manifest["status"] == run.summary["status"] == "interrupted"
    assert verify(out / "events.mplog").complete
    last = run.metrics["time"][-1]
    assert (
        run.summary["virtual_time"] == last == run.attacks["time"][-1] == run.events("evaluate")["time"][-1]
    )
    assert 0 < run.summary["node_updates"] == len(run.events("update")["time"])
    assert (out / "curves.png").exists()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_run_that_is_asked_to_end_can_be_resumed_from_there(by, tmp_path):
    short = ("--set", "protocol.wakes=60", "--no-plots")
    code, _, errors, out = interrupted_after(tmp_path, reported, *short, by=by)
    assert code == 130
    assert "note: stopping at the next report" in errors
    assert f"go on with it: gossiprec resume {out}" in errors
    reached = open_run(out).summary["virtual_time"]
    assert read_stamp(CheckpointFolder(out).newest_first()[0]).time == reached

    assert call("resume", out, "--no-plots").returncode == 0
    assert open_run(out).manifest["resumed"][0]["time"] == reached
    whole = call("simulate", SMOKE, *LONG, *short, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert open_run(out).manifest["log_digest"] == open_run(tmp_path / "whole").manifest["log_digest"]


def test_without_checkpoints_it_says_how_to_begin_again(tmp_path):
    none = ("--set", "checkpoint={minutes: null}", "--no-plots")
    _, _, errors, out = interrupted_after(tmp_path, reported, *none)
    assert f"gossiprec resume {out} --from-start" in errors


def test_json_of_an_interrupted_run_is_one_object(tmp_path):
    code, output, _, out = interrupted_after(tmp_path, reported, "--json", "--no-plots")
    assert code == 130
    assert json.loads(output)["status"] == "interrupted"
    assert json.loads(output)["run"] == str(out)


def test_ctrl_c_before_the_run_begins_leaves_nothing_behind(tmp_path):
    out = tmp_path / "run"
    run = subprocess.Popen(
        [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *ENDLESS, "--out", out],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert run.stderr.readline().endswith(" ...\n")
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=DEADLINE_S)
    finally:
        run.kill()
    assert (run.returncode, output, errors.strip()) == (130, "", "interrupted")
    assert not out.exists()
