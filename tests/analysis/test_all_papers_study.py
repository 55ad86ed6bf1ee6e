"""The table of all recommenders end to end at its tiny scale: each number is that of a run, each gap says why."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from analysis.all_papers import RATES, best_membership_rates, best_validation, membership_advantage
from gossiprec import open_run
from tests.analysis.commands import ran

pytestmark = pytest.mark.full

ROWS = (
    "row-rand-gossip",
    "row-fedncf",
    "row-fedgnn",
    "row-pdc-frs",
    "central-gru4rec",
    "fcf",
    "fcf-slower",
    "fcf-faster",
)
TINY = ("--scale", "tiny", "--only", ",".join(ROWS))


def study(out, *options):
    """Run the study as a shell would."""
    return ran("analysis.all_papers", out, *options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study of some rows that was left alone."""
    out = tmp_path_factory.mktemp("study") / "whole"
    result = study(out, *TINY)
    assert result.returncode == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def runs(whole):
    """Return the run of each experiment."""
    with (whole / "table.csv").open() as file:
        return {row["experiment"]: open_run(whole / "runs" / row["run"]) for row in csv.DictReader(file)}


def line(out, row):
    """Return the fields of a row of the table."""
    page = (out / "report.md").read_text()
    (found,) = [one for one in page.splitlines() if one.startswith(f"| {row}")]
    return [field.strip() for field in found.strip("|").split(" | ")]


def in_cells(out, row, number):
    """Return a number of a row as the CSV has it."""
    with (out / "cells.csv").open() as file:
        found = [one["value"] for one in csv.DictReader(file) if (one["row"], one["number"]) == (row, number)]
    (value,) = found
    return float(value)


def test_utility_is_that_of_the_best_validation_report(whole, runs):
    for name, row in (
        ("fedncf", "FedNCF; "),
        ("fedgnn", "FedGNN"),
        ("central-gru4rec", "GRU4Rec, centralised"),
    ):
        told = runs[name].summary["utility"]
        assert line(whole, row)[2:4] == [
            f"{told[f'{metric}[validated]']:.4f}" for metric in ("recall@20", "full_ndcg@20")
        ]
    told = runs["fedncf"].summary["utility"]
    assert line(whole, "popularity")[2] == f"{told['recall@20[popularity]']:.4f}"
    assert in_cells(whole, "random", "full_ndcg@20") == told["full_ndcg@20[random]"]


def test_tuned_utility_is_that_of_the_rate_with_the_best_validation(whole, runs):
    best = {end: best_validation(runs[f"fcf{end}"]) for end in RATES}
    end = max(RATES, key=best.get)
    shown = line(whole, "FCF")
    for place, metric in ((4, "recall@20"), (5, "full_ndcg@20")):
        value = runs[f"fcf{end}"].summary["utility"][f"{metric}[validated]"]
        assert shown[place].startswith(f"{value:.4f}")
        assert in_cells(whole, "fcf", f"{metric}, tuned{end}") == value
    assert RATES[end] in shown[4]
    assert "not all of three learning rates" in line(whole, "FedNCF; ")[4]


def test_exposure_is_that_of_the_run_with_poisoners(whole, runs):
    told = runs["fedncf-attacked"].summary
    assert told["poisoners"] == 3
    assert in_cells(whole, "fedncf", "er@20") == told["utility"]["er@20[validated]"]
    assert line(whole, "FedNCF; ")[6].startswith(f"{told['utility']['er@5[validated]']:.3f}; ")


def test_leakage_is_that_of_the_run_that_somebody_watches(whole, runs):
    for name, row in (("rand-gossip", "Rand-Gossip"), ("fedncf", "FedNCF; "), ("fedgnn", "FedGNN")):
        (found,) = [
            one for one in runs[f"{name}-watched"].summary["attacks"] if one["relevance"] == "standardized"
        ]
        assert line(whole, row)[8].startswith(
            f"{found['max_aac']:.3f}; upper {found['upper_bound']:.3f}; by guessing {found['random_bound']:.3f}"
        )


def test_what_is_found_of_items_is_that_of_the_run_that_somebody_watches(whole, runs):
    for name, row in (("rand-gossip", "Rand-Gossip"), ("fedncf", "FedNCF; "), ("fedgnn", "FedGNN")):
        told = {one["measure"]: one["value"] for one in runs[f"{name}-watched"].summary["findings"]}
        found = line(whole, row)[10:12]
        assert found[0] == f"{told['item_auc']:.3f}"
        popular = told["reconstruction_popularity_f1"]
        assert found[1] == f"{told['reconstruction_f1']:.3f}; as many popular items {popular:.3f}"


