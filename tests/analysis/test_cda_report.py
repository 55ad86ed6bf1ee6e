"""The report of the study: tables beside the print, figures, what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest
from study_runs import every_rule, line, one_run, write_study_run

import analysis.cda_paper as ex
from analysis.cda_paper import PUBLISHED, STUDY, dataset_name, dp_experiment
from analysis.cda_paper.figures import paper_figures
from analysis.cda_paper.measures import (
    CSV_HEADER,
    MAIN_RULE,
    NumberResults,
    ReportCell,
    RunNumber,
    collect_number_results,
    compute_cell_result,
    csv_rows,
    single_attack,
)
from analysis.cda_paper.report import REPORT, overview_blocks, table_blocks
from analysis.papers.comparison import PrintedNumber
from analysis.papers.document import Collapsible, Heading
from analysis.papers.figures import draw_figures


@dataclass(frozen=True)
class Told(RunNumber):
    """A measure that says what it is told, by seed."""

    values: tuple[float, ...] = ()
    experiments: tuple[str, ...] = ()
    uses_relevance_rule: bool = True

    def value_of_runs(self, runs, relevance_rule):
        raise NotImplementedError

    def values_by_seed(self, runs, relevance_rule=MAIN_RULE):
        return dict(enumerate(self.values, start=1))


def group(table, row, column, *told, dataset="movielens-100k", value=None, **of_cell):
    """Return a printed number with results by setting: name to values, the first of which is compared first."""
    if value is None:
        about = (table, dataset, row, column)
        (number,) = [p for p in PUBLISHED.printed_numbers if (p.table, p.dataset, p.row, p.column) == about]
    else:
        number = PrintedNumber(table, dataset, row, column, value)
    cells = [ReportCell(number, name, Told(tuple(values)), **of_cell) for name, values in told]
    return NumberResults(number, tuple(compute_cell_result(cell, {}) for cell in cells))


def section(groups, runs=None):
    """Return the parts of the only table's section: its grid first."""
    heading, *blocks = table_blocks(groups, runs or {})
    assert isinstance(heading, Heading)
    return blocks


def rows(grid):
    """Return the lines of a grid as mappings from heading to field in one line."""
    titles = [title for column in grid.columns for title in column.titles]
    return [dict(zip(titles, (entry.markdown() for entry in row), strict=True)) for row in grid.rows]


def folds(blocks):
    return {one.title: one.blocks[0] for one in blocks if isinstance(one, Collapsible)}


def by_rule(found, runs):
    """Return the lines of a table under each rule, of groups that have attacks."""
    return rows(folds(section(found, runs))["Under each relevance rule, and compared with guessing"])


def test_a_table_has_the_rows_and_columns_of_the_paper():
    found = [
        group("table9", f"K={k}", column, ("", values))
        for k, values in ((10, (50.0,)), (20, ()))
        for column in ("full", "share_less", "random")
    ]
    grid, *rest = section(found)
    assert [(column.title, column.parts) for column in grid.columns] == [
        ("row", ()),
        ("Max AAC % full models", ("printed", "ours")),
        ("Max AAC % Share less", ("printed", "ours")),
        ("random guess %", ("printed", "ours")),
        ("setting; rule", ()),
    ]
    assert rows(grid) == [
        {
            "row": "K = 10",
            "Max AAC % full models: printed": "49; 41.65–56.35",
            "Max AAC % full models: ours": "✓ 50.0; n = 1",
            "Max AAC % Share less: printed": "31; 26.35–35.65",
            "Max AAC % Share less: ours": "✗ 50.0; n = 1",
            "random guess %: printed": "1; 0.5–1.5",
            "random guess %: ours": "✗ 50.0; n = 1",
            "setting; rule": "standardized",
        },
        {
            "row": "K = 20",
            "Max AAC % full models: printed": "51; 43.35–58.65",
            "Max AAC % full models: ours": "–",
            "Max AAC % Share less: printed": "32; 27.2–36.8",
            "Max AAC % Share less: ours": "–",
            "random guess %: printed": "2; 1.5–2.5",
            "random guess %: ours": "–",
            "setting; rule": "standardized",
        },
    ]
    assert rest == []  # nothing to fold, nothing to remark


def test_seeds_are_a_mean_with_its_interval():
    def ours(*values):
        grid, *_ = section([group("table5", "rand-gossip gmf", "max_aac", ("", values))])
        return rows(grid)[0]["Max AAC %: ours"]

    assert ours(14.0, 16.0) == "✓ 15.0 ± 12.7; n = 2"
    assert ours(8.0, 10.0) == "≈ 9.0 ± 12.7; n = 2"
    assert ours(15.0, 15.0) == "✓ 15.0; n = 2"
    assert ours(15.0) == "✓ 15.0; n = 1"


