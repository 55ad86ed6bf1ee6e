"""The trial of the times of dry runs: its scenarios are valid, and a time counts only inside a given interval."""

import importlib
import sys
from pathlib import Path

import pytest

from gossiprec.scenario import load_scenario

ROOT = Path(__file__).parents[2]


@pytest.fixture
def estimates(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("estimates")
    for name in ("estimates", "common"):
        sys.modules.pop(name)


def test_twenty_scenarios_are_valid(estimates):
    assert len(estimates.SCENARIOS) == 20
    for file, *changes in estimates.SCENARIOS.values():
        load_scenario(ROOT / "scenarios" / file, changes)


@pytest.mark.parametrize(
    ("low", "high", "inside"), [(1, 8, True), (5, 8, True), (6, 8, False), (1, 4, False), (None, None, False)]
)
def test_the_time_without_compiling_is_compared_with_the_interval(
    estimates, monkeypatch, tmp_path, low, high, inside
):
    def told(*arguments, rates):
        if "--dry-run" in arguments:
            return {"seconds": low and {"seconds": 3, "low": low, "high": high}}
        return {"wall_seconds": 7, "seconds": {"compile": 2}, "processor_seconds": 4}

    monkeypatch.setattr(estimates, "gossiprec", told)
    assert estimates.trial("fcf", tmp_path, tmp_path)["inside"] is inside
