"""The PDC-FRS study end to end at its tiny scale: run, resumed, reported; and what it says of bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gossiprec import open_run
from tests.analysis.commands import REPORTS, ran

pytestmark = pytest.mark.slow

NAMES = ("file-fedncf", "office-co-occurrence-10")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.pdc_frs", out, *options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of two experiments that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "2 runs finished in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == ["table.parquet", "table.csv", *REPORTS]
    assert "no number here says anything about the paper" in (out / "report.md").read_text()
    assert {path.stem for path in (out / "figures").iterdir()} == {
        "table1-file", "epsilon-office", "leaks-office",
    }  # fmt: skip


def test_leakage_in_the_figure_is_that_of_the_run(whole):
    out, _ = whole
    with (out / "table.csv").open() as file:
        folder = {row["experiment"]: row["run"] for row in csv.DictReader(file)}[NAMES[1]]
    told = open_run(out / "runs" / folder).summary["contribution"]
    with (out / "figures" / "leaks-office.csv").open() as file:
        drawn = {row["panel"]: float(row["%"]) for row in csv.DictReader(file) if not row["kind"]}
    assert drawn == pytest.approx(
        {
            "kept": 100 * told["kept"],
            "CDA, contributed sets": 100 * told["leaks"]["cda"],
            "CDA, auxiliary model": 100 * told["leaks"]["auxiliary_cda"],
            "MIA (AUC), contributed sets": 100 * told["leaks"]["mia_auc"],
            "MIA (AUC), auxiliary model": 100 * told["leaks"]["auxiliary_mia_auc"],
        }
    )


@pytest.mark.full
def test_finished_runs_are_not_repeated_and_a_report_can_be_had_alone(whole):
    out, _ = whole
    again = study(out, *TINY, "--report-only")
    assert again.returncode == 0
    assert [Path(line).name for line in again.stdout.split()] == list(REPORTS)
    assert "to run: 0, already finished: 2" in study(out, *TINY, "--dry-run").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "tiny", "--only", "tabel1"), "did you mean 'table1'"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