def test_the_best_tenth_is_judged_as_a_minimum_and_shown_as_a_mean(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.4))
    own = [one for one in collect_number_results(runs) if one.printed.table == "table4"]
    (told,) = [one for one in rows(section(own, runs)[0]) if one["data"] == "MovieLens-100k"]
    assert "✗ 60.0; n = 1" in told["Best 10 % AAC, least %: ours"]
    assert told["Best 10 % AAC, mean %: ours"] == "64.0; n = 1"


def test_fractions_are_told_as_printed():
    grid, *_ = section([group("table10", "entropy mia 0.4", "recall", ("", (0.7,)))])
    assert list(rows(grid)[0].values())[:2] == ["0.72; 0.67–0.77", "✓ 0.70; n = 1"]


def test_statistics_count_users_and_are_whole_numbers(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, [line("coordinator", 0.5)], coordinator=943)
    own = [one for one in collect_number_results(runs) if one.printed.table == "table2"]
    told, _ = rows(section(own, runs)[0])
    assert told == {
        "data": "MovieLens-100k",
        "users: printed": "943",
        "users: ours": "✓ 943; n = 1",
        "items: printed": "1,682",
        "items: ours": "✓ 1,682; n = 1",
        "interactions: printed": "100,000",
        "interactions: ours": "✓ 100,000; n = 1",
    }


def test_without_runs_a_table_has_dashes_and_no_folds():
    settings = [(name, ()) for name in "abc"]
    grid, *rest = section(
        [group("table5", "rand-gossip gmf", column, *settings) for column in ("max_aac", "best10")]
    )
    (told,) = rows(grid)
    assert [told[title] for title in told if title.endswith("ours")] == ["–", "–"]
    assert rest == []


@pytest.fixture
def two():
    """Two rows; one was run in a further setting, which comes nearer, the other has none."""
    return [
        group("table5", "rand-gossip gmf", "max_aac", ("a", (30.0,)), ("b", (14.6,)), ("c", ())),
        group("table5", "pers-gossip gmf", "max_aac", ("a", (14.0,))),
    ]


def test_a_further_setting_is_a_fold_with_the_same_columns_once_it_has_a_run(two):
    grid, *rest = section(two)
    assert list(folds(rest)) == ["Further setting: b; standardized: ✓ 1"]
    further = folds(rest)["Further setting: b; standardized: ✓ 1"]
    assert further.columns == grid.columns
    (told,) = rows(further)
    assert (told["row"], told["Max AAC %: ours"]) == ("Rand-Gossip GMF", "✓ 14.6; n = 1")
    assert told["setting; rule"] == "b; standardized"


def test_a_field_names_a_further_setting_that_comes_nearer(two):
    first, second = rows(section(two)[0])
    assert first["Max AAC %: ours"] == "✗ 30.0; n = 1; ✓ with b; standardized"
    assert second["Max AAC %: ours"] == "✓ 14.0; n = 1"


def test_a_field_whose_first_setting_was_not_run_shows_the_next_by_name():
    found = [group("table5", "rand-gossip gmf", "max_aac", ("a", ()), ("b", (14.6,)))]
    grid, *rest = section(found)
    (told,) = rows(grid)
    assert (told["Max AAC %: ours"], told["setting; rule"]) == ("✓ 14.6; n = 1", "b; standardized")
    assert rest == []


def test_a_field_of_another_setting_than_its_row_says_so():
    found = [
        group("table5", "rand-gossip gmf", "max_aac", ("a", (14.6,))),
        group("table5", "rand-gossip gmf", "best10", ("b", (32.0,))),
    ]
    (told,) = rows(section(found)[0])
    assert told["setting; rule"] == "a; standardized"
    assert told["Best 10 % AAC, least %: ours"] == "✓ 32.0; n = 1; b; standardized"


def test_the_rule_compared_is_that_of_the_cell():
    (told,) = rows(section([group("table5", "rand-gossip gmf", "max_aac", ("a", (1.0,)), rule="ndcg")])[0])
    assert told["setting; rule"] == "a; ndcg"


def test_why_a_number_differs_is_said_once_with_its_rows_or_none_if_they_are_all():
    who = ("rand-gossip gmf", "pers-gossip gmf")
    both = [group("table5", row, "max_aac", ("a", (1.0,)), note="this\nthat") for row in who]
    _, remark = section(both)
    assert remark.markdown() == "- this\n- that"
    one = [both[0], group("table5", who[1], "max_aac", ("a", (1.0,)), note="that")]
    _, remark = section(one)
    assert remark.markdown() == "- Rand-Gossip GMF: this\n- that"


