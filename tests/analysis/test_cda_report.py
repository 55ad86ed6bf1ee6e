"""The report of the study: tables beside the print, figures, what is missing."""

from __future__ import annotations

import csv

import pytest
from study_runs import every_rule, line, one_run, write_study_run

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import checkins, data_of, dp, experiments
from analysis.cda_paper.figures import draw_figures
from analysis.cda_paper.report import write_report
from analysis.cda_paper.tables import tables


def rows(runs, table, reasons=None):
    """Return the lines of a table as mappings from heading to text."""
    (found,) = [one for one in tables(runs, reasons or {}) if one.name == table]
    return [dict(zip(found.header, one, strict=True)) for one in found.lines]


def row(runs, table, setting, what, reasons=None):
    (found,) = [r for r in rows(runs, table, reasons) if (r["setting"], r["what"]) == (setting, what)]
    return found


def test_a_cell_stands_beside_the_print_with_every_rule_and_both_bounds(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    assert row(runs, "table4", "fedavg gmf", "Max AAC %") == {
        "data": "MovieLens-100k",
        "setting": "fedavg gmf",
        "what": "Max AAC %",
        "published": "57.4",
        "measured": "60.0",
        "difference": "+2.6",
        "published / random": "10.8",
        "measured / random": "11.3",
        "under ndcg": "54.0",
        "under mean_score": "48.0",
        "random": "5.3",
        "upper bound": "100.0",
    }


def test_the_best_tenth_is_shown_as_minimum_and_as_mean(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.4))
    assert row(runs, "table4", "fedavg gmf", "Best 10 % AAC, least %")["measured"] == "60.0"
    assert row(runs, "table4", "fedavg gmf", "Best 10 % AAC, mean %")["measured"] == "64.0"


def test_seeds_are_a_mean_with_its_spread(tmp_path):
    name = ex.ML_RAND
    runs = {
        name: {
            s: write_study_run(tmp_path / str(s), every_rule("single", a)) for s, a in ((1, 0.14), (2, 0.16))
        }
    }
    found = row(runs, "table5", "rand-gossip gmf", "Max AAC %")
    assert (found["measured"], found["difference"]) == ("15.0 ± 1.4 (2)", "+0.4")


def test_a_printed_random_guess_of_its_own_scales_the_printed_value(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.47, k=10))
    assert row(runs, "table9", "K=10", "Max AAC % full models")["published / random"] == "49.0"


def test_membership_is_in_fractions_as_printed(tmp_path):
    about = {
        "observer": "coordinator",
        "momentum": 0.0,
        "round": 8,
        "accuracy": 0.8,
        "precision": 0.3,
        "recall": 0.6,
    }
    lines = [line("coordinator", 0.3, momentum=0.0, relevance="mia-0.4")]
    runs = one_run(tmp_path, ex.ML_FEDAVG, lines, membership=[{**about, "threshold": 0.4}])
    assert row(runs, "table10", "entropy mia 0.4", "MIA recall")["measured"] == "0.60"
    assert row(runs, "table10", "entropy mia 0.4", "Max AAC %")["measured"] == "30.0"
    assert row(runs, "table10", "entropy mia 0.6", "MIA recall")["measured"] == "the run does not say"


def test_what_is_missing_says_why_in_short():
    reasons = {ex.ML_FEDAVG: "data missing: no ml-100k in there", ex.ML_RAND: "failed: it broke"}
    assert row({}, "table4", "fedavg gmf", "Max AAC %", reasons)["measured"] == "data missing"
    assert row({}, "table5", "rand-gossip gmf", "Max AAC %", reasons)["measured"] == "failed"


def test_a_data_set_without_a_printed_table_is_told_so(tmp_path):
    runs = one_run(tmp_path, checkins("gowalla100", "fedavg", "gmf"), every_rule("coordinator", 0.3, k=5))
    found = row(runs, "table4", "fedavg gmf (100 users, K = 5)", "Max AAC %")
    assert found["published"] == "the print at hand has no table for this data set"
    assert (found["measured"], found["difference"]) == ("30.0", "")


def test_numbers_quoted_in_the_text_are_computed_from_the_adversaries(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.5))
    found = {r["what"]: r["measured"] for r in rows(runs, "text") if r["measured"][:1].isdigit()}
    assert found["Adversaries above random guess, FedAvg GMF (%)"] == "100.0"
    assert found["FedAvg adversaries with 0 % accuracy (%)"] == "0.00"


