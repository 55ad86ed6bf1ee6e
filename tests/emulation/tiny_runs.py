"""Tiny scenarios, and running one by hand: everything that ``simulate`` does but for the run directory."""

from __future__ import annotations

import itertools

from gossiprec.emulation import prepare
from gossiprec.scenario import Scenario, load_scenario

SINGLE = {"name": "cda", "who": "single", "community_size": 3, "reference_items": 9}
COORDINATOR = {**SINGLE, "who": "coordinator"}


def tiny(**sections):
    """Return a scenario of 12 nodes and 40 items as plain data; whole sections can be replaced.

    Whole models of GMF train on the executor ``fused``, in a fifth of the time; all else on ``reference``.
    """
    protocol = sections.get("protocol", {})
    federated = protocol.get("name") == "fedavg"
    others = "model" in sections or protocol.get("name") == "central" or "client_model" in protocol
    return {
        "name": "tiny",
        "seed": 5,
        "plots": False,
        "dataset": {
            "name": "synthetic",
            "users": 12,
            "items": 40,
            "interactions": 150,
            "communities": 3,
            "split": {"name": "leave_last_k", "test": 2, "validation": 1},
        },
        "model": {"name": "gmf", "dim": 8, "init_std": 0.1},
        "protocol": {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 6},
        "observers": [COORDINATOR if federated else SINGLE],
        "evaluate": {"every": 2, "metrics": ["hr@5", "ndcg@5"]},
        "executor": {"name": "reference" if others else "fused"},
        **sections,
    }


def carried_out(scenario, upto=None):
    """Return the prepared run after its last tick, or after its first `upto` ones."""
    prepared = prepare(scenario if isinstance(scenario, Scenario) else load_scenario(scenario))
    for _ in itertools.islice(prepared.schedule.play(prepared.tape_runner().run_segment), upto):
        pass
    return prepared


def final_models(prepared):
    """Return every node's parameters, shape (n_nodes, size)."""
    store = prepared.executor.store
    return store.load(prepared.planner.current_rows)[:, : store.layout.size]
