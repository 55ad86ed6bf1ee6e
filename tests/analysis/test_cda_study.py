"""The study of the paper end to end at its tiny scale: run, stopped, resumed, reported."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.cda_paper import AUTHORS100, STUDY
from gossiprec import open_run
from tests.analysis.commands import REPORTS, ROOT, ran
from tests.slow import slow_except_first

pytestmark = pytest.mark.slow

NAMES = ("table5-ml100k-authors100", "fig6-ml100k-fedavg-dp-eps-inf", "fig6-ml100k-rand-gossip-dp-eps-inf")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))
DEADLINE_S = 240


def command(out, *options):
    return [sys.executable, "-m", "analysis.cda_paper", "--out", str(out), *options]


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.cda_paper", out, *options)


EACH = """
import contextlib, io, json, runpy, sys

told = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, out, err, code = ["analysis.cda_paper", *arguments], io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("analysis.cda_paper", run_name="__main__")
        except SystemExit as left:
            code = int(left.code or 0)
    told.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(told))
"""


def study_in(root, *each):
    """Run the study of another tree, once with each options, in one process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps([[str(option) for option in options] for options in each])],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [
        subprocess.CompletedProcess(options, *told)
        for options, told in zip(each, json.loads(ran.stdout), strict=True)
    ]


