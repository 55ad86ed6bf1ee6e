"""The CL4FedRec study end to end at its tiny scale: run, resumed, reported; and what it says of bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from analysis.cl4fedrec import STUDY
from gossiprec import open_run
from tests.analysis.commands import REPORTS, ran

pytestmark = pytest.mark.full

NAMES = ("file-sum1-rcl4fedrec", "file-adam5-original", "file-adam5-psmu-hics")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.cl4fedrec", out, *options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of three experiments that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "3 runs finished in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == ["table.parquet", "table.csv", *REPORTS]
    page = (out / "report.md").read_text()
    assert f"3 of {len(STUDY.experiments)} runs, of 2 epochs each, are finished" in page
    assert {path.stem for path in (out / "figures").iterdir()} == {
        "table2-file-sum1", "table2-file-adam5", "uniformity-file-sum1", "uniformity-file-adam5",
        "exposure-psmu-file-adam5",
    }  # fmt: skip


def test_cells_are_the_numbers_of_the_runs(whole):
    out, _ = whole
    with (out / "table.csv").open() as file:
        folder = {row["experiment"]: row["run"] for row in csv.DictReader(file)}[NAMES[0]]
    wanted = open_run(out / "runs" / folder).summary["utility"]["full_ndcg@20"]
    with (out / "cells.csv").open() as file:
        (cell,) = [
            row
            for row in csv.DictReader(file)
            if (row["table"], row["experiment"], row["column"], row["look"])
            == ("table4", NAMES[0], "NDCG@20", "last epoch")
        ]
    assert float(cell["measured"]) == wanted
    assert (cell["published"], cell["row"], cell["epoch"]) == ("0.07103", "rCL4FedRec", "2")


def test_the_best_validation_epoch_is_the_one_that_the_run_itself_chose(whole):
    out, _ = whole
    with (out / "table.csv").open() as file:
        folders = {row["experiment"]: row["run"] for row in csv.DictReader(file)}
    with (out / "cells.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["look"] == "best validation epoch"]
    assert {row["experiment"] for row in rows} == {NAMES[0], NAMES[1]}
    for row in rows:
        summary = open_run(out / "runs" / folders[row["experiment"]]).summary
        name = {"Recall@20": "recall@20", "NDCG@20": "full_ndcg@20"}[row["column"]]
        assert float(row["measured"]) == summary["utility"][f"{name}[validated]"]
        assert int(row["epoch"]) == summary["validated"]["round"]


def test_finished_runs_are_not_repeated_and_a_longer_study_runs_its_own(whole):
    out, _ = whole
    assert "0 runs finished in" in study(out, *TINY).stderr
    told = study(out, *TINY, "--epochs", "3", "--dry-run").stdout
    assert "to run: 3, already finished: 0" in told


def test_what_can_be_named_is_listed():
    told = study("unused", "--list").stdout.splitlines()
    assert "table2-file-adam5: 5 experiments" in told
    assert NAMES[2] in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "tiny", "--only", "tabel2"), "did you mean 'table2'"),
        ((), "--data is missing"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
        (("--scale", "tiny", "--epochs", "0"), "0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
