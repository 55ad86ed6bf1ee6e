"""The report of the study: tables beside the print, figures, what is missing."""

from __future__ import annotations

import csv
from collections import Counter
from html.parser import HTMLParser

import pytest
from study_runs import every_rule, line, one_run, write_study_run

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.document import Fold, Heading
from analysis.cda_paper.experiments import checkins, data_of, dp, experiments
from analysis.cda_paper.figures import draw_figures
from analysis.cda_paper.overview import overview
from analysis.cda_paper.published import printed
from analysis.cda_paper.report import write_report
from analysis.cda_paper.tables import paper_tables
from analysis.cda_paper.verdicts import groups, judged

RULES_FOLD = "Under each relevance rule, and beside guessing"


def found(runs, table):
    """Return the parts of a table's section: its grid first."""
    blocks = paper_tables(groups(runs), runs)
    begin = next(i for i, one in enumerate(blocks) if isinstance(one, Heading) and one.name == table)
    rest = blocks[begin + 1 :]
    end = next((i for i, one in enumerate(rest) if isinstance(one, Heading)), len(rest))
    return rest[:end]


def rows(grid):
    """Return the lines of a grid as mappings from heading to field in one line."""
    titles = [title for column in grid.columns for title in column.titles]
    return [dict(zip(titles, (entry.markdown() for entry in row), strict=True)) for row in grid.rows]


def row(runs, table, **wanted):
    fits = (one for one in rows(found(runs, table)[0]) if wanted.items() <= one.items())
    return next(fits)


def folds(runs, table):
    return {one.title: one.blocks[0] for one in found(runs, table) if isinstance(one, Fold)}


def seeds(folder, experiment, observer, accuracies, **more):
    """Return runs of one experiment whose attack reaches these accuracies."""
    return {
        experiment: {
            seed: write_study_run(folder / f"{experiment}-{seed}", every_rule(observer, aac, **more))
            for seed, aac in enumerate(accuracies, start=1)
        }
    }


def test_a_table_has_the_rows_and_columns_of_the_paper(tmp_path):
    runs = one_run(
        tmp_path,
        ex.ML_FEDAVG,
        [x for k in (10, 20, 40, 50, 100) for x in every_rule("coordinator", 0.5, k=k)],
    )
    grid = found(runs, "table9")[0]
    assert [row[0].text for row in grid.rows] == ["K = 10", "K = 20", "K = 40", "K = 50", "K = 100"]
    assert [(column.title, column.parts) for column in grid.columns] == [
        ("row", ()),
        ("Max AAC % full models", ("print", "ours")),
        ("Max AAC % Share less", ("print", "ours")),
        ("random guess %", ("print", "ours")),
        ("setting; rule", ()),
    ]
    assert rows(grid)[0] == {
        "row": "K = 10",
        "Max AAC % full models: print": "49; 41.65–56.35",
        "Max AAC % full models: ours": "✓ 50.0; n = 1",
        "Max AAC % Share less: print": "31; 26.35–35.65",
        "Max AAC % Share less: ours": "–",
        "random guess %: print": "1; 0.5–1.5",
        "random guess %: ours": "✗ 5.3; n = 1",
        "setting; rule": "standardized",
    }


def test_the_best_tenth_is_judged_as_a_minimum_and_shown_as_a_mean(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.4))
    told = row(runs, "table4", data="MovieLens-100k")
    assert told["Best 10 % AAC, least %: ours"] == "✗ 60.0; n = 1"
    assert told["Best 10 % AAC, mean %: ours"] == "64.0; n = 1"


def test_seeds_are_a_mean_with_its_interval(tmp_path):
    runs = seeds(tmp_path, ex.ML_RAND, "single", (0.14, 0.16))
    told = row(runs, "table5", data="MovieLens-100k", row="Rand-Gossip GMF")
    assert told["Max AAC %: ours"] == "✓ 15.0 ± 12.7; n = 2"


def test_membership_is_in_fractions_as_printed(tmp_path):
    about = {
        "observer": "coordinator",
        "momentum": 0.0,
        "round": 8,
        "accuracy": 0.8,
        "precision": 0.3,
        "recall": 0.7,
    }
    lines = [line("coordinator", 0.3, momentum=0.0, relevance="mia-0.4")]
    runs = one_run(tmp_path, ex.ML_FEDAVG, lines, membership=[{**about, "threshold": 0.4}])
    told = row(runs, "table10", row="entropy MIA 0.4")
    assert (told["MIA recall: print"], told["MIA recall: ours"]) == ("0.72; 0.67–0.77", "✓ 0.70; n = 1")
    assert told["Max AAC %: ours"] == "✗ 30.0; n = 1"
    assert row(runs, "table10", row="entropy MIA 0.6")["MIA recall: ours"] == "–"


