"""The study end to end at its tiny scale: run, killed, resumed, reported."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossiprec import open_run

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("table5-ml100k-authors100", "fig6-ml100k-fedavg-dp-eps-inf", "fig6-ml100k-rand-gossip-dp-eps-inf")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))
DEADLINE_S = 120
REPORTS = ("report.md", "report.html", "findings.md", "findings.html", "cells.csv")


def command(out, *options):
    return [sys.executable, "-m", "analysis.cda_paper", "--out", str(out), *options]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def study(out, *options):
    """Run the study in a process of its own, as a shell would."""
    return subprocess.run(
        command(out, *options),
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


def begun(out, *options):
    return subprocess.Popen(
        command(out, *options), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def wait_for(condition, process):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def run_path(out, place):
    return out / "runs" / f"{NAMES[place]}-s1"


def numbers(out):
    """Return the attacks and utilities of every run: what must not depend on how the study went."""
    found = {}
    for place, name in enumerate(NAMES):
        run = open_run(run_path(out, place))
        found[name] = (run.summary["attacks"], run.summary["utility"], run.manifest["log_digest"])
    return found


def children():
    """Return the command lines of the processes that run a part of some study."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_bytes().decode().split("\0"))
            except OSError:
                continue
    return [line for line in found if "analysis.cda_paper.tied" in line]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "runs: 3 made in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == [
        name for name in REPORTS if name != "cells.csv"
    ]
    assert all((out / name).is_file() for name in REPORTS)
    assert {open_run(run_path(out, place)).manifest["status"] for place in range(3)} == {"complete"}


def test_the_cells_are_the_numbers_of_the_runs(whole):
    out, _ = whole
    wanted = next(
        attack["max_aac"]
        for attack in open_run(run_path(out, 0)).summary["attacks"]
        if (attack["observer"], attack["relevance"], attack["community_size"]) == ("single", "ndcg", 5)
    )
    with (out / "cells.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] == "100 users, K = 5"]
    (cell,) = [
        row
        for row in rows
        if (row["table"], row["column"], row["relevance"]) == ("table5", "max_aac", "ndcg")
    ]
    assert float(cell["measured"]) == pytest.approx(100 * wanted)
    assert (cell["published"], cell["dataset"], cell["seed"]) == ("14.6", "movielens-100k", "1")


def test_the_report_says_what_is_missing_and_that_it_is_tiny(whole):
    out, _ = whole
    report = (out / "report.md").read_text()
    assert "no number here says anything about" in report
    assert "3 of " in report
    assert "- `table4-gowalla100-fedavg-gmf`: not run yet" in report
    assert "the print at hand has no table for this data set" in report
    assert (
        "Figure 2. Accuracy over the adversaries at the round of the largest AAC, full models. Not drawn"
        in report
    )


def test_the_figures_of_the_runs_are_drawn_and_shown(whole):
    out, _ = whole
    assert {path.name for path in (out / "figures").iterdir()} == {"fig6.csv", "fig6.png", "fig6.svg"}
    assert "figures/fig6.svg" in (out / "report.html").read_text()


def test_a_finished_study_runs_nothing_again(whole):
    out, _ = whole
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    result = study(out, *TINY, "--threads", "1")  # threads change no result, so no run either
    assert result.returncode == 0
    assert "3 finished before" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == before


def test_a_killed_study_repeats_no_finished_run_and_ends_with_the_same_numbers(whole, tmp_path):
    out = tmp_path / "killed"
    process = begun(out, *TINY)
    wait_for((run_path(out, 1) / "manifest.json").exists, process)
    process.kill()
    process.communicate()
    finished = open_run(run_path(out, 0)).manifest
    assert finished["status"] == "complete"
    assert json.loads((run_path(out, 1) / "manifest.json").read_bytes())["status"] == "running"

    result = study(out, *TINY)

    assert result.returncode == 0, result.stderr
    assert "1 finished before" in result.stderr
    assert "2 made in" in result.stderr
    assert open_run(run_path(out, 0)).manifest == finished
    assert numbers(out) == numbers(whole[0])
    assert (out / "cells.csv").read_bytes() == (whole[0] / "cells.csv").read_bytes()


def test_the_run_of_a_killed_study_ends_with_it(tmp_path):
    process = begun(tmp_path / "killed", *TINY)
    wait_for(lambda: any(str(tmp_path) in " ".join(line) for line in children()), process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while any(str(tmp_path) in " ".join(line) for line in children()):
        assert time.monotonic() < deadline, "the run goes on"
        time.sleep(0.05)
    manifest = run_path(tmp_path / "killed", 0) / "manifest.json"
    assert not manifest.exists() or json.loads(manifest.read_bytes())["status"] == "running", (
        "it went on to its end"
    )


def test_ctrl_c_ends_the_study_and_its_run_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "interrupted"
    process = begun(out, *TINY)
    wait_for(lambda: any(str(tmp_path) in " ".join(line) for line in children()), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert f"interrupted; the same command resumes the study in {out}" in errors
    assert "Traceback" not in errors
    assert not any(str(tmp_path) in " ".join(line) for line in children())


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path):
    """Sixteen letters for a data file: that run cannot be, the study can."""
    data = tmp_path / "data"
    (data / "ml-100k").mkdir(parents=True)
    (data / "ml-100k" / "u.data").write_text("sixteen letters!\n")
    result = study(
        tmp_path / "out", "--data", str(data), "--seeds", "1", "--only", f"{NAMES[0]},{NAMES[1]},gowalla"
    )
    assert result.returncode == 1
    assert f"failed: {NAMES[0]}-s1: " in result.stderr
    assert f"failed: {NAMES[1]}-s1: " in result.stderr
    assert "u.data" in result.stderr
    assert "6 not run for want of data, 2 failed" in result.stderr
    assert f"- `{NAMES[0]}`: failed: " in (tmp_path / "out" / "report.md").read_text()


def test_a_report_can_be_had_of_nothing(tmp_path):
    result = study(tmp_path / "out", "--scale", "tiny", "--report-only")
    assert result.returncode == 0
    assert "0 of " in (tmp_path / "out" / "report.md").read_text()


def test_a_dry_run_writes_nothing_and_says_the_commands(tmp_path):
    result = study(tmp_path / "out", *TINY, "--dry-run")
    assert result.returncode == 0
    assert "gossiprec simulate scenarios/cda_table5_ml100k_authors100.yaml" in result.stdout
    assert "3 runs for " in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "tabel5"), "did you mean 'table5'"),
        ((), "--data is missing"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
        (("--seeds", "0"), "found '0', must be a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
