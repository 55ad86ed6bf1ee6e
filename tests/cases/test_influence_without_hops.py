"""Data that reach a user otherwise than by messages used to change models at infinite hops."""

import math

import numpy as np
import pytest

from gossiprec import counterfactual
from gossiprec.emulation import simulate
from gossiprec.emulation.run.influence import influence
from tests.emulation.tiny_runs import tiny

CASES = {
    "versions not received": {
        "protocol": {"name": "fedavg", "client_model": "none", "rounds": 5, "participation": 0.3}
    },
    "cluster weights": {
        "protocol": {"name": "semi-decentralised", "clusters": 4, "merge": "mean", "rounds": 2}
    },
    "poisoner weights": {
        "protocol": {
            "name": "rand-gossip",
            "fanout": 1,
            "view": {"graph": {"family": "ring", "k": 2}},
            "wakes": 2,
        },
        "attackers": [{"name": "a-hum", "number": 1, "targets": [5]}],
    },
    "root users": {
        "protocol": {
            "name": "fedavg",
            "rounds": 3,
            "participation": 0.3,
            "merge": {"name": "fltrust", "root": {"users": 11}},
        }
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.cases(1)
def test_infinite_hops_mean_distance_0(tmp_path, name):
    scenario = tiny(observers=[], executor={"name": "reference"}, **CASES[name])
    run = simulate(scenario, out=tmp_path / "run")
    found = influence(run.path, counterfactual(run.path, [3]).path, k=5)
    unreached = np.isinf(found.hops)
    assert not found.distance[unreached].any()
    assert found.distance[found.hops < math.inf].any()
    if name == "versions not received":
        assert unreached.any()
        assert (found.overlap[unreached] == 1).all()
