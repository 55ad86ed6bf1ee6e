"""Scenarios: from YAML to typed options, with every problem listed at once by file, line and key path."""

from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.load import load_scenario
from gossiprec.scenario.registries import Registries
from gossiprec.scenario.schema import json_schema
from gossiprec.scenario.section_checks import check_sizes

__all__ = ["Registries", "Scenario", "check_sizes", "json_schema", "load_scenario"]
