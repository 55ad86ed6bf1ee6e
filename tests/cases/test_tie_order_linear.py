"""The linear bound used to take messages that arrive when a node wakes as merged before its push."""

import numpy as np
import pytest

from gossiprec import network_epsilon
from gossiprec.emulation import simulate

SCENARIO = {
    "name": "tie4", "seed": 2, "plots": False,
    "dataset": {
        "name": "synthetic", "users": 10, "items": 30, "interactions": 120,
        "split": {"name": "leave_last_k", "test": 2},
    },
    "model": {"name": "gmf", "dim": 2},
    "training": {"optimizer": "sgd", "batch_size": "full"},
    "network": {"latency": {"law": "constant", "value": 1.0}},
    "protocol": {
        "name": "rand-gossip", "fanout": 1, "merge": "mean", "wakes": 2, "wake": {"law": "constant"},
        "view": {"size": 2},
    },
    "policies": [
        {"name": "share-less"},
        {"name": "dp-sgd", "epsilon": 5, "clip_norm": 0.5, "steps": 1, "unit": "user"},
    ],
    "evaluate": {"every": 1, "metrics": ["hr@10"]},
    "executor": {"name": "batched"},
}  # fmt: skip


def test_a_push_leaves_before_what_arrives_at_its_moment(tmp_path):
    """Node 4 pushes at time 2 before the messages of time 2 arrive: node 5 gets its update alone."""
    found = network_epsilon(simulate(SCENARIO, out=tmp_path / "run").path)
    assert found.reason is None
    assert found.epsilon[4, 5] == pytest.approx(5.0, abs=1e-4)
    assert found.epsilon[4, 5] == pytest.approx(found.local[4])
    assert np.nanmin(found.epsilon) < 5.0