@pytest.mark.parametrize("counts", [(30, 10, 50, 10), (5, 40, 50, 5), (40, 0, 60, 0), (1, 99, 0, 0)])
def test_the_advantage_is_that_of_guesses_with_such_rates(counts):
    right, wrong, left, missed = counts
    had, others = right + missed, wrong + left
    rates = {
        "accuracy": (right + left) / sum(counts),
        "precision": right / (right + wrong),
        "recall": right / had,
    }
    assert membership_advantage({"threshold": 0.2, **rates}).advantage == pytest.approx(
        right / had - wrong / others
    )


def test_where_no_guess_is_right_there_is_no_advantage(whole, runs):
    nobody = {"threshold": 0.2, "accuracy": 0.8, "precision": None, "recall": 0.0}
    assert membership_advantage(nobody).advantage == 0
    best = best_membership_rates(runs["rand-gossip-watched"])
    told = [membership_advantage(one) for one in runs["rand-gossip-watched"].summary["membership"]]
    assert best.advantage == max(one.advantage for one in told)
    assert in_cells(whole, "rand-gossip", "advantage") == best.advantage


def test_bytes_are_those_of_the_log_by_client_and_local_epoch(whole, runs):
    run = runs["fedncf"]
    messages, n_epochs = run.events("message"), run.events("update")["epochs"].sum()
    to_coordinator = messages["receiver"] == run.summary["coordinator"]
    assert n_epochs == 60 * 2 * 5
    assert in_cells(whole, "fedncf", "bytes up") == pytest.approx(
        messages["size_bytes"][to_coordinator].sum() / n_epochs
    )
    assert in_cells(whole, "fedncf", "bytes down") == pytest.approx(
        messages["size_bytes"][~to_coordinator].sum() / n_epochs
    )
    gossip = runs["rand-gossip"]
    assert in_cells(whole, "rand-gossip", "bytes up") == pytest.approx(
        gossip.summary["bytes"]["sent"] / gossip.events("update")["epochs"].sum()
    )
    assert line(whole, "GRU4Rec, centralised")[13:15] == ["–", "–"]


def test_epochs_to_near_the_best_are_those_of_the_validation_curve(whole, runs):
    run = runs["fedncf"]
    own = run.metrics["metric"] == "val_recall@20"
    values, rounds = run.metrics["value"][own], run.metrics["round"][own]
    first = rounds[np.flatnonzero(values >= 0.95 * values.max())[0]]
    assert in_cells(whole, "fedncf", "rounds to 95 %") == first
    assert in_cells(whole, "fedncf", "local epochs to 95 %") == 5 * first
    assert in_cells(whole, "central-gru4rec", "local epochs") == 2


def test_times_and_executors_are_the_plain_runs(whole, runs):
    told = runs["fedncf"].summary
    assert in_cells(whole, "fedncf", "wall seconds") == told["wall_seconds"]
    assert in_cells(whole, "fedncf", "processor seconds") == told["processor_seconds"] > 0
    assert line(whole, "FedNCF; ")[16].endswith(f"executor {told['executor']}")


def test_what_contributed_sets_tell_stands_beside_what_updates_tell(whole, runs):
    told = runs["pdc-frs"].summary["contribution"]["leaks"]["cda"]
    assert f"by contributed sets {told:.3f}" in line(whole, "PDC-FRS")[8]


def test_what_is_missing_says_why(whole):
    assert line(whole, "FedGNN")[6] == "–; A-hum needs a model that learns from single items with labels"
    assert line(whole, "FedGNN")[9].startswith("–; entropy-mia needs probabilities")
    assert line(whole, "FedMF")[8].startswith("–; it sees only sums")
    assert line(whole, "MF, centralised")[1] == "–; not run yet"
    assert "| not run yet |" in (whole / "report.md").read_text().split("## Missing")[1]


def test_a_row_that_fails_says_why_and_stops_no_other(tmp_path):
    folder, draw = tmp_path / "data" / "ml-100k", np.random.default_rng(1)
    folder.mkdir(parents=True)
    lines = [
        f"{user}\t{item}\t5\t{time}\n"
        for user in range(1, 261)
        for time, item in enumerate(draw.choice(np.arange(1, 61), 12, replace=False))
    ]
    (folder / "u.data").write_text("".join(lines))  # without u.item there are no titles
    out = tmp_path / "study"
    result = study(out, "--data", str(folder.parent), "--only", "pdc-frs,fcf")
    assert result.returncode == 1
    assert line(out, "PDC-FRS")[1].startswith("–; failed:")
    assert "titles" in line(out, "PDC-FRS")[1]
    assert float(line(out, "FCF")[2]) > 0


def test_finished_runs_are_not_repeated(whole):
    assert "to run: 0, already finished: 15" in study(whole, *TINY, "--dry-run").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "tiny", "--only", "watchd"), "did you mean 'watched'"),
        (("--data", "nowhere", "--dataset", "movielens-1m"), "expected at least one of ml-1m"),
        ((), "--data is missing"),
    ],
)
def test_bad_input_is_one_message_and_status_2(tmp_path, options, message):
    result = study(tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
