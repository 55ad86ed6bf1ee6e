"""The PerFedRec++ study end to end at its tiny scale: run, resumed, reported; and what it says of bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gossiprec import open_run
from tests.analysis.commands import REPORTS, ran

pytestmark = pytest.mark.slow

NAMES = ("paper-perfedrec-pp", "paper-global", "paper-mf", "authors_code-fedmf")
TINY = ("--scale", "tiny", "--seeds", "1", "--only", ",".join(NAMES))


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.perfedrec_pp", out, *options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of four experiments that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out, result


def runs_in(out):
    """Return the run of each experiment."""
    with (out / "table.csv").open() as file:
        return {row["experiment"]: open_run(out / "runs" / row["run"]) for row in csv.DictReader(file)}


def test_a_tiny_study_runs_and_reports(whole):
    out, result = whole
    assert "4 runs finished in" in result.stderr
    assert [Path(line).name for line in result.stdout.split()] == ["table.parquet", "table.csv", *REPORTS]
    page = (out / "report.md").read_text()
    assert "no number here says anything about the paper" in page
    assert "| PerFedRec++ | LightGCN |" in page
    drawn = {path.stem for path in (out / "figures").iterdir()}
    assert {"table4-paper", "central-paper", "table4-authors_code", "table5-paper"} <= drawn


def test_clusters_are_made_and_rounds_are_asked_as_the_scenario_says(whole):
    summaries = {name: run.summary for name, run in runs_in(whole[0]).items()}
    assert summaries["paper-perfedrec-pp"]["clusters"]["times"] == 1  # rounds count from 0, first: 1
    assert summaries["paper-perfedrec-pp"]["node_updates"] == 2 * 30
    assert (
        "clusters" not in summaries["authors_code-fedmf"]
        or not summaries["authors_code-fedmf"]["clusters"]["times"]
    )
    assert summaries["paper-mf"]["messages"] == 0


def test_users_are_told_apart_by_activity(whole):
    out, _ = whole
    mix, alone = (
        runs_in(out)[name].summary["by_activity"] for name in ("paper-perfedrec-pp", "paper-global")
    )
    assert len(mix) == len(alone) == 10
    page = (
        (out / "report.md")
        .read_text()
        .split("## Users who gain from personal models")[1]
        .split("## Times")[0]
    )
    (last,) = [line for line in page.splitlines() if line.startswith("| 10 |")]
    assert (
        f"| {mix[9]['last']['recall@20']:.4f}; n = 1 | {alone[9]['last']['recall@20']:.4f}; n = 1 |" in last
    )


def test_the_price_in_the_report_is_that_of_the_runs(whole):
    out, _ = whole
    runs = runs_in(out)
    both = [
        runs[name].summary["utility"]["recall@20[validated]"]
        for name in ("paper-perfedrec-pp", "paper-global")
    ]
    page = (out / "report.md").read_text().split("### Table 5")[1].split("## Figures")[0]
    (whole_row,) = [line for line in page.splitlines() if line.startswith("| PerFedRec++ |")]
    (global_row,) = [line for line in page.splitlines() if line.startswith("| no personalisation |")]
    assert f"{both[0]:.4f}" in whole_row
    assert f"{both[1]:.4f}" in global_row


@pytest.mark.full
def test_finished_runs_are_not_repeated_and_a_report_can_be_had_alone(whole):
    out, _ = whole
    again = study(out, *TINY, "--report-only")
    assert again.returncode == 0
    assert [Path(line).name for line in again.stdout.split()] == list(REPORTS)
    assert "to run: 0, already finished: 4" in study(out, *TINY, "--dry-run").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "tiny", "--only", "tabel4"), "did you mean 'table4'"),
        (("--data", "nowhere"), "found none of the data sets in nowhere"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
