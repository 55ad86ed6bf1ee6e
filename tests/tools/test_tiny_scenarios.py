"""The tiny scenarios of the benchmarks: each is valid, and with the commands they use every registered name."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import yaml

from gossiprec.measures.selectors import measure_name
from gossiprec.scenario import load_scenario
from gossiprec.scenario.registries import KINDS, get_registry

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


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


def test_every_registered_name_of_all_kinds_is_used(tiny):
    scenarios = list(tiny.SCENARIOS.values())
    words = set(words_of([scenarios, tiny.TRACKERS, tiny.COMMANDS]))
    words.update(measure_name(metric) for plain in scenarios for metric in plain["evaluate"]["metrics"])
    missing = {kind: set(get_registry(kind)) - words for kind in KINDS}
    assert len(missing) == 17
    assert {kind: names for kind, names in missing.items() if names} == {}


def test_trackers_interruptions_and_commands_belong_to_scenarios(tiny):
    assert {*tiny.TRACKERS, *tiny.INTERRUPTED, *tiny.COMMANDS} <= set(tiny.SCENARIOS)
    assert all(f"{name}/run" in words for name, commands in tiny.COMMANDS.items() for words in commands)


@pytest.mark.slow
def test_every_tiny_scenario_is_valid_and_resolves_to_itself(tiny, tmp_path):
    tiny.write_inputs(tmp_path)
    for plain in tiny.SCENARIOS.values():
        scenario = load_scenario(json.loads(json.dumps(plain).replace(tiny.INPUTS, str(tmp_path))))
        assert load_scenario(yaml.safe_load(yaml.safe_dump(scenario.resolved()))) == scenario
