"""What the FedCL study says of runs whose numbers are known."""

from __future__ import annotations

import csv

import pytest

from analysis.fedcl import PAPER, PRICE, REPORT, STUDY, timing_group
from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED
from analysis.papers.comparison import BEST, LAST, has_converged, reported_epochs, reported_score
from tests.analysis.cl_runs import runs_of
from tests.analysis.fedcl_runs import risen, told

pytestmark = pytest.mark.slow

NOISY, CLEAR = "beauty-gru4rec-fedcl", "beauty-no-noise"


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Runs of GRU4Rec in all ways on Beauty, with and without noise, and one of MovieLens-1M, with their report."""
    folder = tmp_path_factory.mktemp("fedcl")
    runs = runs_of(folder, {
        "beauty-gru4rec": risen(0.04, falls=True), "beauty-gru4rec-fed": risen(0.032),
        "beauty-gru4rec-bil": risen(0.02, falls=True), "beauty-hardest": risen(0.03),
        "beauty-clusters-5": risen(0.04), "beauty-clusters-100": risen(0.02),
    })  # fmt: skip
    runs |= runs_of(folder, {"ml-1m-gru4rec-fed": risen(0.08)}, summary={"nodes": 6035})
    runs |= runs_of(folder, {NOISY: risen(0.03)}, summary=told(0.002, 0.004))
    runs |= runs_of(folder, {CLEAR: risen(0.035)}, summary=told(0.9, 0.15))
    REPORT.write(folder, runs, {}, planned=3 * len(STUDY.experiments), epochs=10)
    return folder, runs


def claim(runs, begin):
    """Return the one claim that begins so."""
    (found,) = [one for one in REPORT.judge_claims(runs) if one.claim.startswith(begin)]
    return found


def test_looks_go_by_hits_and_each_setting_has_a_print_of_its_own(known):
    runs = known[1]
    assert reported_epochs(PAPER, runs, NOISY, PAPER.point_at_printed_value) == {
        1: 2,
        2: 2,
        3: 2,
    }  # 0.032 passes 0.0316
    assert reported_epochs(PAPER, runs, "ml-1m-gru4rec-fed", PAPER.point_at_printed_value) == {
        1: 3,
        2: 3,
        3: 3,
    }  # 0.12 passes 0.1025
    assert reported_epochs(PAPER, runs, "beauty-gru4rec", BEST) == {1: 2, 2: 2, 3: 2}
    assert reported_score(PAPER, runs, NOISY, "HR@10", LAST)[1] == pytest.approx(0.045)
    page = (known[0] / "report.md").read_text()
    assert "(printed 0.03160 in beauty, 0.02270 in sports, 0.10250 in ml-1m, 0.02370 in yelp)" in page
    assert "the 44 printed orders" in page


def test_a_table_is_redrawn_in_its_own_setting_alone(known):
    page = (known[0] / "report.md").read_text()
    second = page.split("### Table 2")[1].split("### ")[0]
    assert "Setting `beauty`" in second
    assert "ml-1m" not in second
    assert "; round 3 |" in second.split("| GRU4Rec+Fed |")[1].split("\n")[0]
    assert "; epoch 3 |" in second.split("| GRU4Rec |")[1].split("\n")[0], "of centralised rows passes"
    with (known[0] / "cells.csv").open() as file:
        rows = [(row["table"], row["setting"]) for row in csv.DictReader(file)]
    assert set(rows) == {("table2", "beauty"), ("ablations", "beauty"), ("table3", "ml-1m")}


def test_the_size_of_each_data_set_stands_beside_its_own_print(known):
    first = (known[0] / "report.md").read_text().split("### Table 1")[1].split("### ")[0]
    assert "| Beauty, users | 40,226 | ✗ 6,040 |" in first  # what other runs by hand say they have
    assert "| ML-1M, users | 6,040 | ✗ 6,035 |" in first


def test_fedcl_is_judged_beside_centralised_training_at_the_best_reports(known):
    runs = known[1]
    ahead = claim(runs, "GRU4Rec+FedCL recommends better than centralised GRU4Rec")
    assert ahead.verdict == HELD
    assert ahead.evidence[1].startswith(
        "beauty: HR@10: gru4rec-fedcl 0.0451, gru4rec 0.0401 (+12.6 %, printed +50.6 %) "
        "(gru4rec-fedcl best at the last report: perhaps not converged);"
    )
    assert claim(runs, "GRU4Rec+FedCL recommends better than GRU4Rec+Fed, at equal").verdict == NOT_HELD
    assert claim(runs, "GRU4Rec+FedCL recommends better than GRU4Rec+BIL, at equal").verdict == HELD
    assert claim(runs, "GRU4Rec+Fed stays below").verdict == NOT_HELD
    assert claim(runs, "NCF+FedCL recommends better than centralised").verdict == NOT_MEASURED


def test_what_a_federated_row_keeps_is_told_beside_the_print(known):
    folder, runs = known
    beauty, ml = ({row.row: row for row in PRICE.rows_in(setting)} for setting in ("beauty", "ml-1m"))
    assert PRICE.kept_utility(runs, beauty["GRU4Rec+FedCL"], "HR@10")[1] == pytest.approx(100 * 0.045 / 0.04)
    assert PRICE.kept_utility(runs, ml["GRU4Rec+Fed"], "HR@10") == {}, "centralised it was not run"
    assert PRICE.printed_kept_utility("beauty", beauty["GRU4Rec+FedCL"], "HR@10") == pytest.approx(
        100 * 0.0539 / 0.0358
    )
    assert PRICE.printed_kept_utility("ml-1m", ml["GRU4Rec+FedCL"], "HR@10") == pytest.approx(
        100 * 0.2013 / 0.1662
    )
    assert not has_converged(PAPER, runs, NOISY)
    assert has_converged(PAPER, runs, "beauty-gru4rec-bil")
    rows = (folder / "report.md").read_text().split("## Comparison with centralised training")[1]
    assert "| GRU4Rec+FedCL | GRU4Rec | yes | 0.0451 ± 0.0004; n = 3 | 0.0401 ± 0.0002; n = 3 | 113" in rows


def test_ablations_and_best_values_are_judged(known):
    runs = known[1]
    hardest = claim(runs, "Ablation: with the hardest")
    assert hardest.evidence[1].startswith("beauty: HR@10: gru4rec-fedcl 0.0451, hardest 0.0451")
    best = claim(runs, "25 clusters are the best")
    assert best.verdict == NOT_HELD
    assert [line.rpartition(": ")[2] for line in best.evidence] == ["not held", "held"]
    assert claim(runs, "R = 25 %").verdict == NOT_MEASURED


def test_what_told_vectors_give_away_is_judged_against_guessing(known):
    runs = known[1]
    assert claim(runs, "Not in the paper: with epsilon 4 the last upload of a user").verdict == HELD
    assert claim(runs, "Not in the paper: with epsilon 4 uploaded vectors").verdict == HELD
    means = claim(runs, "Not in the paper: with epsilon 4 means over all uploads")
    assert means.verdict == NOT_HELD
    assert means.evidence == (
        "beauty: GRU4Rec+FedCL: CDA of means 0.0200, CDA, guessing 0.0020; "
        "margin -0.0080, [-0.0080, -0.0080] over 3 seeds: not held",
    ), "without noise nothing is judged"
    assert claim(runs, "Not in the paper: less noise").verdict == HELD


def test_what_is_given_away_stands_beside_utility_and_is_drawn(known):
    folder, three = known[0], "n = 3"
    rows = (folder / "report.md").read_text().split("## Leakage of uploads")[1].split("## Times")[0]
    assert f"| 10.0; {three} | 92; {three} | 0.0020; {three} | 0.0010; {three} |" in rows
    assert "| GRU4Rec+FedCL, no noise | 0.052" in rows
    with (folder / "figures" / "leaks-beauty.csv").open() as file:
        drawn = {(row["panel"], row["line"]): float(row["%"]) for row in csv.DictReader(file)}
    assert drawn["re-identified", "GRU4Rec+FedCL"] == pytest.approx(0.2)
    assert drawn["re-identified", "no noise"] == pytest.approx(90)
    assert drawn["CDA", "guessing"] == pytest.approx(0.2)


def test_curves_have_the_centralised_row_as_a_level(known):
    with (known[0] / "figures" / "gru4rec-beauty.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "HR@10"]
    own = {(row["line"], row["kind"], row["round"]): float(row["%"]) for row in rows}
    assert own["GRU4Rec, centralised", "level", "3.0"] == pytest.approx(4.01)
    assert own["GRU4Rec+FedCL", "print", "1.0"] == pytest.approx(5.39)
    assert own["GRU4Rec+FedCL", "", "3.0"] == pytest.approx(4.515)


def test_runs_are_told_apart_by_model_in_the_table_of_times():
    assert timing_group("beauty-clusters-5") == "beauty, gru4rec federated"
    assert timing_group("ml-1m-bert4rec-bil") == "ml-1m, bert4rec federated"
    assert timing_group("ml-1m-ncf") == "ml-1m, ncf centralised"


def test_a_report_can_be_had_of_nothing(tmp_path):
    REPORT.write(tmp_path, {}, dict.fromkeys(STUDY.experiments, "not run yet"), planned=159, epochs=10)
    page = (tmp_path / "report.md").read_text()
    assert "0 of 159 runs, of 10 epochs each, are finished" in page
    assert "Leakage of uploads" not in page
    assert "Comparison with centralised training" not in page
