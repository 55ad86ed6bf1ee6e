"""The answers of a node at one moment used to count as one push, so that epsilon was 0 for a model that had arrived."""

import numpy as np

from gossiprec import network_epsilon
from gossiprec.emulation import simulate

SCENARIO = {
    "name": "pp", "seed": 1, "plots": False,
    "dataset": {
        "name": "synthetic", "users": 10, "items": 30, "interactions": 120,
        "split": {"name": "leave_last_k", "test": 3},
    },
    "model": {"name": "gmf", "dim": 4},
    "training": {"optimizer": "sgd", "batch_size": "full"},
    "protocol": {"name": "push-pull", "wakes": 1},
    "policies": [{"name": "dp-sgd", "epsilon": "inf", "noise_multiplier": 5.0}],
    "evaluate": {"every": 1, "metrics": ["recall@5"]},
    "executor": {"name": "batched"},
}  # fmt: skip


def test_each_answer_of_a_moment_holds_what_the_node_has_merged_by_then(tmp_path):
    found = network_epsilon(simulate(SCENARIO, out=tmp_path / "run").path)
    for victim, observer in ((2, 5), (2, 9), (5, 9)):
        assert abs(found.epsilon[victim, observer] - 0.900) < 5e-4  # one Gaussian mechanism
        assert found.hops[victim, observer] in (2, 3)
    others = ~np.eye(10, dtype=bool)
    assert ((found.epsilon[others] > 0) == np.isfinite(found.hops[others])).all()
