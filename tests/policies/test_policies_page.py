"""What docs/policies.md shows works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import yaml

from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NO_LIMIT, NodeSettings
from gossiprec.policies import POLICIES
from gossiprec.scenario import load_scenario

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_scenario_loads():
    assert [p.name for p in load_scenario(yaml.safe_load(block("yaml"))).policies] == ["share-less", "dp-sgd"]


def test_the_policy_of_the_page_lowers_the_limit_of_its_nodes():
    names = {}
    before = dict(POLICIES._members)
    try:
        exec(block("python").replace("from __future__ import annotations\n", ""), names)
    finally:
        POLICIES._members.clear()
        POLICIES._members.update(before)
    node_settings = NodeSettings.none(3)

    policy = names["EarlyStop"](names["EarlyStopOptions"](updates=2), np.array([1]))
    policy.configure(node_settings, training=TrainingSettings(), updates=np.array([5, 5, 5]))

    assert node_settings.most_updates.tolist() == [NO_LIMIT, 2, NO_LIMIT]
