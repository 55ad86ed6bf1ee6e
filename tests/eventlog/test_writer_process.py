"""How a run stands whose process may have gone: killed, still running, or nobody here can tell."""

from __future__ import annotations

import json
import os
import platform

import pytest
from click.testing import CliRunner
from test_run_directory import new_run

from gossiprec.cli.log import log
from gossiprec.runs import lock, open_run
from gossiprec.runs.lock import resolve_status

HERE = lock.process_identity()
REBOOTED = {**HERE, "boot": "another start"}
RENAMED = {**HERE, "host": "elsewhere"}
ELSEWHERE = {"host": "elsewhere", "boot": "another start", "process": 7}
UNTOLD = {"host": "elsewhere", "boot": None, "process": 7}


@pytest.mark.parametrize(
    ("writer", "status"),
    [
        (HERE, "killed"),
        (REBOOTED, "killed"),
        (RENAMED, "killed"),
        (None, "killed"),
        (ELSEWHERE, "unknown"),
        (UNTOLD, "unknown"),
    ],
)
def test_only_of_other_machines_it_is_not_known(writer, status):
    assert resolve_status(writer) == status


def test_two_machines_that_tell_no_start_are_not_taken_for_one(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "_BOOT", tmp_path / "none")
    assert lock.process_identity()["boot"] is None
    assert resolve_status(UNTOLD) == "unknown"


def stats(path, *options):
    ran = CliRunner().invoke(log, ["stats", str(path), *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def stands(path, **manifest):
    """Return how a run stands, after a change of its manifest, as the reader and ``log stats`` tell it."""
    place = path / "manifest.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | manifest))
    run, facts = open_run(path), json.loads(stats(path, "--json"))
    assert (run.status, run.status_text) == (facts["status"], facts["standing"])
    assert f"status:     {run.status_text}\n" in stats(path)
    return run.status, run.status_text


@pytest.mark.slow
def test_a_run_is_told_by_the_process_that_writes_it(tmp_path):
    run = new_run(tmp_path / "run")
    process = f"process {os.getpid()} on {platform.node()}"
    assert stands(run.path) == ("running", f"running ({process})")

    run.lock.close()
    assert stands(run.path) == ("killed", f"killed ({process} has ended)")
    assert stands(run.path, writer=ELSEWHERE) == (
        "unknown",
        f"unknown whether still running: it is written by process 7 on elsewhere, but this is {platform.node()}",
    )
    assert stands(run.path, writer=None) == ("killed", "killed")
    assert stands(run.path, writer=HERE, status="failed") == ("failed", "failed")


def test_a_log_by_itself_stands_nowhere(tmp_path):
    run = new_run(tmp_path / "run")
    run.finish("complete")
    assert "status" not in stats(run.path / "events.mplog")
    assert "status:     complete\n" in stats(run.path)
