"""Run directories of an earlier version (``frozen_runs/``): they open with the right values, verify and report."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gossiprec
from gossiprec.cli.main import exit_code
from gossiprec.runs.verify import verify_log
from gossiprec.scenario import load_scenario
from tests.report.test_page import data_in

FROZEN = Path(__file__).parent / "frozen_runs"


class Facts(NamedTuple):
    """The content of a run directory, written down when the run was made."""

    events: dict[str, int]
    """Number of rows by kind of event; other kinds have none."""
    message: tuple[float, int, int, int]
    """Arrival time, sender, receiver and bytes of the last message."""
    metrics: dict[str, float]
    """Values at the last report."""
    accuracies: dict[tuple[str, str, float], tuple[float, int]]
    """Highest accuracy and its round, by observer, relevance rule and momentum."""
    rows: dict[str, int]
    """Number of rows by table; other tables have none."""


ROUNDS = {"wake": 6, "round": 3, "evaluate": 3}
"""Events of the runs of FedAvg."""
RUNS = {
    "gossip": Facts(
        {"wake": 82, "message": 143, "drop": 21, "update": 82, "miss": 14, "session": 54, "round": 5, "evaluate": 5},
        (9.528047992745254, 22, 14, 516),
        {"hr@5": 0.3020833333333333, "ndcg@5": 0.23472692130010495},
        {
            ("single", "ndcg", 0.9): (0.2, 4),
            ("single", "standardized", 0.9): (0.2125, 4),
            ("single", "ndcg", 0.0): (0.2, 4),
            ("single", "standardized", 0.0): (0.2125, 4),
            ("coalition-20%", "standardized", 0.9): (0.52, 2),
        },
        {"metrics": 15, "attacks": 25, "by_user": 248, "positions": 367},
    ),
    "recommender": Facts(
        {**ROUNDS, "message": 216, "update": 108},
        (6.0, 23, 24, 720),
        {"hr@5": 0.20833333333333334, "val_recall@5": 0.2916666666666667, "hr@5[popularity]": 0.19444444444444442},
        {("coordinator", "standardized", 0.99): (0.15, 6)},
        {"metrics": 21, "attacks": 3, "by_user": 360, "positions": 198, "lists": 120, "users": 24, "items": 40},
    ),
    "poisoned": Facts(
        {**ROUNDS, "message": 252, "update": 104},
        (6.0, 27, 28, 40),
        {"er@5": 0.21583850931677018, "er@5[1]": 0.21739130434782608, "recall@5": 0.19791666666666666},
        {},
        {"metrics": 15, "by_user": 24, "positions": 174},
    ),
    "dp-sgd": Facts(
        {"wake": 144, "message": 432, "update": 144, "round": 4, "evaluate": 4, "privacy": 51},
        (9.93556303760031, 22, 0, 676),
        {"hr@5": 0.3229166666666667, "ndcg@5": 0.16414865290382855},
        {("single", "standardized", 0.99): (0.1708333333333333, 5)},
        {"metrics": 8, "attacks": 4, "findings": 172, "by_user": 99, "positions": 195},
    ),
    "interrupted": Facts(
        {"wake": 107, "message": 321, "update": 107, "round": 2, "evaluate": 2},
        (3.9832482182980113, 12, 3, 516),
        {"hr@5": 0.4270833333333333},
        {("single-20%", "standardized", 0.9): (0.26, 2)},
        {"metrics": 4, "attacks": 2, "by_user": 47, "positions": 119},
    ),
}  # fmt: skip
TABLES = ("metrics", "attacks", "findings", "by_user", "positions", "users", "items")
FIGURES = {
    "gossip": ("cdf", "curves", "exposure", "position"),
    "recommender": ("cdf", "curves"),
    "poisoned": ("curves",),
    "dp-sgd": ("epsilon", "roc"),
    "interrupted": ("exposure",),
}


@pytest.fixture
def folder(tmp_path):
    """Return a copy of all frozen runs, into which commands may write."""
    return shutil.copytree(FROZEN, tmp_path / "frozen")


def call(*arguments):
    """Run a command line that must succeed."""
    assert exit_code([str(argument) for argument in arguments]) == 0


@pytest.mark.parametrize("name", RUNS)
def test_events_and_tables_have_the_rows_that_were_written(name):
    run, facts = gossiprec.open_run(FROZEN / name), RUNS[name]
    assert run.status == ("interrupted" if name == "interrupted" else "complete")
    assert {kind: n for kind, n in run.log.rows.items() if n} == facts.events
    message = run.events("message")
    assert (
        tuple(message[column][-1] for column in ("time", "sender", "receiver", "size_bytes")) == facts.message
    )
    tables = (*TABLES, "lists") if "lists" in facts.rows else TABLES
    assert {table: len(rows) for table in tables if (rows := run.table(table))} == facts.rows


@pytest.mark.parametrize("name", RUNS)
def test_metrics_and_accuracies_have_the_values_that_were_written(name):
    run, facts = gossiprec.open_run(FROZEN / name), RUNS[name]
    last = dict(zip(run.metrics["metric"].tolist(), run.metrics["value"].tolist(), strict=True))
    assert {metric: last[metric] for metric in facts.metrics} == facts.metrics
    assert {metric: run.summary["utility"][metric] for metric in facts.metrics} == facts.metrics
    best: dict[tuple[str, str, float], tuple[float, int]] = {}
    columns = (
        run.attacks[column].tolist() for column in ("observer", "relevance", "momentum", "aac", "round")
    )
    for *attack, accuracy, round_ in zip(*columns, strict=True):
        best[tuple(attack)] = max(best.get(tuple(attack), (0.0, 0)), (accuracy, round_), key=lambda at: at[0])
    summed_up = {
        (attack["observer"], attack["relevance"], attack["momentum"]): (attack["max_aac"], attack["at_round"])
        for attack in run.summary["attacks"]
    }
    assert best == summed_up == {key: (pytest.approx(aac), at) for key, (aac, at) in facts.accuracies.items()}
    means = [float(accuracies.mean()) for _, accuracies in run.adversaries.values()]
    assert means == pytest.approx([accuracy for accuracy, _ in facts.accuracies.values()])


def test_every_part_of_a_run_has_the_values_that_were_written():
    gossip, recommender, dp_sgd = (
        gossiprec.open_run(FROZEN / name) for name in ("gossip", "recommender", "dp-sgd")
    )
    assert gossip.hits["coalition-20%/standardized/b0.9/k5"].shape == (13, 2)
    assert gossip.observed["later"].summary["attacks"][0]["max_aac"] == 0.20833333333333334
    assert recommender.users["name"][:2].tolist() == ["user-00", "user-01"]
    assert recommender.items["name"][39] == "film 39"
    assert recommender.lists["item"][:5].tolist() == [37, 16, 24, 27, 11]
    assert recommender.version["items"].shape == (40, 4)
    assert recommender.version["popularity"].sum() == 255
    assert [group["train_max"] for group in recommender.summary["by_activity"]] == [10, 15]
    values = recommender.by_user["value"][recommender.by_user["metric"] == "hr@5"]
    assert np.mean(values[-24:]) == pytest.approx(RUNS["recommender"].metrics["hr@5"])
    assert dp_sgd.summary["privacy"]["epsilon_max"] == 19.99999944031689
    assert dp_sgd.events("privacy")["epsilon"][0] == pytest.approx(10.21635723)
    found = (dp_sgd.findings["measure"] == "item_auc") & (dp_sgd.findings["round"] == 6)
    assert dp_sgd.findings["value"][found].tolist()[-1] == 0.48046875
    assert json.loads(dp_sgd.findings["labels"][found][-1]) == {"k": 10, "observer": "single-5%"}


def test_the_study_has_the_values_that_were_written():
    study = gossiprec.open_study(FROZEN / "study")
    assert study.status == "complete"
    means = {(row["fanout"], row["measure"]): row["mean"] for row in study.table().to_pylist()}
    assert means == {
        (1, "hr@5"): 0.4609375,
        (3, "hr@5"): 0.515625,
        (1, "messages"): 48.0,
        (3, "messages"): 144.0,
        (1, "max_aac"): pytest.approx(0.25065104166666663),
        (3, "max_aac"): pytest.approx(0.4407552083333333),
    }
    assert [run.summary["seed"] for run in study.runs(fanout=3)] == [1, 2]
    assert len(study.table("by_user")) == 182


def test_every_scenario_is_still_valid():
    scenarios = sorted(FROZEN.rglob("scenario.yaml"))
    assert len(scenarios) == 10
    for path in scenarios:
        load_scenario(path)


def test_every_run_is_verified_and_a_changed_byte_is_found(folder, capsys):
    runs = [path.parent for path in sorted(folder.rglob("events.mplog"))]
    for run in runs:
        assert str(verify_log(run)).endswith("complete and intact, and so are all files of the run"), run
        if run.parent.name != "observed":
            with (run / "metrics.csv").open("a") as file:
                file.write("9.0,9,hr@5,1.0\n")
            assert exit_code(["log", "verify", str(run)]) == 2
    assert "metrics.csv" in capsys.readouterr().out


@pytest.mark.parametrize("name", RUNS)
def test_figures_are_drawn(name, folder):
    for figure in FIGURES[name]:
        call("plot", figure, folder / name)
        with (folder / name / f"{figure}.csv").open() as file:
            assert len(list(csv.reader(file))) > 2
        assert (folder / name / f"{figure}.png").stat().st_size > 5000


def test_the_page_has_every_run_and_the_study(folder):
    call("report", folder / "study", *(folder / name for name in RUNS), "--out", folder / "page.html")
    page = data_in((folder / "page.html").read_bytes())
    text = json.dumps(page)
    assert [name for name in (*RUNS, "study") if name not in text] == []
    assert "30.2" in text


def test_lists_comparisons_and_tables_read_the_runs(folder, capsys):
    call("runs", folder, "--json")
    runs = {Path(row["run"]).name: row for row in json.loads(capsys.readouterr().out)}
    assert len(runs) == 9
    assert runs["gossip"]["hr@5"] == RUNS["gossip"].metrics["hr@5"]
    call("diff", folder / "gossip", folder / "interrupted")
    assert "protocol.wakes" in capsys.readouterr().out
    call("compare", folder / "study")
    assert "+0.05469" in capsys.readouterr().out
    call("plot", "study", folder / "study")
    call("table", folder / "study")
    assert "51.6" in capsys.readouterr().out


def test_the_commands_of_logs_read_the_runs(folder, capsys):
    call("log", "stats", folder / "poisoned", "--json")
    assert json.loads(capsys.readouterr().out)["digest"].startswith("66496a077fcd")
    call("log", "cat", folder / "interrupted")
    assert len(capsys.readouterr().out.splitlines()) > sum(RUNS["interrupted"].events.values())
    call("log", "export", folder / "gossip", "--kind", "message", "--out", folder / "messages.csv")
    assert len((folder / "messages.csv").read_text().splitlines()) == 144


def test_an_interrupted_run_is_resumed_or_refused_with_one_message(folder, capsys):
    """Another version of the code refuses the checkpoint, unless nothing that decides numbers has changed."""
    code = exit_code(["resume", str(folder / "interrupted"), "--quiet"])
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    if code == 0:
        assert gossiprec.open_run(folder / "interrupted").status == "complete"
        assert verify_log(folder / "interrupted").complete
    else:
        assert (code, errors.count("error: ")) == (2, 1)
        assert verify_log(folder / "interrupted").complete
    call("resume", folder / "gossip")
    assert "nothing to resume" in capsys.readouterr().out
