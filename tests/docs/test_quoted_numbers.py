"""Numbers that pages quote are those of committed tables, to the printed digit.

A comment `<!-- numbers: FILE -->` below a table names a csv file with the columns `row`, `column` and `measured`,
and, if there are several, `seed`, `setting` and `look`. Its rows and columns have the names of the page, and its
values the page's units; where a cell has several numbers, so has the value. With options the comment is YAML,
`{file: FILE, setting: NAME, labels: NUMBER, middle: median, rows: {...}, columns: {...}}`: how many first cells of a
row are its name (otherwise one), what is quoted of seeds (otherwise means), and other names. A row "A less B" has
differences, seed by seed; a column "HR@10, end" is one look; FILE may have a star. Of
`docs/record/papers/coverage.csv` the setting is the paper, and a row "Table 4, Yelp, MF".
`docs/record/quoted_numbers.md` lists the sections without a file.
"""

from __future__ import annotations

import csv
import itertools
import re
import statistics
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from scipy.stats import t as student

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORD = DOCS / "record"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not page.is_relative_to(RECORD / "decisions")),
]
LIST = RECORD / "quoted_numbers.md"
"""The page that lists sections whose numbers have no committed table."""
LOOKS = {"end": "last epoch", "best": "best validation epoch", "max": "largest"}
"""Reporting points of studies (analysis.papers.comparison), by the word that ends the head of a column."""
NOT_OURS = ("published", "quoted", "aim", "printed", "supplement")
"""First words of columns (or rows) that quote others, or follow from their neighbours."""
ELSEWHERE = {
    "docs/record/poison_matrix.md, What was found": "below",
    "docs/record/benchmarks.md, top, GRU4Rec": "below",
    "docs/record/papers/coverage.md, Tables": "test_paper_coverage",
}
"""Tables that another test compares with their files."""
NUMBER = re.compile(r"(± ?)?(?<![\w.@])([+-]?(?:\d[\d,]*)?\.?\d+(?:e[+-]?\d+)?)")
COMMAND = re.compile(
    r"gossiprec \w+|python3? -m \w|benchmarks/\w+\.py|analysis/\S+\.yaml|scenarios/\S+\.yaml|tests/\w+/"
)


IN_WORDS = re.compile(r"(?<![\w.`/@=:{-])(?:0?\.\d{2,}|\d+(?:\.\d+)? (?:%|points\b|[kMG]i?B\b|m?s\b|us\b))")
"""Numbers in sentences that were probably measured."""
UNIT = r"\b(?:[smh]|us|ms|[kMG]i?B|million|billion|of|to|processes)\b"
QUANTITY = re.compile(rf"(?=.*\d)(?:{NUMBER.pattern}|[\s~<>≤±(),/%–:;×-]|{UNIT})+")


@dataclass(frozen=True)
class Table:
    """A table of a page, with its section, the text in which its command may be, and what its comment says."""

    page: Path
    section: str
    text: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: dict | None

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}, {self.section or 'top'}, {' | '.join(self.header)[:60]}"

    def is_measured(self):
        """Return whether half of the cells are quantities."""
        there = [cell for row in self.rows for cell in row[1:] if cell not in ("", "-", "–")]
        return 2 * sum(bool(QUANTITY.fullmatch(cell)) for cell in there) >= max(1, len(there))

    def columns(self):
        """Return names of columns; a repeated one has its number in brackets."""
        before = [self.header[: place + 1].count(name) for place, name in enumerate(self.header)]
        return [f"{name} ({n})" if n > 1 else name for name, n in zip(self.header, before, strict=True)]

    def labelled(self, number):
        """Yield each row by its name, which its first cells have; an empty one is that of the row above."""
        above = [""] * number
        for row in self.rows:
            above = [cell or last for cell, last in zip(row[:number], above, strict=True)]
            yield ", ".join(one for one in above if one), row


