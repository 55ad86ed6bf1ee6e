"""The FedCL study end to end at its tiny scale: run, resumed, reported; and what it says of bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gossiprec import open_run
from tests.analysis.commands import REPORTS, ran

pytestmark = pytest.mark.full

NAMES = ("beauty-gru4rec-fedcl", "beauty-gru4rec", "beauty-no-noise", "ml-1m-ncf-bil")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.fedcl", out, *options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of four experiments that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


def run_of(out, name):
    """Return the run of an experiment."""
    with (out / "table.csv").open() as file:
        folders = {row["experiment"]: row["run"] for row in csv.DictReader(file)}
    return open_run(out / "runs" / folders[name])


def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "4 runs finished in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == ["table.parquet", "table.csv", *REPORTS]
    assert "no number here says anything about the paper" in (out / "report.md").read_text()
    assert {path.stem for path in (out / "figures").iterdir()} == {
        "gru4rec-beauty", "ncf-ml-1m", "leaks-beauty",
    }  # fmt: skip


def test_an_epoch_is_a_pass_over_all_clients(whole):
    out, _ = whole
    assert run_of(out, NAMES[0]).summary["wakes"] == 8  # two of four rounds
    assert run_of(out, NAMES[1]).summary["wakes"] == 2
    assert run_of(out, NAMES[3]).summary["nodes"] == 50


def test_leakage_in_the_figure_is_that_of_the_run(whole):
    out, _ = whole
    leaks = run_of(out, NAMES[0]).summary["told_vectors"]["leaks"]["likeliest"]
    with (out / "figures" / "leaks-beauty.csv").open() as file:
        drawn = {row["panel"]: float(row["%"]) for row in csv.DictReader(file) if not row["kind"]}
    assert drawn == pytest.approx(
        {
            "re-identified": 100 * leaks["reidentified"],
            "own vector first": 100 * leaks["own_first"],
            "own vector first, means": 100 * leaks["own_first_of_means"],
            "CDA": 100 * leaks["cda"],
            "CDA, means": 100 * leaks["cda_of_means"],
        }
    )


def test_finished_runs_are_not_repeated_and_a_report_can_be_had_alone(whole):
    out, _ = whole
    again = study(out, *TINY, "--report-only")
    assert again.returncode == 0
    assert [Path(line).name for line in again.stdout.split()] == list(REPORTS)
    assert "to run: 0, already finished: 4" in study(out, *TINY, "--dry-run").stdout


def test_help_tells_the_length_of_its_own_runs():
    assert "[default: 10; centralised 20]" in " ".join(study("unused", "--help").stdout.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "tiny", "--only", "tabel2"), "did you mean 'table2'"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
