"""A coordinator that looks for some users' communities alone."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.emulation import simulate
from tests.emulation.tiny_runs import COORDINATOR, tiny
from tests.slow import slow_except_first

ROUNDS = {"name": "fedavg", "rounds": 4}
UPDATES = {**ROUNDS, "client_model": "none"}
KEY = "coordinator/standardized/b0.9/k3"


def watched(folder, protocol, **options):
    """Return the accuracy of each adversary by its node at the only report, and the run."""
    scenario = tiny(
        protocol=protocol,
        training={"batch_size": "full", "local_epochs": 2},
        observers=[{**COORDINATOR, "momentum": 0.9, **options}],
        evaluate={"every": 4, "metrics": ["hr@5"]},
    )
    run = simulate(scenario, out=folder)
    nodes, found = run.adversaries[KEY]
    return dict(zip(nodes.tolist(), found.tolist(), strict=True)), run


@pytest.mark.parametrize("protocol", slow_except_first([ROUNDS, UPDATES]), ids=["whole models", "updates"])
@pytest.mark.cases(1)
def test_each_community_is_found_as_among_all(tmp_path, protocol):
    everyone, _ = watched(tmp_path / "all", protocol)
    some, run = watched(tmp_path / "some", protocol, nodes={"fraction": 0.5})
    assert len(everyone) == 12
    assert len(some) == 6
    assert some == {node: everyone[node] for node in some}
    assert len(set(everyone.values())) > 1
    assert run.attacks["aac"].tolist() == [pytest.approx(np.mean(list(some.values())))]


@pytest.mark.slow
def test_ids_say_whose(tmp_path):
    some, _ = watched(tmp_path / "run", UPDATES, nodes=[3, 7])
    assert list(some) == [3, 7]