def runs_of(out):
    """Return the runs of a study by experiment."""
    with (out / "table.csv").open() as file:
        folders = {row["experiment"]: row["run"] for row in csv.DictReader(file)}
    return {name: open_run(out / "runs" / folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


@pytest.mark.full
def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "3 runs finished in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == ["table.parquet", "table.csv", *REPORTS]
    assert {name: run.manifest["status"] for name, run in runs_of(out).items()} == dict.fromkeys(
        NAMES, "complete"
    )


@pytest.mark.full
def test_the_cells_are_the_numbers_of_the_runs(whole):
    out, _ = whole
    wanted = next(
        attack["max_aac"]
        for attack in runs_of(out)[NAMES[0]].summary["attacks"]
        if (attack["observer"], attack["relevance"], attack["momentum"]) == ("single", "ndcg", 0.99)
    )
    with (out / "cells.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] == AUTHORS100]
    (cell,) = [
        row
        for row in rows
        if (row["table"], row["column"], row["relevance"]) == ("table5", "max_aac", "ndcg")
    ]
    assert float(cell["measured"]) == pytest.approx(100 * wanted)
    assert (cell["published"], cell["dataset"], cell["seed"]) == ("14.6", "movielens-100k", "1")


@pytest.mark.full
def test_the_report_says_what_is_missing_and_that_it_is_tiny(whole):
    report = (whole[0] / "report.md").read_text()
    assert "no number here says anything about" in report
    assert f"3 of {STUDY.count_runs(1, 'tiny')} runs are finished" in report
    (missing,) = [one for one in report.splitlines() if one.startswith("| not run yet |")]
    assert "table4-gowalla100-fedavg-gmf" in missing
    assert "- Gowalla: the published paper has no table for this data set" in report
    figure = "Figure 2. Accuracy over the adversaries at the round of the largest AAC, full models. Not drawn"
    assert figure in report


@pytest.mark.full
def test_the_figures_of_the_runs_are_drawn_and_shown(whole):
    out, _ = whole
    assert {path.name for path in (out / "figures").iterdir()} == {"fig6.csv", "fig6.png", "fig6.svg"}
    assert "figures/fig6.svg" in (out / "report.html").read_text()


@pytest.mark.full
def test_a_study_that_is_stopped_goes_on_to_the_same_report_without_repeating_a_finished_run(whole, tmp_path):
    """After the first run and with the second under way; once all is finished, nothing is run again."""
    out = tmp_path / "stopped"
    process = subprocess.Popen(
        command(out, *TINY), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + DEADLINE_S
    while len(list((out / "runs").glob("*/manifest.json"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the second run did not begin"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "1 of 3 runs are finished" in errors
    assert "Traceback" not in errors
    before = {run.path: run.manifest for run in runs_of(out).values()}

    result = study(out, *TINY)

    assert "2 runs finished in" in result.stderr
    assert "1 already finished" in result.stderr
    assert all(open_run(path).manifest == manifest for path, manifest in before.items())
    assert (out / "cells.csv").read_bytes() == (whole[0] / "cells.csv").read_bytes()
    assert "0 runs finished in" in study(out, *TINY).stderr


@pytest.mark.full
def test_a_result_of_a_kernel_that_has_changed_since_does_not_count(whole, tmp_path):
    """In a copy of the tree: one line of one kernel, neither the version nor the scenario."""
    root, out = tmp_path / "clone", tmp_path / "study"
    for folder in ("gossiprec", "analysis", "scenarios"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    kept = shutil.copytree(whole[0], tmp_path / "kept")
    shutil.copytree(whole[0], out)
    report = ("--scale", "tiny", "--seeds", "1", "--report-only")
    (before,) = study_in(root, ("--out", out, *report))
    assert f"3 of {STUDY.count_runs(1, 'tiny')} runs are finished" in _report_in(out, before)
    kernel = root / "gossiprec" / "numerics" / "merge.py"
    kernel.write_text(kernel.read_text() + "\n# changed\n")
    after, refused, again, keeping = study_in(
        root,
        ("--out", out, *report),
        ("--out", out, *TINY, "--dry-run"),
        ("--out", out, *TINY, "--dry-run", "--again"),
        ("--out", kept, *report, "--keep"),
    )
    assert f"0 of {STUDY.count_runs(1, 'tiny')} runs are finished" in _report_in(out, after)
    assert refused.returncode == 2
    assert "contains 3 of 3 runs made by code version" in refused.stderr
    assert "to run: 3, already finished: 0" in again.stdout
    assert f"3 of {STUDY.count_runs(1, 'tiny')} runs are finished" in _report_in(kept, keeping)


def _report_in(out, ran):
    assert ran.returncode == 0, ran.stderr
    return (out / "report.md").read_text()


@pytest.mark.full
def test_a_run_that_fails_is_reported_with_its_reason(tmp_path):
    """A folder stands where the run's own is to be, and cannot be removed from within."""
    out = tmp_path / "out"
    dry = study(out, *TINY, "--dry-run").stdout
    hash_ = next(line.split()[0] for line in dry.splitlines() if NAMES[0] in line)
    (out / "runs").mkdir(parents=True)
    (out / "study.json").write_text(json.dumps({"study": "cda-paper-tiny", "gossiprec": "0"}))
    (out / "runs" / hash_).write_text("in the way")
    result = study(out, "--scale", "tiny", "--seeds", "1", "--only", NAMES[0])
    assert result.returncode == 1
    assert f"failed: experiment={NAMES[0]}, seed 1: " in result.stderr
    (line,) = [one for one in (out / "report.md").read_text().splitlines() if one.startswith("| failed: ")]
    assert line.endswith(f"| {NAMES[0]} |")


def test_data_that_cannot_be_read_stop_the_study_before_anything_runs(tmp_path):
    data = tmp_path / "data"
    (data / "ml-100k").mkdir(parents=True)
    (data / "ml-100k" / "u.data").write_text("sixteen letters!\n")
    result = study(tmp_path / "out", "--data", str(data), "--seeds", "1", "--only", f"{NAMES[0]},gowalla")
    assert result.returncode == 2
    assert "u.data" in result.stderr
    assert "table4-gowalla100-fedavg-gmf: not run: data missing: no gowalla or" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_a_report_can_be_had_of_nothing(tmp_path):
    result = study(tmp_path / "out", "--scale", "tiny", "--report-only")
    assert result.returncode == 0
    assert (
        f"0 of {STUDY.count_runs(None, 'tiny')} runs are finished"
        in (tmp_path / "out" / "report.md").read_text()
    )


def test_a_dry_run_writes_nothing_and_names_the_runs(tmp_path):
    result = study(tmp_path / "out", *TINY, "--dry-run")
    assert result.returncode == 0
    assert [f"to run    experiment={name}, seed 1" in result.stdout for name in NAMES] == [True] * 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    slow_except_first([(("analysis.cda_paper", "--list"), ""), (("gossiprec", "list"), "1")]),
)
@pytest.mark.full
def test_a_list_whose_reader_has_left_ends_quietly(arguments, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-m", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        stdout=writer, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (result.returncode, result.stderr) == (0, "")


def test_what_can_be_named_is_listed():
    told = study("unused", "--list").stdout.splitlines()
    assert "fig6: 12 experiments" in told
    assert f"{NAMES[0]}  (cda_table5_ml100k_authors100.yaml, ml-100k)" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "tabel5"), "did you mean 'table5'"),
        ((), "--data is missing"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
        (("--seeds", "0"), "0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
