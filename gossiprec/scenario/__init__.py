"""YAML to typed scenario: every problem listed at once, with file, line and key path."""

from gossiprec.scenario.cross_checks import (
    check_activity_groups,
    check_sizes,
    check_train_loss,
    check_validation,
)
from gossiprec.scenario.load import load_scenario
from gossiprec.scenario.model import Choice, DatasetChoice, PolicyChoice, Scenario
from gossiprec.scenario.network import ConstantLatency, ExponentialLatency, Network
from gossiprec.scenario.registries import Registries
from gossiprec.scenario.schema import json_schema
from gossiprec.scenario.sections import Evaluate, Executor, NodeFraction, Training

__all__ = [
    "Choice",
    "ConstantLatency",
    "DatasetChoice",
    "Evaluate",
    "Executor",
    "ExponentialLatency",
    "Network",
    "NodeFraction",
    "PolicyChoice",
    "Registries",
    "Scenario",
    "Training",
    "check_activity_groups",
    "check_sizes",
    "check_train_loss",
    "check_validation",
    "json_schema",
    "load_scenario",
]