def test_what_is_said_of_a_further_setting_alone_is_in_its_fold():
    number = group("table5", "rand-gossip gmf", "max_aac").printed
    cells = [
        ReportCell(number, "a", Told((1.0,)), note="both"),
        ReportCell(number, "b", Told((2.0,)), note="late\nboth"),
    ]
    _, remark, fold = section([NumberResults(number, tuple(compute_cell_result(cell, {}) for cell in cells))])
    assert remark.markdown() == "- both"
    assert fold.blocks[1].markdown() == "- late"


def test_a_data_set_without_a_printed_table_has_no_verdict():
    found = [group("table4", "fedavg gmf", "max_aac", ("a", (30.0,)), dataset="gowalla", value="")]
    found.append(group("table4", "fedavg gmf", "max_aac", ("a", (30.0,))))
    grid, remark = section(found)
    told, _ = rows(grid)
    assert (told["Max AAC %: printed"], told["Max AAC %: ours"]) == ("–", "30.0; n = 1")
    assert remark.markdown() == "- Gowalla: the published paper has no table for this data set"


def test_every_rule_both_bounds_and_guessing_are_in_a_fold(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    number = group("table4", "fedavg gmf", "max_aac").printed
    found = [
        NumberResults(
            number, (compute_cell_result(ReportCell(number, "a", single_attack(ex.ML_FEDAVG)), runs),)
        )
    ]
    assert by_rule(found, runs) == [
        {
            "quantity": "Max AAC %",
            "printed": "57.4",
            "standardized": "60.0",
            "ndcg": "54.0",
            "mean_score": "48.0",
            "random bound": "5.3",
            "upper bound": "100.0",
            "printed / random": "10.8",
            "ours / random": "11.3",
            "setting": "a",
        }
    ]


def test_a_printed_random_guess_of_its_own_scales_the_printed_value(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.47, k=10))
    number = group("table9", "K=10", "full").printed
    found = [
        NumberResults(
            number, (compute_cell_result(ReportCell(number, "a", single_attack(ex.ML_FEDAVG, 10)), runs),)
        )
    ]
    (told,) = by_rule(found, runs)
    assert told["printed / random"] == "49.0"


def test_numbers_quoted_in_the_text_are_computed_from_the_adversaries(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.5))
    own = [one for one in collect_number_results(runs) if one.printed.table == "text"]
    told = {one["quantity"]: one["ours"] for one in rows(section(own, runs)[0]) if one["quantity"]}
    assert told["Adversaries above random guess, FedAvg GMF (%)"] == "○ 100.0; n = 1"
    assert told["FedAvg adversaries with 0 % accuracy (%)"] == "○ 0.00; n = 1"
    assert told["Nodes to control for a global view (N=1000)"] == "–"


def text_of(found, runs=None):
    return "\n".join(block.markdown() for block in overview_blocks(found, runs or {}))


def test_a_verdict_under_another_setting_says_what_the_first_gave(two):
    text = text_of(two)
    assert "| b; standardized | nearest of 2 settings; compared first (a; standardized): ✗ 30.0 |" in text
    assert "2 within their band under a named setting (1 under the one compared first)" in text
    assert "| all, nearest setting | 2 | 2 |" in text
    assert "| all, setting compared first | 2 | 1 |  | 1 |" in text


def test_a_band_that_guessing_reaches_is_said(tmp_path):
    """5.3 % lies in 2.8 to 8.8, and below 11.6 to 17.6."""

    def told(row, dataset, aac):
        runs = one_run(tmp_path / dataset, ex.ML_RAND, every_rule("single", aac))
        number = group("table5", row, "max_aac", dataset=dataset).printed
        return text_of(
            [
                NumberResults(
                    number, (compute_cell_result(ReportCell(number, "a", single_attack(ex.ML_RAND)), runs),)
                )
            ],
            runs,
        )

    said = told("rand-gossip prme-g", "foursquare-nyc", 0.055)
    assert "✓ 5.5; n = 1 | a; standardized | guessing gives 5.3 |" in said
    assert "✓ 14.6; n = 1 | a; standardized |  |" in told("rand-gossip gmf", "movielens-100k", 0.146)