def test_statistics_count_users_and_are_whole_numbers(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, [line("coordinator", 0.5)], coordinator=943)
    assert row(runs, "table2", data="MovieLens-100k") == {
        "data": "MovieLens-100k",
        "users: print": "943",
        "users: ours": "✓ 943; n = 1",
        "items: print": "1,682",
        "items: ours": "✓ 1,682; n = 1",
        "interactions: print": "100,000",
        "interactions: ours": "✓ 100,000; n = 1",
    }


def test_without_runs_there_are_dashes_and_no_folds():
    for table in ("table2", "table4", "table6", "table9"):
        (grid, *rest) = found({}, table)
        assert {told for one in rows(grid) for title, told in one.items() if title.endswith("ours")} == {"–"}
        assert not any(isinstance(one, Fold) for one in rest)


def test_a_further_setting_is_a_fold_with_the_same_columns_once_it_has_a_run(tmp_path):
    runs = seeds(tmp_path, ex.ML_RAND, "single", (0.3,))
    assert list(folds(runs, "table5")) == [RULES_FOLD]
    runs |= seeds(tmp_path, ex.ML_AUTHORS, "single", (0.146,), k=5)
    told = folds(runs, "table5")
    assert list(told) == ["Further setting: 100 users, K = 5; standardized", RULES_FOLD]
    grid = told["Further setting: 100 users, K = 5; standardized"]
    assert grid.columns == found(runs, "table5")[0].columns
    (one,) = rows(grid)
    assert (one["row"], one["Max AAC %: ours"]) == ("Rand-Gossip GMF", "✓ 14.6; n = 1")
    assert one["setting; rule"] == "100 users, K = 5; standardized"


def test_a_field_names_a_further_setting_that_comes_nearer(tmp_path):
    runs = seeds(tmp_path, ex.ML_RAND, "single", (0.3,)) | seeds(
        tmp_path, ex.ML_AUTHORS, "single", (0.146,), k=5
    )
    told = row(runs, "table5", data="MovieLens-100k", row="Rand-Gossip GMF")
    assert told["Max AAC %: ours"] == "✗ 30.0; n = 1; ✓ with 100 users, K = 5; standardized"


def test_a_field_whose_first_setting_was_not_run_shows_the_next_by_name(tmp_path):
    runs = seeds(tmp_path, checkins("foursquare146", "fedavg", "gmf"), "coordinator", (0.44,), k=5)
    told = row(runs, "table4", data="Foursquare-NYC", row="FedAvg GMF")
    assert told["Max AAC %: ours"] == "✓ 44.0; n = 1"
    assert told["setting; rule"] == "146 users, K = 5; standardized"


def test_a_data_set_without_a_printed_table_has_no_verdict(tmp_path):
    runs = one_run(tmp_path, checkins("gowalla100", "fedavg", "gmf"), every_rule("coordinator", 0.3, k=5))
    told = row(runs, "table4", data="Gowalla", row="FedAvg GMF")
    assert (told["Max AAC %: print"], told["Max AAC %: ours"]) == ("–", "30.0; n = 1")


def test_every_rule_both_bounds_and_guessing_are_in_a_fold(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    assert rows(folds(runs, "table4")[RULES_FOLD])[0] == {
        "data": "MovieLens-100k",
        "row": "FedAvg GMF",
        "what": "Max AAC %",
        "print": "57.4",
        "standardized": "60.0",
        "ndcg": "54.0",
        "mean_score": "48.0",
        "random bound": "5.3",
        "upper bound": "100.0",
        "print / random": "10.8",
        "ours / random": "11.3",
        "setting": "",
    }


def test_a_printed_random_guess_of_its_own_scales_the_printed_value(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.47, k=10))
    (told,) = rows(folds(runs, "table9")[RULES_FOLD])
    assert (told["row"], told["print / random"]) == ("K = 10", "49.0")


def test_numbers_quoted_in_the_text_are_computed_from_the_adversaries(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.5))
    told = row(runs, "text", what="Adversaries above random guess, FedAvg GMF (%)")
    assert (told["ours"], told["reading; rule"]) == ("○ 100.0; n = 1", "MovieLens-100k; standardized")
    assert row(runs, "text", what="FedAvg adversaries with 0 % accuracy (%)")["ours"] == "○ 0.00; n = 1"
    assert row(runs, "text", what="Nodes to control for a global view (N=1000)")["ours"] == "–"


def test_a_verdict_under_another_setting_says_what_the_first_gave(tmp_path):
    runs = seeds(tmp_path, ex.ML_RAND, "single", (0.3,))
    runs |= seeds(tmp_path, ex.ML_AUTHORS, "single", (0.146,), k=5)
    text = "\n".join(block.markdown() for block in overview(judged(groups(runs)), runs))
    (told,) = [one for one in text.splitlines() if "Table 5" in one and "14.6; 11.6–17.6 | ✓" in one]
    assert told.endswith("| 100 users, K = 5; standardized | compared first (standardized): ✗ 30.0 |")
    assert "2 within their band under a named setting (1 under the one compared first)" in text


