"""Scenarios of clients without a model, as plain data: the jobs of ``federated.py`` and ``paired.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PASSES, SLICE = 5, 256
ML_1M = {"users": 6040, "items": 3706, "interactions": 1_000_209}
YELP = {"users": 5224, "items": 7690, "interactions": 123_024}
BEAUTY = {"users": 22_363, "items": 12_101, "interactions": 198_502}
ADAM = {"optimizer": "adam", "learning_rate": 0.001, "local_epochs": PASSES}
ONE_STEP = {"optimizer": "sgd", "learning_rate": 0.001, "local_epochs": 1}
PDC_FRS = {"name": "pdc-frs", "similarity": {"name": "co-occurrence", "public_users": 0.1}, "epsilon": 20}
SEQUENCE_SLICE, CLUSTERS = 16, 25


def federated(
    data: Mapping[str, int], training: Mapping[str, Any], merge: str, slices: int, threads: int,
    recommender: Mapping[str, Any] | None = None, name: str = "ncf", **model: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the scenario: some slices of clients, evaluated once at the end with lists of 100 items."""
    return {
        "name": "federated",
        "dataset": {"name": "synthetic", **data, "split": {"name": "leave_last_k", "test": 1}},
        "model": {"name": name, **model},
        "training": {"batch_size": "full", **training},
        "protocol": {
            "name": "fedavg", "rounds": slices, "participation": SLICE / data["users"], "client_model": "none",
            "merge": merge,
        },
        "recommender": recommender,
        "evaluate": {"every": slices, "metrics": ["hr@10"]},
        "executor": {"name": "fused", "threads": threads},
    }  # fmt: skip


def passes(slices: int, threads: int) -> dict[str, Any]:
    """Return the scenario of five local passes of Adam, merged by the mean over the clients that touched an item."""
    return federated(ML_1M, ADAM, "touched-mean", slices, threads, dim=32, hidden=[64, 32, 16])


def one_step(slices: int, threads: int) -> dict[str, Any]:
    """Return the scenario of one gradient step per client, summed."""
    return federated(ML_1M, ONE_STEP, "sum", slices, threads, dim=8, hidden=[16, 8, 8], first_is_input=True)


def contributed(slices: int, threads: int) -> dict[str, Any]:
    """Return the scenario of the clients of PDC-FRS."""
    return federated(ML_1M, ADAM, "touched-mean", slices, threads, PDC_FRS, dim=32, hidden=[32, 16, 8])


def pairs(slices: int, threads: int) -> dict[str, Any]:
    """Return the scenario of clients that learn from pairs, with LightGCN and pseudo items."""
    adam = {"optimizer": "adam", "learning_rate": 0.05, "negatives": 1}
    return federated(YELP, adam, "mean", slices, threads, {"name": "fedgnn"}, "lightgcn", dim=64)


def sequences(rounds: int, threads: int) -> dict[str, Any]:
    """Return the scenario of FedCL with GRU4Rec in the paper's size, evaluated once at the end."""
    return {
        "name": "sequences",
        "dataset": {"name": "synthetic", **BEAUTY, "split": {"name": "leave_last_k", "test": 1}},
        "model": {"name": "gru4rec", "loss": "sampled"},
        "recommender": {"name": "fedcl", "clusters": CLUSTERS},
        "training": {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": "full"},
        "protocol": {
            "name": "fedavg", "rounds": rounds, "participation": SEQUENCE_SLICE / BEAUTY["users"],
            "client_model": "none", "upload": "gradients", "merge": "mean",
            "server": {"name": "adam", "learning_rate": 0.001},
        },
        "evaluate": {"every": rounds, "metrics": ["recall@10"]},
        "executor": {"name": "fused", "threads": threads},
    }  # fmt: skip