@pytest.fixture
def study(tmp_path):
    """Return a folder, and how a report of one run is written into it."""
    runs = one_run(tmp_path / "runs", ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    reasons = {ex.ML_RAND: "failed: no room\non the <disk>"}
    return tmp_path, lambda: REPORT.write(tmp_path, runs, reasons, planned=2)


@pytest.mark.slow
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


@pytest.mark.slow
def test_every_printed_number_is_in_the_list_once(study):
    folder, write = study
    write()
    report = (folder / "report.md").read_text()
    listed = report[report.index("Each number, by its verdict") : report.index("**Findings**")]
    lines = [one for one in listed.splitlines() if one.startswith(("| Table", "| Text"))]
    assert len(lines) == len(set(lines)) == len(PUBLISHED.printed_numbers) == 113
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


@pytest.mark.slow
def test_pages_are_well_formed_and_need_nothing_else(study):
    folder, write = study
    write()
    for name in ("report", "findings"):
        page = outline(folder / f"{name}.html")
        for link in page.links:
            target = folder / link
            assert link.startswith("#") or target.is_file(), link
        assert {link[1:] for link in page.links if link.startswith("#")} <= page.names


@pytest.mark.slow
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


def csv_of(runs, *cells):
    found = [NumberResults(cells[0].printed, tuple(compute_cell_result(cell, runs) for cell in cells))]
    return [dict(zip(CSV_HEADER, one, strict=True)) for one in csv_rows(found, runs)]


def test_the_long_form_has_each_rule_of_an_attack_once_and_says_which_is_compared(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    number, attack = group("table4", "fedavg gmf", "max_aac").printed, single_attack(ex.ML_FEDAVG)
    told = csv_of(runs, ReportCell(number, "a", attack), ReportCell(number, "a", attack, rule="ndcg"))
    assert [(one["place"], one["rule"], one["relevance"], one["verdict"]) for one in told] == [
        (1, "standardized", "standardized", "within"),
        (1, "standardized", "mean_score", "within"),
        (2, "ndcg", "ndcg", "within"),
    ]
    assert [one["measured"] for one in told] == pytest.approx([60.0, 48.0, 54.0])
    assert {(one["band_low"], one["band_high"]) for one in told} == {(48.79, 66.01)}


def test_a_number_that_knows_no_rule_is_in_the_long_form_once(tmp_path):
    runs = one_run(tmp_path, ex.ML_FEDAVG, every_rule("coordinator", 0.6))
    number = group("table4-bounds", "random bound", "bound").printed
    (told,) = csv_of(runs, ReportCell(number, "a", single_attack(ex.ML_FEDAVG, quantity="random_bound")))
    assert (told["rule"], told["relevance"], told["measured"]) == ("", "", pytest.approx(5.3))


@pytest.mark.slow
@pytest.mark.full
def test_a_report_is_the_same_bytes_each_time(study):
    _, write = study
    before = [path.read_bytes() for path in write()]
    assert [path.read_bytes() for path in write()] == before


def every_run(folder):
    """Return a run of every experiment but those on Gowalla."""
    runs = {}
    for experiment in STUDY.experiments:
        if dataset_name(experiment) == "gowalla":
            continue
        observer, aac = ("coordinator", 0.5) if "fedavg" in experiment else ("single", 0.15)
        lines = [
            one for k in (5, 50) for b in (0.0, 0.99) for one in every_rule(observer, aac, momentum=b, k=k)
        ]
        metric = "f1@20" if "prme" in experiment else "hr@20"
        runs |= one_run(folder, experiment, lines, metric=metric)
    return runs


@pytest.mark.slow
@pytest.mark.full
def test_every_figure_is_drawn_from_a_whole_study(tmp_path):
    found = draw_figures(paper_figures(), every_run(tmp_path), tmp_path / "figures")
    assert list(found) == [f"fig{place}" for place in range(2, 8)]
    for name, paths in found.items():
        assert [path.name for path in paths] == [f"{name}.csv", f"{name}.png", f"{name}.svg"]


def test_figures_hold_the_numbers_of_the_runs(tmp_path):
    runs = one_run(tmp_path, dp_experiment("fedavg", 100), every_rule("coordinator", 0.3), utility=0.25)
    runs |= one_run(tmp_path, dp_experiment("fedavg", None), every_rule("coordinator", 0.6), utility=0.7)
    draw_figures(paper_figures(), runs, tmp_path / "figures")
    lines = (tmp_path / "figures" / "fig6.csv").read_text().splitlines()
    assert lines[1:] == [
        "FedAvg,Max AAC,2.0,30.0",
        "FedAvg,Max AAC,4.0,60.0",
        "FedAvg,HR@20,2.0,25.0",
        "FedAvg,HR@20,4.0,70.0",
    ]


@pytest.mark.slow
def test_a_distribution_joins_the_adversaries_of_all_seeds(tmp_path):
    name = ex.ML_FEDAVG
    runs = {
        name: {
            s: write_study_run(tmp_path / str(s), every_rule("coordinator", a))
            for s, a in ((1, 0.2), (2, 0.4))
        }
    }
    draw_figures(paper_figures(), runs, tmp_path / "figures")
    points = [one.split(",") for one in (tmp_path / "figures" / "fig2.csv").read_text().splitlines()[1:]]
    assert float(points[-1][-1]) == 100
    assert float(points[1][-1]) == pytest.approx(100 / 40)  # 20 adversaries a seed