@pytest.fixture
def study(tmp_path):
    """Return a folder, and how a report of one run is written into it."""
    runs = one_run(tmp_path / "runs", ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    reasons = {ex.ML_RAND: "failed: no room\non the disk"}
    return tmp_path, lambda: write_report(tmp_path, runs, reasons, planned=2)


def test_a_report_of_a_part_says_which_part(study):
    folder, write = study
    write()
    report = (folder / "report.md").read_text()
    assert "1 of 2 runs are finished, made by gossiprec" in report
    assert f"- `{ex.ML_RAND}`: failed: no room on the disk" in report
    assert (
        f"| {ex.ML_FEDAVG} | cda_table4_ml100k_fedavg.yaml | table2, table4, table9, table10, text, fig2, "
        in report
    )
    assert "All finished runs together took 1:00." in report


def test_markdown_and_html_say_the_same(study):
    folder, write = study
    write()
    for name in ("report", "findings"):
        text, page = ((folder / f"{name}{suffix}").read_text() for suffix in (".md", ".html"))
        assert page.startswith("<!doctype html>")
        assert page.count("<table>") == sum(one.startswith("| ---") for one in text.splitlines())
        assert page.count("<tr>") == sum(
            one.startswith("|") and "---" not in one for one in text.splitlines()
        )


def test_the_table_of_cells_has_a_row_for_each_rule(study):
    folder, write = study
    write()
    with (folder / "cells.csv").open() as file:
        found = [r for r in csv.DictReader(file) if (r["table"], r["column"]) == ("table4", "max_aac")]
    assert {r["relevance"]: float(r["measured"]) for r in found} == pytest.approx(
        {"standardized": 60.0, "ndcg": 54.0, "mean_score": 48.0}
    )


def test_a_report_is_the_same_bytes_each_time(study):
    _, write = study
    before = [path.read_bytes() for path in write()]
    assert [path.read_bytes() for path in write()] == before


def every_run(folder):
    """Return a run of every experiment but those on Gowalla."""
    runs = {}
    for experiment in experiments():
        if data_of(experiment) == "gowalla":
            continue
        observer, aac = ("coordinator", 0.5) if "fedavg" in experiment else ("single", 0.15)
        lines = [
            one for k in (5, 50) for b in (0.0, 0.99) for one in every_rule(observer, aac, momentum=b, k=k)
        ]
        metric = "f1@20" if "prme" in experiment else "hr@20"
        runs |= one_run(folder, experiment, lines, metric=metric)
    return runs


def test_every_figure_is_drawn_from_a_whole_study(tmp_path):
    found = draw_figures(every_run(tmp_path), tmp_path / "figures")
    assert list(found) == [f"fig{place}" for place in range(2, 8)]
    for name, paths in found.items():
        assert [path.name for path in paths] == [f"{name}.csv", f"{name}.png", f"{name}.svg"]


def test_figures_hold_the_numbers_of_the_runs(tmp_path):
    runs = one_run(tmp_path, dp("fedavg", 100), every_rule("coordinator", 0.3), utility=0.25)
    runs |= one_run(tmp_path, dp("fedavg", None), every_rule("coordinator", 0.6), utility=0.7)
    draw_figures(runs, tmp_path / "figures")
    lines = (tmp_path / "figures" / "fig6.csv").read_text().splitlines()
    assert lines[1:] == [
        "FedAvg,Max AAC,2.0,30.0",
        "FedAvg,Max AAC,4.0,60.0",
        "FedAvg,HR@20,2.0,25.0",
        "FedAvg,HR@20,4.0,70.0",
    ]


def test_a_distribution_joins_the_adversaries_of_all_seeds(tmp_path):
    name = ex.ML_FEDAVG
    runs = {
        name: {
            s: write_study_run(tmp_path / str(s), every_rule("coordinator", a))
            for s, a in ((1, 0.2), (2, 0.4))
        }
    }
    draw_figures(runs, tmp_path / "figures")
    points = [one.split(",") for one in (tmp_path / "figures" / "fig2.csv").read_text().splitlines()[1:]]
    assert float(points[-1][-1]) == 100
    assert float(points[1][-1]) == pytest.approx(100 / 40)  # 20 adversaries a seed