def cells(line):
    """Return the cells of a row without markup."""
    plain = re.sub(r"[\\*`]|\[(?=[^]|]*\]\()|\]\([^)|]*\)", "", line.strip()[1:-1])
    return tuple(cell.strip() for cell in plain.split("|"))


@cache
def tables(page):
    """Return the tables of a page."""
    text = re.sub(
        r"^( *)```.*?^\1```",
        lambda code: re.sub(r"(?m)^ *[|#]", "~", code[0]),
        page.read_text(),
        flags=re.M | re.S,
    )
    first, *chapters = re.split(r"^(?=## )", text, flags=re.M)
    found = []
    for chapter in (first, *chapters):
        for part in re.split(r"^(?=##+ )", chapter, flags=re.M):
            heading = re.match(r"##+ (.*)", part)
            for block in re.finditer(
                r"((?:^ *\|[^\n]*\n)+)(?:\s*<!-- numbers: (.*?) ?-->)?", part, re.M | re.S
            ):
                header, _, *rows = map(cells, block[1].splitlines())
                source = yaml.safe_load(block[2]) if block[2] else None
                source = {"file": source} if isinstance(source, str) else source
                place = heading[1] if heading else "", first + chapter if chapter is not first else first
                found.append(Table(page, *place, header, tuple(rows), source))
    return tuple(found)


MAPPED = [table for page in PAGES for table in tables(page) if table.source]
UNMAPPED = [
    table
    for page in PAGES
    if page != LIST
    for table in tables(page)
    if table.is_measured() and not table.source and not str(table).startswith(tuple(ELSEWHERE))
]


@cache
def measured(file):
    """Return by setting, row, column and look the numbers that were measured together, of each seed."""
    found = {}
    for path in ROOT.glob(file):
        with path.open() as lines:
            rows = [line for line in csv.DictReader(lines) if "measured" in line or line.get("ours")]
        for line in rows:
            key = line.get("setting", ""), line["row"], line["column"], line.get("look", "")
            if path.name == "coverage.csv":  # means of seeds, with half of their intervals
                key = line["paper"], f"{line['table']}, {line['data']}, {line['row']}", line["column"], ""
                line = {"measured": f"{line['ours']} {line['half_interval']}"}
            found.setdefault(key, {})[line.get("seed", "")] = [
                float(text) for text, _ in quoted(line["measured"])
            ]
    return found


def half(values):
    """Return half of the 95 % interval of a mean (Student's t)."""
    return student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5


def quoted(cell):
    """Return each number of a cell, and which function of the seeds' values it is."""
    found, end = [], 0
    for one in NUMBER.finditer(cell):
        what = half if one[1] else statistics.mean
        if found and cell[end : one.start()] in ("-", "–", " to "):
            found[-1][1], what = min, max
        found.append([one[2].replace(",", ""), what])
        end = one.end()
    return found


def expected(numbers, seeds, middle):
    """Return the numbers that a cell should have, and raise an error if values are left."""
    values, place, found = list(zip(*seeds, strict=True)), -1, []
    if len(values) == len(numbers):
        return [middle(one) for one in values]
    for _, what in numbers:
        place = place + 1 if what is statistics.mean else max(place, 0)
        found.append((middle if what is statistics.mean else what)(values[place]))
    if place + 1 < len(values):
        raise IndexError
    return found


def unit_of(text):
    """Return the unit of the last digit of a printed number."""
    digits, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def wrong(cell, seeds, middle):
    """Return the fault of a cell in words, or nothing."""
    numbers = quoted(cell)
    try:
        values = expected(numbers, seeds, middle)
    except (IndexError, statistics.StatisticsError):
        return f"{cell!r} has another number of values than the file"
    if all(
        abs(float(text) - one) <= 0.51 * unit_of(text) for (text, _), one in zip(numbers, values, strict=True)
    ):
        return None
    return f"{cell!r} is {', '.join(f'{one:.6g}' for one in values)} in the file"


def lines(source, row, column):
    """Return the values of the seeds of one row and column."""
    first, _, look = column.rpartition(", ")
    known = measured(source["file"])
    key = source.get("setting", ""), row, column, ""
    return known[key] if key in known or not first else known[*key[:2], first, LOOKS.get(look, look)]


