"""Who learns what: the plan fits the study, and every number of the table is one of a run."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from analysis.papers.comparison import finding
from analysis.papers.study import select_experiments
from analysis.who_learns_what import (
    INSTRUMENTS,
    PRICES,
    STUDY,
    Leak,
    LeakageReport,
    attribute,
    row_groups,
    selectable_names,
)
from gossiprec import open_run
from gossiprec.study.plan import make_plan
from tests.analysis.commands import ran
from tests.analysis.study_runs import write_study_run

TINY = ("--scale", "tiny", "--seeds", "1", "--only", "fedavg,rand-gossip")


def test_every_experiment_is_one_row_and_fits_its_options(tmp_path):
    rows = [name for group in row_groups().values() for name in group.rows]
    assert rows == list(STUDY.experiments)
    (tmp_path / "ml-100k").mkdir()
    for scale in ("full", "tiny"):
        study = STUDY.make_study(rows, data=tmp_path, scale=scale, seeds=1)
        assert len(make_plan(study, check_data=False).variants) == len(rows)
    assert select_experiments(["all-fcf"], selectable_names(), STUDY.experiments) == ["fcf", "fcf-sums"]


def test_leakage_is_a_share_of_the_way_from_chance_to_the_ceiling():
    assert Leak(0.6, 0.5, 0.7).share == pytest.approx(0.5)
    assert Leak(0.4, 0.5).share == 0
    assert Leak(0.7, 0.5, 0.6).share == 1
    assert Leak(0.5, 0.5, 0.5).share == 0


def test_attributes_come_from_updates_or_else_from_items(tmp_path):
    def row(features, measure, value):
        labels = {"attribute": "gender", "features": features, "observer": "coordinator"}
        return {"attack": "attribute-inference", "measure": measure, "labels": labels, "value": value}

    def read(*rows):
        run = write_study_run(tmp_path / str(len(list(tmp_path.iterdir()))), [], findings=list(rows))
        assert finding(run, "loss-mia", "item_auc") is None
        return attribute("gender")(run)

    def rows(features, value):
        kinds = {"": value, "majority_": 0.5, "ceiling_": 0.7}
        return [row(features, f"attribute_{kind}balanced_accuracy", one) for kind, one in kinds.items()]

    assert read(*rows("items", 0.55), *rows("updates", 0.6)) == Leak(0.6, 0.5, 0.7)
    assert read(*rows("items", 0.55), *rows("updates", None)) == Leak(0.55, 0.5, 0.7)
    assert read() is None


@pytest.mark.slow
@pytest.mark.full
def test_each_number_of_the_table_is_one_of_a_run(tmp_path):
    result = ran("analysis.who_learns_what", tmp_path, *TINY)
    assert result.returncode == 0, result.stderr
    with (tmp_path / "table.csv").open() as file:
        runs = {row["experiment"]: open_run(tmp_path / "runs" / row["run"]) for row in csv.DictReader(file)}
    with (tmp_path / "cells.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == LeakageReport.csv_header

    def cell(experiment, number, part="value"):
        (found,) = [
            one["value"]
            for one in lines
            if (one["experiment"], one["number"], one["part"]) == (experiment, number, part)
        ]
        return float(found)

    for name, run in runs.items():
        summary = run.summary
        auc = [one["value"] for one in summary["findings"] if one["measure"] == "item_auc"]
        assert [cell(name, f"items: {one} (AUC)") for one in ("loss-mia", "update-mia")] == auc
        attack = summary["attacks"][0]
        assert cell(name, "taste: CDA (AAC)") == attack["last_aac"]
        assert cell(name, "taste: CDA (AAC)", "chance") == attack["random_bound"]
        assert cell(name, "Recall@20") == summary["utility"]["recall@20"]
    total = runs["rand-gossip"].summary["bytes"]["sent"]
    assert cell("rand-gossip", "MB sent per node") == pytest.approx(total / 40 / 1e6)
    assert cell("fedavg", "MB sent per node") == pytest.approx(
        runs["fedavg"].summary["bytes"]["up"] / 40 / 1e6
    )
    page = (tmp_path / "report.md").read_text()
    assert len([line for line in page.splitlines() if line.startswith("| FedAvg, whole GMF models |")]) == 8
    assert all(title in page for title in (*INSTRUMENTS, *PRICES))
    assert (tmp_path / "figures" / "leakage.svg").stat().st_size > 10_000
    assert "| not run yet |" in page.split("## Missing")[1]


def test_bad_input_is_one_message_and_status_2(tmp_path):
    result = ran("analysis.who_learns_what", tmp_path / "out", "--scale", "tiny", "--only", "fedavgg")
    assert result.returncode == 2
    assert "did you mean 'fedavg'" in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path(tmp_path / "out").exists()
