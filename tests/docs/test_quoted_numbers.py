"""Numbers that pages quote are those of committed tables, to the printed digit."""

from __future__ import annotations

import csv
import re
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


def page_tables(page, corner):
    """Yield the header and the rows of each table of attacks of a page that begins with a word."""
    text = (ROOT / "docs" / page).read_text()
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [[cell.strip(" `") for cell in line.strip("|\n ").split("|")] for line in block.splitlines()]
        if rows[0][:2] == [corner, "psmu"]:
            yield rows[0], rows[2:]


@pytest.mark.parametrize("network", ["federation", "gossip"])
def test_the_page_on_rules_quotes_its_tables(network):
    success, loss = committed("success_all"), committed("loss_all")
    ((header, rows),) = page_tables("poison_matrix.md", network)
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
        ((_, rows),) = page_tables("poison_matrix.md", network)
        there = {rule for net, rule, _ in committed("success_all") if net == network}
        assert {row[0].replace("no rule", "no-rule") for row in rows} == there
