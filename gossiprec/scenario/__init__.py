"""Scenarios: from YAML to typed options, with every problem listed at once by file, line and key path."""

from gossiprec.scenario.cross_checks import (
    check_activity_groups,
    check_rounds,
    check_sizes,
    check_train_loss,
    check_validation,
)
from gossiprec.scenario.definition import DatasetChoice, PolicyChoice, RegisteredChoice, Scenario
from gossiprec.scenario.load import load_scenario
from gossiprec.scenario.network import ConstantLatency, ExponentialLatency, NetworkOptions
from gossiprec.scenario.registries import Registries
from gossiprec.scenario.schema import json_schema
from gossiprec.scenario.sections import EvaluateOptions, ExecutorOptions, NodeFraction, TrainingOptions

__all__ = [
    "ConstantLatency",
    "DatasetChoice",
    "EvaluateOptions",
    "ExecutorOptions",
    "ExponentialLatency",
    "NetworkOptions",
    "NodeFraction",
    "PolicyChoice",
    "RegisteredChoice",
    "Registries",
    "Scenario",
    "TrainingOptions",
    "check_activity_groups",
    "check_rounds",
    "check_sizes",
    "check_train_loss",
    "check_validation",
    "json_schema",
    "load_scenario",
]
