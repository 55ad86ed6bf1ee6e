"""Numbers that pages quote are those of committed tables, to the printed digit."""

from __future__ import annotations

import csv
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "analysis" / "poison_matrix" / "measured"
ON_ALL = {"clusterattack", "spattack-limited", "spattack"}
"""Attacks on all items: their success is the loss."""


def committed(name):
    """Return percent and half of the interval by network, rule and attack."""
    with (MEASURED / f"{name}.csv").open() as lines:
        return {
            (row["network"], row["rule"], row["attack"]): (row["percent"], row["half_width"])
            for row in csv.DictReader(lines)
        }


def page_tables(page, *corner):
    """Yield the header and the rows of each table of a page that begins with some words."""
    text = (ROOT / "docs" / page).read_text()
    for block in re.findall(r"(?:^ *\|.*\n)+", text, re.M):
        rows = [[cell.strip(" `") for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()]
        if rows[0][: len(corner)] == [*corner]:
            yield rows[0], rows[2:]


@pytest.mark.parametrize("network", ["federation", "gossip"])
def test_the_page_on_rules_quotes_its_tables(network):
    success, loss = committed("success_all"), committed("loss_all")
    ((header, rows),) = page_tables("poison_matrix.md", network, "psmu")
    for row in rows:
        rule = row[0].replace("no rule", "no-rule")
        for attack, quoted in zip(header[1:7], row[1:7], strict=True):
            source = loss if attack in ON_ALL else success
            assert int(quoted) == round(float(source[network, rule, attack][0])), (rule, attack)
        worst, quoted = row[7].replace("`", "").rsplit(" ", 1)
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
        ((_, rows),) = page_tables("poison_matrix.md", network, "psmu")
        there = {rule for net, rule, _ in committed("success_all") if net == network}
        assert {row[0].replace("no rule", "no-rule") for row in rows} == there


def short(value):
    """Return a fraction as pages write it."""
    return f"{value:.4f}".lstrip("0")


def spread(values):
    """Return a mean over three seeds and half of its 95 % interval (Student's t), as pages write them."""
    return f"{short(statistics.mean(values))} ± {short(4.302653 * statistics.stdev(values) / 3**0.5)}"


def test_the_page_on_pdc_frs_quotes_its_table_of_office_by_file():
    measured = {}
    with (ROOT / "analysis" / "pdc_frs" / "measured" / "office_by_file.csv").open() as lines:
        for row in csv.DictReader(lines):
            seeds = measured.setdefault((row["method"], row["epoch"]), [])
            seeds.append((float(row["recall"]), float(row["ndcg"])))
    ((header, rows),) = page_tables("notes_pdc_frs.md", "by file, Recall@20 (NDCG@20)")
    names = {"most popular items": "popularity", "random order": "random"}
    for name, *quoted, last, _ in rows:
        for epoch, text in zip(header[1:-2], quoted, strict=True):
            if text:
                assert text == short(statistics.mean(one for one, _ in measured[name, epoch]))
        recall, ndcg = zip(*measured[names.get(name, name), "20"], strict=True)
        assert last == f"{spread(recall)} ({spread(ndcg)})", name
    assert {names.get(name, name) for name, *_ in rows} == {method for method, _ in measured}
    for name, quoted in commanded("pdc_frs_study.md"):
        assert is_quoted(quoted, list(zip(*measured[name, "20"], strict=True))), name


def commanded(page):
    """Yield name and numbers of each row of a page's table that `gossiprec table` made."""
    (rows,) = (rows for header, rows in page_tables(page) if header[0] in ("method", "experiment"))
    for name, *cells in rows:
        yield name, [[float(one) for one in cell.strip("*").split(" ± ")] for cell in cells]


def is_quoted(quoted, columns):
    """Return whether means and halves of intervals are those of values of three seeds, which have six digits."""
    numbers = [(statistics.mean(one), 4.302653 * statistics.stdev(one) / 3**0.5) for one in columns]
    return quoted == [pytest.approx(pair, abs=5.1e-5) for pair in numbers]


LOOKS = {"end": "last epoch", "best": "best validation epoch"}
"""Reporting points of studies (analysis.papers.comparison), by the word that heads a column."""


def cells_of(folder):
    """Return values by seed, of each setting, row, column and reporting point (or round) of a study's tables."""
    found = {}
    for path in (ROOT / "analysis" / folder / "measured").glob("*.csv"):
        with path.open() as lines:
            for row in csv.DictReader(lines) if path.stem != "office_by_file" else ():
                key = row["setting"], row["row"], row["column"], row["look"]
                found.setdefault(key, {})[row["seed"]] = float(row["measured"])
    return found


def over_seeds(values):
    """Return a mean over seeds as pages write it: with an interval if there are three."""
    return spread(values) if len(values) == 3 else short(statistics.mean(values))


PAGES = {
    "perfedrec_pp": "notes_perfedrec_pp.md",
    "fedcl": "notes_fedcl.md",
    "pdc_frs": "notes_pdc_frs.md",
    "cl4fedrec": "notes_cl4fedrec.md",
    "all_papers": "all_papers.md",
}
"""The page that quotes a study's table, by folder."""


@pytest.mark.parametrize("folder", PAGES)
def test_pages_of_studies_quote_their_tables(folder):
    """A table of a page that begins with "seeds of `SETTING`"; "A less B" is a row of differences, seed by seed."""
    cells, seen = cells_of(folder), set()
    for header, rows in page_tables(PAGES[folder]):
        setting = re.fullmatch(r"(?:three|one) seeds? of `(.+)", header[0])
        for row in rows if setting else ():
            first, _, second = row[0].partition(" less ")
            for title, quoted in zip(header[1:], row[1:], strict=True):
                column, _, look = title.rpartition(", ")
                if quoted and (look in LOOKS or look.isdecimal()):
                    point = LOOKS.get(look, look)
                    one, two = (cells.get((setting[1], name, column, point)) for name in (first, second))
                    values = [value - (two[seed] if two else 0) for seed, value in one.items()]
                    told = over_seeds(values).replace("-0.", "-.")
                    assert quoted.lstrip("+") == (told if look in LOOKS else told.partition(" ")[0]), (
                        row,
                        title,
                    )
                    seen.add((setting[1], row[0]))
    assert {(setting, row) for setting, row, *_ in cells} <= seen


@pytest.mark.parametrize(
    ("folder", "setting", "columns", "names"),
    [
        ("fedcl", "lastfm", ("HR@10", "nDCG@10"), {}),
        (
            "perfedrec_pp",
            "authors_code",
            ("Recall@20", "NDCG@20"),
            {
                "perfedrec-pp": "PerFedRec++",
                "perfedrec": "PerFedRec",
                "fedgnn": "FedGNN",
                "fedmf": "FedMF",
            },
        ),
    ],
)
def test_tables_of_study_pages_are_those_of_the_committed_ones(folder, setting, columns, names):
    cells, rows = cells_of(folder), dict(commanded(f"{folder}_study.md"))
    for name, quoted in rows.items():
        row = names.get(name.rpartition("\\_code-")[2], name)
        seeds = [cells[setting, row, column, LOOKS["end"]].values() for column in columns]
        assert is_quoted(quoted, seeds), name
    assert len(rows) == 4


@pytest.mark.parametrize(("folder", "paper"), [("fedcl", "fedcl")])
def test_lines_of_coverage_are_those_of_the_tables(folder, paper):
    cells = cells_of(folder)
    settings = {setting for setting, *_ in cells}
    with (ROOT / "docs" / "papers" / "coverage.csv").open() as lines:
        judged = [row for row in csv.DictReader(lines) if row["paper"] == paper]
    judged = [row for row in judged if row["setting"].partition(",")[0] in settings]
    assert judged
    for row in judged:
        key = row["setting"].partition(",")[0], row["row"], row["column"], LOOKS["best"]
        values = list(cells[key].values())
        assert row["seeds"] == str(len(values))
        half = f" ± {row['half_interval']}" if row["half_interval"] else ""
        assert row["ours"] + half == over_seeds(values), row


def test_the_page_of_benchmarks_quotes_the_passes_of_gru4rec():
    measured = {}
    with (ROOT / "benchmarks" / "measured" / "gru4rec.csv").open() as lines:
        for row in csv.DictReader(lines):
            values = [float(row[name]) for name in ("val_hit@10", "hit@10", "full_ndcg@10")]
            measured.setdefault((row["data"], row["loss"]), {})[row["pass"]] = values
    ((header, rows),) = page_tables("benchmarks.md", "GRU4Rec, HR@10 after passes")
    for name, *quoted, best, _ in rows:
        passes = measured.pop(tuple(name.split(", ")))
        for number, text in zip(header[1:-2], quoted, strict=True):
            assert text == (short(passes[number][1]) if number in passes else ""), (name, number)
        chosen = max(passes, key=lambda number: passes[number][0])
        assert best == f"{short(passes[chosen][1])} ({short(passes[chosen][2])}), {chosen}", name
    assert not measured
