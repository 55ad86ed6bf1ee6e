"""What docs/policies.md shows works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from gossiprec import simulate
from gossiprec.defences import POLICIES
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing import check_policy
from tests.emulation.tiny_runs import tiny

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def examples():
    """Register the policies of the page."""
    before = dict(POLICIES.members())
    try:
        linked = re.findall(r"\]\(\.\./(examples/\S+\.py)\)", PAGE)
        assert len(linked) == 2
        for code in [*blocks("python"), *((ROOT / name).read_text() for name in linked)]:
            exec(code.replace("from __future__ import annotations\n", ""), {})
        yield
    finally:
        POLICIES._members.clear()
        POLICIES._members.update(before)


def test_the_scenario_loads():
    loaded = load_scenario(yaml.safe_load(blocks("yaml")[0]))
    assert [p.name for p in loaded.policies] == ["share-less", "dp-sgd"]


@pytest.mark.slow
@pytest.mark.usefixtures("examples")
def test_messages_of_the_first_example_are_logged_with_the_size_of_what_they_carry(tmp_path):
    run = simulate(tiny(policies=[{"name": "signed", "nodes": [2, 5]}]), out=tmp_path / "run")

    messages = run.events("message")
    whole = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40).message_bytes
    signed = np.isin(messages["sender"], [2, 5])
    assert set(messages["size_bytes"][signed]) == {whole - 4 * 8 + 64}
    assert set(messages["size_bytes"][~signed]) == {whole}


@pytest.mark.slow
@pytest.mark.usefixtures("examples")
def test_nodes_of_the_second_example_stop_early(tmp_path):
    policies = [{"name": "early-stop", "nodes": [1], "updates": 2}]
    run = simulate(tiny(policies=policies), out=tmp_path / "run")

    updates = np.bincount(run.events("update")["node"], minlength=12)
    assert updates[1] == 2
    assert np.delete(updates, 1).max() > 2


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize(("name", "options"), [("signed", {}), ("early-stop", {"updates": 3})])
@pytest.mark.cases(1)
@pytest.mark.slow
def test_its_policies_keep_their_contract(name, options):
    check_policy(POLICIES[name], options)
