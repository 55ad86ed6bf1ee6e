"""Checks of who holds the data: what a coordinator with all of them has no use for, and what only it can train."""

from __future__ import annotations

from typing import Any

from gossiprec.scenario.churn import Churn
from gossiprec.scenario.model import Scenario
from gossiprec.scenario.network import Network
from gossiprec.scenario.problems import Problems


def check_held_data(scenario: Scenario, problems: Problems, *, protocol: Any, model: Any) -> None:
    """Note what a scenario asks for that nobody, or everybody, would have to know.

    Parameters
    ----------
    scenario : Scenario
    problems : Problems
    protocol, model : type
        Those that it names.
    """
    if getattr(protocol, "holds_all_data", False):
        _check_center(scenario, problems)
    elif getattr(model, "needs_graph", False):
        at_clients = getattr(model, "at_clients", False)
        if at_clients and getattr(scenario.protocol.options, "client_model", "own") == "none":
            return
        or_clients = ", or to {name: fedavg, client_model: none, ...}" if at_clients else ""
        problems.add(
            ("model", "name"),
            f"{scenario.model.name!r} uses the interaction graph of all users, which no node of "
            f"{scenario.protocol.name} has; set protocol to {{name: central}}{or_clients}, or choose another "
            "model, such as mf",
        )


def _check_center(scenario: Scenario, problems: Problems) -> None:
    """Note sections that are about messages, or about nodes that train."""
    name = scenario.protocol.name
    idle = {
        "policies": scenario.policies,
        "attackers": scenario.attackers,
        "observers": scenario.observers,
        "recommender": scenario.recommender is not None,
        "network": scenario.network != Network(),
        "churn": scenario.churn != Churn(),
    }
    for section in (section for section, used in idle.items() if used):
        problems.add(
            (section,),
            f"is about messages or nodes of users, but with {name} a coordinator holds all data and no "
            "messages are sent; remove the section, or choose another protocol",
        )
    executor = scenario.executor
    allowed = {"name": ("auto", "batched", "reference"), "storage": ("float32",), "device": ("auto", "cpu")}
    for key, values in allowed.items():
        if getattr(executor, key) not in values:
            problems.add(
                ("executor", key),
                f"found {getattr(executor, key)!r}; expected {' or '.join(values)}, because with {name} one "
                "model is trained by autograd on the CPU",
            )
