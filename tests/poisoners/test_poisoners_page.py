"""What docs/poisoners.md shows works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.scenario import load_scenario
from gossiprec.testing import check_poisoner

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "poisoners.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def drown():
    """Register the poisoner of the page."""
    exec(blocks("python")[0].replace("from __future__ import annotations\n", ""), {"__name__": "page"})
    try:
        yield POISONERS["drown"]
    finally:
        del POISONERS._members["drown"]


def test_the_scenario_loads():
    loaded = load_scenario(yaml.safe_load(blocks("yaml")[0]))
    assert loaded.attackers[0].name == "a-hum"


def test_the_example_keeps_its_contract(drown):
    check_poisoner(drown)


def test_defaults_of_the_page_are_those_of_the_code():
    assert f"`std` {POISONERS['a-hum'].Options().std}" in PAGE
    for name in POISONERS:
        title = "`a-ra` and `a-hum`" if name in ("a-ra", "a-hum") else f"`{name}`"
        section = PAGE.split(f"## {title}")[1].split("\n## ")[0]
        options = POISONERS[name].Options()
        stated = dict(re.findall(r"`(\w+)` \(([\d.]+)\)", section))
        for option, value in stated.items():
            if name != "a-ra" or hasattr(options, option):
                assert float(value) == getattr(options, option), (name, option)
    assert "reconstruction" in PAGE.split("## `psmu`")[1].split("##")[0]


def test_the_table_lists_every_poisoner():
    listed = re.findall(
        r"`([\w-]+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE.split("## The section")[0], re.M))
    )
    assert sorted(listed) == sorted(POISONERS)