def values_of(source, row, title):
    """Return the values of the seeds of a cell; of a row "A less B" their differences, of several columns all."""
    columns = {str(name): told for name, told in source.get("columns", {}).items()}.get(title, title)
    row = source.get("rows", {}).get(row, row)
    by_seed = {}
    for column in [columns] if isinstance(columns, str) else columns:
        try:
            found = lines(source, row, column)
        except KeyError:
            one, two = (lines(source, name, column) for name in row.split(" less "))
            found = {seed: [one[seed][0] - two[seed][0]] for seed in one.keys() & two.keys()}
        for seed, values in found.items():
            by_seed[seed] = by_seed.get(seed, []) + values
    return list(by_seed.values())


def faults(table):
    """Yield the faults of a table: each cell with a number that its file does not have."""
    labels, middle = table.source.get("labels", 1), getattr(statistics, table.source.get("middle", "mean"))
    for label, row in table.labelled(labels):
        for title, cell in list(zip(table.columns(), row, strict=True))[labels:]:
            if NUMBER.search(cell) and not title.startswith(NOT_OURS) and not label.startswith(NOT_OURS):
                try:
                    fault = wrong(cell, values_of(table.source, label, title), middle)
                except (KeyError, ValueError):
                    fault = "not in the file"
                if fault:
                    yield f"{label} / {title}: {fault}"


@pytest.mark.parametrize("table", MAPPED, ids=str)
def test_numbers_of_a_table_are_those_of_its_file(table):
    assert list(faults(table)) == []


SUMMARIES = {"ours": "half_interval", "percent": "half_width"}
"""Columns of files without seeds: a mean, and half of its interval."""


@cache
def spreads(file, differences):
    """Return mean and half of the interval of each line of a file, or of differences along a row or a column."""
    found = {
        (*key, part): {seed: values[part] for seed, values in by.items()}
        for key, by in measured(file).items()
        for part in range(len(next(iter(by.values()))))
    }
    if differences:
        pairs = (
            (found[one], found[two])
            for one, two in itertools.permutations(found, 2)
            if sum(a != b for a, b in zip(one, two, strict=True)) == 1
        )
        groups = [[one[seed] - two[seed] for seed in one.keys() & two.keys()] for one, two in pairs]
    else:
        groups = [list(by.values()) for by in found.values()]
    known = [(statistics.mean(values), half(values)) for values in groups if len(values) > 1]
    for path in ROOT.glob(file):
        with path.open() as lines:
            for line in csv.DictReader(lines):
                known += [(float(line[a]), float(line[b])) for a, b in SUMMARIES.items() if line.get(b)]
    return known


def files_of(page):
    """Return the files of a page: those of its tables and of its comments on sentences, and the one of all papers."""
    named = re.findall(r"<!-- sentences: (.*?) -->", page.read_text())
    return {one.source["file"] for one in MAPPED if one.page == page} | {
        *named,
        "docs/record/papers/coverage.csv",
    }


INTERVAL = re.compile(r"([+-]?)(\d*\.?\d+)\s±\s(\d*\.?\d+)")
"""A number with half of its interval; a sign means a difference."""


def unknown_intervals(page):
    """Yield each interval in a sentence that no file of the page has, if its section is not listed without a file."""
    listed = [section for name, section, _ in tables(LIST)[0].rows if Path(name).name == page.name]
    for part in re.split(r"^(?=##+ )", page.read_text(), flags=re.M):
        heading = re.match(r"##+ (.*)", part)
        if (heading[1].replace("`", "") if heading else "top") in listed:
            continue
        for sign, number, size in INTERVAL.findall(re.sub(r"(?m)^ *\|.*$", "", part)):
            known = [pair for file in files_of(page) for pair in spreads(file, bool(sign))]
            if not any(
                abs(mean - float(sign + number)) <= 0.51 * unit_of(number)
                and abs(wide - float(size)) <= 0.51 * unit_of(size)
                for mean, wide in known
            ):
                yield f"{sign}{number} ± {size}"


