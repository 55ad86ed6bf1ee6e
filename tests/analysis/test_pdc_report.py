"""What the PDC-FRS study says of runs whose numbers are known."""

from __future__ import annotations

import csv

import pytest

from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED
from analysis.papers.comparison import reported_epochs
from analysis.pdc_frs import PAPER, REPORT, STUDY
from tests.analysis.cl_runs import level, runs_of
from tests.analysis.pdc_runs import contributed, contribution


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Runs of the reference, of budgets in both similarities and on Office, and the report of them."""
    folder = tmp_path_factory.mktemp("pdc")
    runs = runs_of(folder, {"file-fedncf": level(0.0153), "office-fedncf": level(0.05)})
    runs |= contributed(folder, {"file-pdc-frs": contribution(0.001, 0.805)}, recall=0.0168)
    runs |= contributed(folder, {
        "file-epsilon-30": contribution(0.05, 0.88), "file-co-occurrence": contribution(0.002, 0.85),
        "file-co-occurrence-30": contribution(0.97, 0.99), "office-pdc-frs": contribution(0.02, 0.808),
        "file-lambda-0.5": contribution(0.001, 0.805),
    })  # fmt: skip
    REPORT.write(folder, runs, {}, planned=3 * len(STUDY.experiments), epochs=2)
    return folder, runs


def claim(runs, begin):
    """Return the one claim that begins so."""
    (found,) = [one for one in REPORT.judge_claims(runs) if one.claim.startswith(begin)]
    return found


@pytest.mark.slow
def test_what_is_given_away_stands_beside_utility(known):
    page = (known[0] / "report.md").read_text()
    file, office = page.split("### Setting file")[-1].split("### Setting office")
    three = "n = 3"
    assert f"| titles | 5 | 0.0169 ± 0.0002; {three} | 0.0337 ± 0.0002; {three} | 0.0010; {three} |" in file
    assert (
        f"| 600.0; {three} | 0.0300; {three} | 0.0200; {three} | 0.0100; {three} | 0.8050; {three} |" in file
    )
    assert "| co-occurrence | 30 |" in file
    assert "| none: FedNCF | – | 0.0154" in file
    assert "| co-occurrence | 5 |" in office
    assert "titles" not in office.split("## Times")[0]


def test_leakage_is_drawn_over_epsilon_beside_what_is_known_without(known):
    with (known[0] / "figures" / "leaks-file.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "MIA (AUC), contributed sets"]
    own = {(row["line"], row["kind"], row["epsilon"]): float(row["%"]) for row in rows}
    assert own["titles", "", "5.0"] == pytest.approx(80.5)
    assert own["co-occurrence", "", "30.0"] == pytest.approx(99)
    assert own["popularity", "level", "1.0"] == pytest.approx(80)


def test_utility_is_drawn_over_an_option_beside_fedncf(known):
    with (known[0] / "figures" / "lambda-file.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "Recall@20, last epoch"]
    own = {(row["line"], row["lambda"]): float(row["%"]) for row in rows}
    assert own["PDC-FRS", "0.05"] == pytest.approx(1.69)
    assert own["PDC-FRS", "0.5"] == pytest.approx(1.61)
    assert own["FedNCF", "0.0"] == pytest.approx(1.54)
    assert own["popularity", "0.5"] == pytest.approx(1.75)


def test_what_the_paper_says_is_judged(known):
    runs = known[1]
    assert claim(runs, "PDC-FRS recommends better than FedNCF").verdict == NOT_HELD
    said = claim(runs, "PDC-FRS recommends better than FedNCF").evidence
    assert said[0].startswith(
        "file: Recall@20: pdc-frs 0.0169, fedncf 0.0154 (+9.7 %, printed +9.8 %) (last epoch); margin +0.0015"
    )
    assert said[-1].startswith("office: NDCG@20")
    assert claim(runs, "Methods recommend better").verdict == NOT_HELD
    assert claim(runs, "lambda = 0.05").verdict == HELD
    assert claim(runs, "beta = 0.05").verdict == NOT_MEASURED


def test_what_is_kept_and_told_is_judged_by_similarity(known):
    nearly = claim(known[1], "With epsilon 30")
    assert nearly.verdict == NOT_HELD
    assert [line.partition(";")[0] for line in nearly.evidence] == [
        "file: titles, kept 0.050", "file: co-occurrence, kept 0.970",
    ]  # fmt: skip
    assert nearly.evidence[1].endswith(": held")
    sets = claim(known[1], "Not in the paper: with epsilon 5 contributed sets")
    assert [line.rpartition(": ")[2] for line in sets.evidence] == ["held", "not held", "held"]
    assert claim(known[1], "Not in the paper: with epsilon 5 the auxiliary model").verdict == HELD


def test_each_data_set_is_compared_with_its_own_print(known):
    folder, runs = known
    assert reported_epochs(PAPER, runs, "office-pdc-frs", PAPER.point_at_printed_value) == {1: 1, 2: 1, 3: 1}
    assert reported_epochs(PAPER, runs, "file-pdc-frs", PAPER.point_at_printed_value) == {1: 2, 2: 2, 3: 2}
    with (folder / "cells.csv").open() as file:
        told = {(row["setting"], row["published"]) for row in csv.DictReader(file) if row["row"] == "FedNCF"}
    assert told == {("file", "0.01529"), ("file", "0.02355"), ("office", "0.00875"), ("office", "0.00385")}


def test_a_report_can_be_had_of_nothing(tmp_path):
    REPORT.write(tmp_path, {}, dict.fromkeys(STUDY.experiments, "not run yet"), planned=174, epochs=20)
    page = (tmp_path / "report.md").read_text()
    assert "0 of 174 runs, of 20 epochs each, are finished" in page
    assert "Leakage of uploads" not in page
