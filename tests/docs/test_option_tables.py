"""The option tables of the documentation name exactly the options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gossiprec.network.protocols.round_policy import BufferedOptions, RoundOptions
from gossiprec.scenario.definition import FIXED, AttackerChoice, Scenario
from gossiprec.scenario.registries import describe_options, get_registry

DOCS = Path(__file__).resolve().parents[2] / "docs"


def options_of(kind, name):
    """Return the option names of a registered thing."""
    return {option.key.partition(".")[0] for option in describe_options(kind, name)} - {"sampling"}


def table_after(page, heading):
    """Return the rows of the first table below a text of a page, each a list of cells."""
    text = (DOCS / page).read_text()
    lines = text[text.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    end = next(
        (number for number in range(first, len(lines)) if not lines[number].startswith("|")), len(lines)
    )
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines[first:end]]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def names_in(cell, present):
    """Return the option names in a cell: code before a colon, without the keys below an option."""
    names = {code.partition(":")[0] for code in re.findall(r"`([^`]+)`", cell)}
    return {name if name in present else name.partition(".")[0] for name in names}


SECTIONS = {
    "scenario": lambda: {*Scenario.model_fields, "preset"},
    "attackers": lambda: set(AttackerChoice.own_keys()),
    "round": lambda: {"ask", *(f"round.{key}" for key in RoundOptions.model_fields)},
    "buffered": lambda: set(BufferedOptions.model_fields),
    **{name: lambda section=section: set(section.model_fields) for name, section in FIXED.items()},
}
"""Options that no registered thing has, by section."""
TABLES = [
    ("scenarios.md", "## Keys at the top", "scenario"),
    ("scenarios.md", "## `training`", "training"),
    ("scenarios.md", "## `evaluate`", "evaluate"),
    ("scenarios.md", "## `executor`", "executor"),
    ("scenarios.md", "**`rand-gossip`**", "protocols rand-gossip"),
    ("scenarios.md", "**`fedavg`**", "protocols fedavg"),
    ("network.md", "## `network`", "network"),
    ("network.md", "## `churn`", "churn"),
    ("resuming.md", "checkpoint: {", "checkpoint"),
    ("attacks.md", "observers:", "attacks cda"),
    ("coordinator.md", "## Rounds that wait", "round"),
    ("coordinator.md", "There are no rounds", "buffered"),
    ("coordinator.md", "| key of `coordinator` |", "coordinator"),
    ("poisoners.md", "## The section `attackers`", "attackers"),
]
"""Page, a text above the table, and the thing or section of which the first column names the options."""
LISTS = [
    ("data.md", "## Data sets", "datasets", 1),
    ("data.md", "## Splits", "splits", 1),
    ("coordinator.md", "| server | new version |", "servers", 2),
    ("topologies.md", "## Graphs", "topologies", 1),
    ("topologies.md", "## Views that nodes exchange", "samplings", 1),
]
"""Page, a text above the table, kind of the things in the first column, and the column that lists their options."""


@pytest.mark.parametrize(("page", "heading", "owner"), TABLES, ids=lambda value: value.replace(" ", "-"))
def test_the_first_column_names_exactly_the_options(page, heading, owner):
    present = SECTIONS[owner]() if owner in SECTIONS else options_of(*owner.split())
    named = set().union(*(names_in(row[0], present) for row in table_after(page, heading)))
    assert named == present


@pytest.mark.parametrize(("page", "heading", "kind", "column"), LISTS)
def test_each_row_names_exactly_the_options_of_its_things(page, heading, kind, column):
    things = set(get_registry(kind))
    listed = [(name, row[column]) for row in table_after(page, heading) for name in names_in(row[0], things)]
    assert {name for name, _ in listed} == things
    for name, options in listed:
        assert names_in(options, options_of(kind, name)) == options_of(kind, name), name