@pytest.mark.parametrize(
    "page", [one for one in PAGES if INTERVAL.search(one.read_text())], ids=lambda one: one.stem
)
@pytest.mark.cases(5)
def test_intervals_in_sentences_are_those_of_the_files(page):
    listed = {told for name, told in tables(LIST)[1].rows if Path(name).name == page.name}
    assert {*unknown_intervals(page)} <= {one for told in listed for one in told.split(", ")}


def test_every_row_of_a_file_is_quoted():
    quoted_rows = {}
    for table in MAPPED:
        labels = [label for label, _ in table.labelled(table.source.get("labels", 1))]
        names = [table.source.get("rows", {}).get(label, label) for label in labels]
        for path in {*ROOT.glob(table.source["file"])} - {RECORD / "papers" / "coverage.csv"}:
            there = quoted_rows.setdefault(path, set())
            there.update((table.source.get("setting", ""), name) for name in names)
    for path, rows in quoted_rows.items():
        assert {key[:2] for key in measured(str(path.relative_to(ROOT)))} <= rows, path


def test_a_measured_table_names_its_file_or_is_listed():
    listed = {(Path(page).name, section.replace("top", "")) for page, section, _ in tables(LIST)[0].rows}
    assert {(one.page.name, one.section.replace("`", "")) for one in UNMAPPED} == listed


@pytest.mark.parametrize(
    "page", sorted({table.page for table in (*MAPPED, *UNMAPPED)}), ids=lambda page: page.name
)
def test_a_section_with_measured_numbers_has_a_command(page):
    assert [
        str(table) for table in (*MAPPED, *UNMAPPED) if table.page == page and not COMMAND.search(table.text)
    ] == []


SAME = {
    "-regularizer": "CL4FedRec",
    "CL4FedRec+Regularizer": "rCL4FedRec",
    "FedNCF+Aug+CL (PDC-FRS)": "PDC-FRS",
}
"""Rows of papers that are another row."""