def test_a_band_that_guessing_reaches_is_said(tmp_path):
    runs = seeds(tmp_path, ex.ML_RAND, "coalition-5%", (0.2,), momentum=0.0)
    text = "\n".join(block.markdown() for block in overview(judged(groups(runs)), runs))
    assert "guessing alone" not in text  # 5.3, far below the band of 18.4
    runs = seeds(tmp_path, checkins("foursquare", "rand-gossip", "prme"), "single", (0.055,))
    text = "\n".join(block.markdown() for block in overview(judged(groups(runs)), runs))
    assert "✓ 5.5; n = 1 | all users, K = 50; standardized | guessing alone gives 5.3 |" in text


@pytest.fixture
def study(tmp_path):
    """Return a folder, and how a report of one run is written into it."""
    runs = one_run(tmp_path / "runs", ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    reasons = {ex.ML_RAND: "failed: no room\non the <disk>"}
    return tmp_path, lambda: write_report(tmp_path, runs, reasons, planned=2)


def test_a_report_of_a_part_says_which_part(study):
    folder, write = study
    write()
    report = (folder / "report.md").read_text()
    assert "1 of 2 runs are finished, made by gossiprec" in report
    assert f"| failed: no room on the &lt;disk> | {ex.ML_RAND} |" in report
    assert (
        f"| {ex.ML_FEDAVG} | cda_table4_ml100k_fedavg.yaml | table2, table4, table9, table10, text, fig2, "
        in report
    )
    assert "All finished runs together took 1:00." in report


def test_every_printed_number_is_in_the_list_once(study):
    folder, write = study
    write()
    report = (folder / "report.md").read_text()
    listed = report[report.index("Each number, by its verdict") : report.index("**Findings**")]
    lines = [one for one in listed.splitlines() if one.startswith(("| Table", "| Text"))]
    assert len(lines) == len(set(lines)) == len(printed()) == 113
    assert "| all, nearest setting | 113 |" in report


class Outline(HTMLParser):
    """What a page is made of; every tag must be closed in its turn, and nothing fetched or run."""

    def __init__(self):
        super().__init__()
        self.open, self.counted, self.links, self.names, self.text = [], Counter(), [], set(), []

    def handle_starttag(self, tag, attrs):
        self.counted[tag] += 1
        told = dict(attrs)
        assert tag not in ("script", "link", "iframe", "object")
        assert not any(name.startswith("on") for name in told)
        self.links += [told[name] for name in ("href", "src") if name in told]
        self.names |= {told["id"]} if "id" in told else set()
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def outline(path):
    found = Outline()
    found.feed(path.read_text())
    found.close()
    assert found.open == []
    return found


def test_pages_are_well_formed_and_need_nothing_else(study):
    folder, write = study
    write()
    for name in ("report", "findings"):
        page = outline(folder / f"{name}.html")
        for link in page.links:
            target = folder / link
            assert link.startswith("#") or target.is_file(), link
        assert {link[1:] for link in page.links if link.startswith("#")} <= page.names


def test_markdown_and_html_say_the_same(study):
    folder, write = study
    write()
    for name in ("report", "findings"):
        text, page = (folder / f"{name}.md").read_text(), outline(folder / f"{name}.html")
        lines = text.splitlines()
        assert page.counted["table"] == sum(one.startswith("| ---") for one in lines)
        assert page.counted["tbody"] == page.counted["table"]
        assert page.counted["details"] == text.count("<details>") == text.count("</details>")
        assert page.counted["h3"] == sum(one.startswith("### ") for one in lines)


def test_what_a_run_says_is_escaped(study):
    folder, write = study
    write()
    page = outline(folder / "report.html")
    assert "failed: no room on the <disk>" in page.text
    assert "disk" not in page.counted


def test_the_table_of_cells_has_a_row_for_each_rule_and_says_which_is_compared(study):
    folder, write = study
    write()
    with (folder / "cells.csv").open() as file:
        own = [r for r in csv.DictReader(file) if (r["table"], r["column"]) == ("table4", "max_aac")]
    assert {r["relevance"]: float(r["measured"]) for r in own} == pytest.approx(
        {"standardized": 60.0, "ndcg": 54.0, "mean_score": 48.0}
    )
    assert {(r["rule"], r["verdict"], r["place"]) for r in own} == {("standardized", "within", "1")}
    assert {(float(r["band_low"]), float(r["band_high"])) for r in own} == {(48.79, 66.01)}


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
