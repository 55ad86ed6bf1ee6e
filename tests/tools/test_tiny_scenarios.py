"""The tiny scenarios of the benchmarks: each is valid, and together they use every registered name."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from gossiprec.measures.selectors import measure_name
from gossiprec.scenario import load_scenario
from gossiprec.scenario.registries import KINDS, get_registry

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WITHOUT_A_SCENARIO = {"trackers", "unlearners", "measures"}
"""Kinds that no scenario names: options of commands, and measures, which are parts of metrics."""


@pytest.fixture(scope="module")
def tiny():
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("tiny_scenarios")
    sys.path.remove(str(BENCHMARKS))
    sys.modules.pop("tiny_scenarios")


def words_of(plain):
    """Yield all text in plain data."""
    if isinstance(plain, dict):
        plain = plain.values()
    elif not isinstance(plain, list):
        yield plain
        return
    for part in plain:
        yield from words_of(part)


def test_every_registered_name_is_in_a_tiny_scenario(tiny):
    words = set(words_of(list(tiny.SCENARIOS.values())))
    missing = {kind: set(get_registry(kind)) - words for kind in KINDS if kind not in WITHOUT_A_SCENARIO}
    metrics = {word for plain in tiny.SCENARIOS.values() for word in plain["evaluate"]["metrics"]}
    missing["measures"] = set(get_registry("measures")) - set(map(measure_name, metrics))
    assert {kind: names for kind, names in missing.items() if names} == {}


@pytest.mark.slow
def test_every_tiny_scenario_is_valid(tiny, tmp_path):
    tiny.write_inputs(tmp_path)
    for plain in tiny.SCENARIOS.values():
        load_scenario(json.loads(json.dumps(plain).replace(tiny.INPUTS, str(tmp_path))))
