"""What the CL4FedRec study says of runs whose numbers are known."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from analysis.cl4fedrec import PAPER, REPORT, STUDY
from analysis.papers.claims import (
    HELD,
    NOT_HELD,
    NOT_MEASURED,
    UNDECIDED,
    count_verdicts,
    order_margins,
    printed_orders,
)
from analysis.papers.comparison import (
    BEST,
    LAST,
    experiment_name,
    metric_by_epoch_and_seed,
    reported_epochs,
    reported_score,
)
from analysis.papers.comparison import baseline_score as level_of
from tests.analysis.cl_runs import RECALL, level, runs_of

SETTING = "file-sum1"
ORIGINAL, PLAIN = experiment_name(SETTING, "original"), experiment_name(SETTING, "cl4fedrec")


def report(folder, runs, **more):
    """Write a report and return what its pages say."""
    folder.mkdir()
    reasons = {name: "not run yet" for name in STUDY.experiments if name not in runs}
    REPORT.write(folder, runs, reasons, planned=3 * len(STUDY.experiments), epochs=2, **more)
    return (folder / "report.md").read_text(), (folder / "findings.md").read_text()


def claim(runs, begin):
    """Return the one claim that begins so."""
    (found,) = [one for one in REPORT.judge_claims(runs) if one.claim.startswith(begin)]
    return found


def test_looks_choose_epochs_seed_by_seed(tmp_path):
    told = {
        ORIGINAL: [
            {RECALL: [0.01, 0.05, 0.06]},
            {RECALL: [0.01, 0.02, 0.044441]},
            {RECALL: [0.01, 0.02, 0.03]},
        ],
        PLAIN: [
            {RECALL: [0.1, 0.3, 0.2], PAPER.validation: [0.5, 0.9, 0.9]},
            {RECALL: [0.4, 0.5, 0.6]},
            {RECALL: [0.7]},
        ],
    }
    runs = runs_of(tmp_path, told)
    assert reported_epochs(PAPER, runs, PLAIN, LAST) == {1: 3, 2: 3, 3: 1}
    assert reported_epochs(PAPER, runs, PLAIN, PAPER.point_at_printed_value) == {1: 2, 2: 3}
    assert reported_epochs(PAPER, runs, PLAIN, BEST) == {1: 2}
    assert reported_score(PAPER, runs, PLAIN, "Recall@20", LAST) == {1: 0.2, 2: 0.6, 3: 0.7}
    assert reported_score(PAPER, runs, PLAIN, "Recall@20", PAPER.point_at_printed_value) == {1: 0.3, 2: 0.6}
    assert metric_by_epoch_and_seed(runs, PLAIN, RECALL) == {1: {1: 0.1, 2: 0.4, 3: 0.7}}


def test_an_order_is_held_or_not_by_its_paired_differences(tmp_path):
    told = {
        ORIGINAL: level(0.046),
        experiment_name(SETTING, "simgcl"): level(0.047),
        experiment_name(SETTING, "union"): level(0.048),  # printed below Original
        PLAIN: level(0.049, seeds=1),
    }
    runs = runs_of(tmp_path, told)
    # Recall: SimGCL over Original held, Original over UNION not held, CL4FedRec over SimGCL one seed;
    # NDCG: Original over SimGCL and SimGCL over UNION not held, CL4FedRec over Original one seed
    found = count_verdicts(order_margins(PAPER, runs, SETTING)[LAST].values())
    assert (found[HELD], found[NOT_HELD], found[UNDECIDED]) == (1, 3, 2)
    assert found[NOT_MEASURED] == len(printed_orders(PAPER, SETTING)) - 6
    page = report(tmp_path / "out", runs)[1]
    assert "- held: Table 2, Recall@20: SimGCL over Original\n" in page
    assert "- not held: Table 2, Recall@20: Original over UNION;" in page
    assert "| Table 2, Recall@20: SimGCL over Original | +0.00175 | ✓ +0.0010; n = 3 |" in page
    assert "| Table 2, Recall@20: Original over UNION | +0.01110 | ✗ -0.0020; n = 3 |" in page
    assert "| Table 2, Recall@20: CL4FedRec over SimGCL | +0.00037 | ○ +0.0020; n = 1 |" in page


def test_each_printed_order_is_there_once_and_in_the_printed_direction():
    words = [one.text for one in printed_orders(PAPER, SETTING)]
    assert "Table 2, NDCG@20: Original over SimGCL" in words
    assert "Table 4, Recall@20: rCL4FedRec over -user contrastive learning" in words
    assert "Table 3, Recall@20: CL4FedRec+Regularizer over CL4FedRec" not in words  # of Table 2 already
    assert len(set(words)) == len(words)
    assert all(one.by > 0 for one in printed_orders(PAPER, SETTING))


def test_tables_stand_beside_the_print_with_marks(tmp_path):
    runs = runs_of(tmp_path, {ORIGINAL: level(0.0444), PLAIN: level(0.09)})
    page, _ = report(tmp_path / "out", runs)
    (line,) = [one for one in page.splitlines() if one.startswith("| Original | 0.04444")]
    assert "| ✓ 0.0445 ± 0.0002; n = 3; epoch 2 |" in line
    assert "| ✗ 0.0889 ± 0.0002; n = 3; epoch 2 |" in line  # NDCG 0.0888 beside a printed 0.06372
    assert "| popularity | – | 0.0175; n = 3 |" in page
    assert "| interactions | 1,000,208 | ✗ 1,000,209 |" in page
    assert "| CL4FedRec+Krum | 0.02794 | – |" in page
    assert "| sum1 | 6 of 165 | 1:30 | 1:30 | 3:58:30 |" in page


def test_cells_hold_every_seed_and_its_epoch(tmp_path):
    report(tmp_path / "out", runs_of(tmp_path, {ORIGINAL: level(0.0444)}))
    with (tmp_path / "out" / "cells.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["look"] == LAST and row["column"] == "NDCG@20"]
    assert [(row["table"], row["seed"], row["epoch"]) for row in rows] == [
        ("table2", str(s), "2") for s in (1, 2, 3)
    ]
    assert [float(row["measured"]) for row in rows] == pytest.approx([0.0888, 0.0889, 0.0890])
    assert {row["published"] for row in rows} == {"0.06372"}


def test_curves_are_drawn_in_percent_with_the_print_and_popularity(tmp_path):
    report(tmp_path / "out", runs_of(tmp_path, {ORIGINAL: level(0.04), PLAIN: level(0.05)}))
    figures = tmp_path / "out" / "figures"
    with (figures / f"table2-{SETTING}.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "Recall@20"]
    own = {(row["line"], row["kind"], row["epoch"]): float(row["%"]) for row in rows}
    assert own["Original", "", "2.0"] == pytest.approx(4.01)
    assert own["Original", "print", "1.0"] == pytest.approx(4.444)
    assert own["popularity", "level", "2.0"] == pytest.approx(1.75)
    ends = next(row for row in rows if (row["line"], row["kind"], row["epoch"]) == ("Original", "", "2.0"))
    assert float(ends["low"]) < 4.01 < float(ends["high"])
    assert not (figures / f"table3-{SETTING}.png").exists(), "of its own it has no run"


def test_attacks_are_judged_by_the_largest_exposure_of_any_epoch(tmp_path):
    told = {
        experiment_name(SETTING, "a-hum-none"): level(0.04, **{"er@5": [0.6, 0.1]}),
        experiment_name(SETTING, "a-hum-original"): level(0.04, **{"er@5": [0.2, 0.4]}),
        experiment_name(SETTING, "a-hum-hics"): level(0.04, **{"er@5": [0.01, 0.0]}),
        experiment_name(SETTING, "a-hum-regulariser"): level(0.04, **{"er@5": [0.3, 0.0]}),
    }
    for seeds in told.values():
        for seed, curves in enumerate(seeds):
            curves["er@5"] = [value + 0.001 * seed for value in curves["er@5"]]
    runs = runs_of(tmp_path, told)
    assert claim(runs, "A-hum, against CL4FedRec undefended").verdict == HELD
    assert claim(runs, "A-hum, against Original").verdict == NOT_HELD
    worse = claim(runs, "A-hum: contrastive learning makes")
    assert worse.verdict == HELD  # by 0.05 in each seed
    assert "mean ER@5 over epochs 0.351 by CL4FedRec, 0.301 by Original" in worse.evidence[0]
    assert claim(runs, "A-hum, under HiCS").verdict == HELD
    assert "largest ER@5 0.011 (0.601 undefended)" in claim(runs, "A-hum, under HiCS").evidence[0]
    assert claim(runs, "A-hum, under Regularizer").verdict == NOT_HELD
    assert claim(runs, "PSMU (a reconstruction), against CL4FedRec undefended").verdict == NOT_MEASURED


def test_what_rules_cost_is_judged_against_recall_without(tmp_path):
    told = {PLAIN: level(0.1), **{experiment_name(SETTING, f"cl4fedrec-{rule}"): level(value) for rule, value in (
        ("krum", 0.05), ("median", 0.09), ("trimmed-mean", 0.095))}}  # fmt: skip
    runs = runs_of(tmp_path, told)
    costly, cheap = claim(runs, "Krum and Median"), claim(runs, "Trimmed Mean and HiCS")
    assert (costly.verdict, cheap.verdict) == (NOT_HELD, HELD)
    assert costly.evidence[0].startswith(f"{SETTING}: Krum: 50 % of recall lost")
    assert costly.evidence[0].endswith(": held")
    assert claim(runs, "Methods recommend better").verdict == HELD
    assert level_of(PAPER, runs, SETTING, "NDCG@20", "popularity") == {1: 0.0284, 2: 0.0284, 3: 0.0284}


def test_a_report_can_be_had_of_nothing(tmp_path):
    page, findings = report(tmp_path / "out", {})
    assert f"0 of {3 * len(STUDY.experiments)} runs, of 2 epochs each, are finished" in page
    assert "No run is finished." in page
    assert "not measured" in findings


def test_the_tiny_scale_says_that_no_number_means_anything(tmp_path):
    page, findings = report(tmp_path / "out", runs_of(tmp_path, {ORIGINAL: level(0.04)}), scale="tiny")
    assert "no number here says anything about the paper" in page
    assert "no number here says anything about the paper" in findings


def test_item_vectors_of_kept_versions_are_told_and_drawn(tmp_path):
    items = np.zeros((6, 2), np.float32)
    items[:3, 0], items[3:, 1] = 1, 1  # the popular ones point one way, the others another
    version = {"items": items, "popularity": np.array([9, 8, 7, 1, 1, 1])}
    runs = runs_of(tmp_path, {ORIGINAL: level(0.04, seeds=1)}, version=version)
    page, _ = report(tmp_path / "out", runs)
    assert f"| {SETTING} | Original | 0.000 | 0.000 | 0.000 | 1.000 |" in page
    assert (tmp_path / "out" / "figures" / f"uniformity-{SETTING}.png").exists()


@pytest.mark.slow
@pytest.mark.full
def test_settings_that_disagree_agree_on_nothing(tmp_path):
    other = "random-sum1"
    told = {
        ORIGINAL: level(0.04), experiment_name(SETTING, "simgcl"): level(0.05),
        experiment_name(other, "original"): level(0.05), experiment_name(other, "simgcl"): level(0.04),
    }  # fmt: skip
    page = report(tmp_path / "out", runs_of(tmp_path, told))[1]
    assert "equal in all of `file-sum1`, `random-sum1`:\n\n- held: none\n- not held: none" in page
