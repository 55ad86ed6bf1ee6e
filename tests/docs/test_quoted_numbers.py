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
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
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
