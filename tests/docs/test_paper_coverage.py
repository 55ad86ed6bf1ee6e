"""The page on coverage: each printed number has a line, verdicts follow from numbers that pages quote."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from analysis import cda_paper, cl4fedrec, fedcl, pdc_frs, perfedrec_pp

ROOT = Path(__file__).resolve().parents[2]
PAPER_PAGES, SPECS = ROOT / "docs" / "record" / "papers", ROOT.parent / "shared" / "specs"
PRINTED = [SPECS / f"{name}.yaml" for name in ("published", "published_federated", "published_more")]
with (PAPER_PAGES / "coverage.csv").open() as lines:
    CELLS = list(csv.DictReader(lines))
PAGE = (PAPER_PAGES / "coverage.md").read_text()
VERDICTS = ("within", "near", "outside", "cannot be judged")
PAPERS = {
    "cda": ("CDA", "cda.md"),
    "cl4fedrec": ("CL4FedRec", "cl4fedrec.md"),
    "pdc-frs": ("PDC-FRS", "pdc_frs.md"),
    "perfedrec-pp": ("PerFedRec++", "perfedrec_pp.md"),
    "fedcl": ("FedCL", "fedcl.md"),
}
"""By name in the list: the name on the page, and the pages that quote its values."""
NO_RUN = {"no data", "a time of another machine"}
"""Reasons that no run would remove."""
OWN = {"cl4fedrec": cl4fedrec, "pdc-frs": pdc_frs, "perfedrec-pp": perfedrec_pp, "fedcl": fedcl}
STUDIES = {"cda": cda_paper.STUDY, **{name: module.STUDY for name, module in OWN.items()}}


def number(text):
    """Return a printed number: 0.30m is 300,000."""
    digits, unit = re.match(r"([\d.]+)([km]?)", text).groups()
    return float(digits) * {"": 1, "k": 1e3, "m": 1e6}[unit]


def band(cell):
    """Return the range that counts as within."""
    printed, percent = number(cell["printed"]), 0.15 * number(cell["printed"])
    if cell["row"] == "(statistics)":  # as far as printed
        width = 0.5 * 10.0 ** -len(cell["printed"].partition(".")[2]) if "." in cell["printed"] else 0.0
    elif cell["column"] == "%" or "random guess" in cell["row"]:
        width = max(0.5, percent)
    elif cell["paper"] == "cda":
        width = 0.05 if cell["column"].startswith("MIA") else max(3.0, percent)
    else:
        width = percent
    return printed - width - 1e-9, printed + width + 1e-9


def verdict(cell):
    """Return the verdict of a line with a value that can be judged."""
    low, high = band(cell)
    value, half = float(cell["ours"]), float(cell["half_interval"] or 0)
    if low <= value <= high:
        return "within"
    return "near" if value - half <= high and value + half >= low else "outside"


def table():
    """Return the lines of the page's table of verdicts."""
    yield "| paper | cells | " + " | ".join(VERDICTS) + " |"
    yield "|" + "---|" * (2 + len(VERDICTS))
    for paper, words in PAPERS.items():
        counts = Counter(cell["verdict"] for cell in CELLS if cell["paper"] == paper)
        yield (
            "| "
            + " | ".join([words[0], str(sum(counts.values())), *(str(counts[word]) for word in VERDICTS)])
            + " |"
        )


def one_seed():
    """Return the page's list of rows with a value from one seed."""
    groups = {}
    for cell in CELLS:
        if cell["seeds"] == "1":
            key = f"- {PAPERS[cell['paper']][0]}, {cell['table']}, {cell['data']}"
            groups.setdefault(key, {})[cell["row"]] = None
    return "\n".join(f"{key}: {'; '.join(rows)}" for key, rows in groups.items())


def test_the_page_has_the_counts_of_the_file():
    assert "\n".join(table()) in PAGE


def test_the_page_names_every_row_of_one_seed():
    assert one_seed() in PAGE


def test_verdicts_follow_from_the_numbers():
    for cell in CELLS:
        assert cell["verdict"] in VERDICTS
        if cell["verdict"] == "cannot be judged":
            assert cell["note"], cell
        else:
            assert cell["verdict"] == verdict(cell), cell


def test_cells_without_a_value_have_a_reason_and_the_command_of_a_run():
    for cell in CELLS:
        if not cell["ours"] and cell["row"] != "(statistics)" and cell["note"] not in NO_RUN:
            reason, cost, name = re.fullmatch(
                r"(.+?)(: [\d.]+ h a seed)?, --only (\S+)", cell["note"]
            ).groups()
            assert cost or reason == "other data than the paper's", cell
            assert name in STUDIES[cell["paper"]].experiments, cell


@pytest.mark.skipif(not PRINTED[0].exists(), reason="the lists of printed numbers are not here")
def test_every_printed_number_has_a_line_and_no_other():
    listed = [one for file in PRINTED for one in yaml.safe_load(file.read_text())["tables"]]
    keys = ("paper", "table", "dataset", "method", "metric", "value")
    assert Counter(tuple(str(one[key]) for key in keys) for one in listed) == Counter(
        (c["paper"], c["table"], c["data"], c["row"], c["column"], c["printed"]) for c in CELLS
    )


@pytest.mark.parametrize("paper", OWN)
def test_numbers_that_studies_compare_with_have_a_line(paper):
    lines = {round(number(cell["printed"]), 9) for cell in CELLS if cell["paper"] == paper}
    printed = [one.number for one in OWN[paper].PAPER.published.printed_numbers]
    assert {round(value, 9) for value in printed if value is not None} <= lines


def passages(page):
    """Yield the numbers of each row of a table, and of each paragraph, of a page."""
    for block in (PAPER_PAGES / page).read_text().replace(",", "").split("\n\n"):
        rows = [line for line in block.splitlines() if line.lstrip().startswith("|")]
        for part in rows or [block]:
            yield {float(found) for found in re.findall(r"(?<![\d.])\d*\.?\d+", part)}


@pytest.mark.parametrize("paper", PAPERS)
def test_values_of_a_row_are_quoted_together_on_a_page_of_the_study(paper):
    quoted = [numbers for page in PAPERS[paper][1:] for numbers in passages(page)]
    rows = {}
    for cell in CELLS:
        computed = cell["setting"] in ("data", "") or "random guess" in cell["row"]
        if cell["paper"] == paper and cell["ours"] and not computed:
            key = tuple(cell[name] for name in ("table", "data", "row", "setting", "seeds"))
            told = [float(cell[name]) for name in ("ours", "half_interval") if cell[name]]
            rows.setdefault(key, set()).update(told)
    missing = [(key, values) for key, values in rows.items() if not any(values <= found for found in quoted)]
    assert rows
    assert missing == []


def test_data_sets_without_a_judged_number_are_named():
    judged = {(cell["paper"], cell["data"]) for cell in CELLS if cell["verdict"] != "cannot be judged"}
    for cell in CELLS:
        if (cell["paper"], cell["data"]) not in judged:
            assert cell["note"] == "no data"
            assert cell["data"] in PAGE.partition("**No data.**")[2].partition("\n\n")[0]