@pytest.mark.parametrize("folder", ["cda_paper", "cl4fedrec", "fedcl", "pdc_frs", "perfedrec_pp"])
def test_lines_of_coverage_are_those_of_the_tables(folder):
    source = {"file": f"analysis/{folder}/measured/*.csv", "rows": SAME}
    paper = folder.replace("_", "-").removesuffix("-paper")
    settings = {setting for setting, *_ in measured(source["file"])} - {""}
    with (RECORD / "papers" / "coverage.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["paper"] == paper]
    judged = [row for row in rows if row["setting"].partition(",")[0] in settings]
    assert judged
    for row in judged:
        source["setting"], _, point = row["setting"].partition(", ")
        column = {"Recall": "Recall@20", "NDCG": "NDCG@20"}.get(row["column"], row["column"])
        look = "max" if column.startswith(("Max", "Best")) else "best" if "best" in point else "end"
        values = values_of(source, row["row"], f"{column}, {look}")
        assert row["seeds"] == str(len(values))
        told = row["ours"] + (f" ± {row['half_interval']}" if row["half_interval"] else "")
        assert wrong(told, values, statistics.mean) is None, row


def test_measured_numbers_in_sentences_have_a_command():
    without = set()
    for page in PAGES:
        text = re.sub(r"^( *)```ya?ml.*?^\1```", "", page.read_text(), flags=re.M | re.S)
        first, *chapters = re.split(r"^## ", text, flags=re.M)
        for chapter in chapters:
            words = re.sub(r"^ *\|.*|`[^`]*`|\]\([^)]*\)", "", chapter, flags=re.M)
            if len(IN_WORDS.findall(words)) > 2 and not COMMAND.search(first + chapter):
                without.add((page.name, chapter.partition("\n")[0]))
    assert without == set()


MATRIX = ROOT / "analysis" / "poison_matrix" / "measured"
ON_ALL = {"clusterattack", "spattack-limited", "spattack"}
"""Attacks on all items: their success is the loss."""


def committed(name):
    """Return percent and half of the interval by network, rule and attack."""
    with (MATRIX / f"{name}.csv").open() as lines:
        return {
            (row["network"], row["rule"], row["attack"]): (row["percent"], row["half_width"])
            for row in csv.DictReader(lines)
        }


@pytest.mark.parametrize("network", ["federation", "gossip"])
def test_the_page_on_rules_quotes_its_tables(network):
    success, loss = committed("success_all"), committed("loss_all")
    (table,) = (one for one in tables(RECORD / "poison_matrix.md") if one.header[:2] == (network, "psmu"))
    for row in table.rows:
        rule = row[0].replace("no rule", "no-rule")
        for attack, quoted in zip(table.header[1:7], row[1:7], strict=True):
            source = loss if attack in ON_ALL else success
            assert int(quoted) == round(float(source[network, rule, attack][0])), (rule, attack)
        worst, quoted = row[7].rsplit(" ", 1)
        assert int(quoted) == round(float(loss[network, rule, worst][0])), (rule, worst)
        lost = {
            of: float(value)
            for (net, by, of), (value, _) in loss.items()
            if (net, by) == (network, rule) and value
        }
        cost, _, half = row[8].partition(" ± ")
        assert int(cost) == round(lost.pop("no-attack"))
        assert not half or int(half) == round(float(loss[network, rule, "no-attack"][1]))
        assert max(lost.values()) == lost[worst]


def test_every_rule_of_the_committed_tables_is_on_the_page():
    for network in ("federation", "gossip"):
        (table,) = (one for one in tables(RECORD / "poison_matrix.md") if one.header[:2] == (network, "psmu"))
        there = {rule for net, rule, _ in committed("success_all") if net == network}
        assert {row[0].replace("no rule", "no-rule") for row in table.rows} == there


def short(value):
    """Return a fraction as pages write it."""
    return f"{value:.4f}".lstrip("0")


OPEN = re.compile(r" \(not finished, epoch \d+\)")


def test_rows_of_movielens_are_the_reports_with_the_best_validation():
    reports, rows = {}, measured("benchmarks/measured/field.csv")
    for (_, model, column, epoch), seeds in measured("benchmarks/measured/ml1m.csv").items():
        for seed, (value,) in seeds.items():
            reports.setdefault((model, seed), {}).setdefault(column, {})[epoch] = value
    for (model, seed), columns in reports.items():
        chosen = max(columns["validation MRR@10"], key=columns["validation MRR@10"].get)
        assert columns["best report"][""] == int(chosen)
        for column in ("Recall@10", "NDCG@10"):
            (found,) = (
                (seeds.get(seed) or seeds[""])[0]
                for (_, label, kind, _), seeds in rows.items()
                if kind == "here" and OPEN.sub("", label) == f"MovieLens-1M, {model}, {column}"
            )
            assert found == columns[column][chosen]


def test_the_page_of_benchmarks_quotes_the_passes_of_gru4rec():
    measured = {}
    with (ROOT / "benchmarks" / "measured" / "gru4rec.csv").open() as lines:
        for row in csv.DictReader(lines):
            values = [float(row[name]) for name in ("val_hit@10", "hit@10", "full_ndcg@10")]
            measured.setdefault((row["data"], row["loss"]), {})[row["pass"]] = values
    (table,) = (
        one for one in tables(RECORD / "benchmarks.md") if one.header[0] == "GRU4Rec, HR@10 after passes"
    )
    for name, *quoted, best, _ in table.rows:
        passes = measured.pop(tuple(name.split(", ")))
        for number, text in zip(table.header[1:-2], quoted, strict=True):
            assert text == (short(passes[number][1]) if number in passes else ""), (name, number)
        chosen = max(passes, key=lambda number: passes[number][0])
        assert best == f"{short(passes[chosen][1])} ({short(passes[chosen][2])}), {chosen}", name
    assert not measured
