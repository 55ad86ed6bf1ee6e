"""What the data cannot carry is refused as soon as their size is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import Registries, check_sizes, load_scenario
from tests.scenario.conftest import Loader

OBSERVER = "observers: [{name: cda, who: single, community_size: 5}]\n"
COALITION = "observers: [{name: cda, who: coalition, community_size: 5, %s}]\n"
SHARE_LESS = "policies: [{name: share-less, nodes: %s}]\n"
FEDAVG = """\
name: x
dataset: {name: synthetic, split: {name: published}}
model: {name: gmf}
protocol: {name: fedavg, rounds: 1, participation: %s}
"""


@pytest.fixture(scope="module")
def registries():
    """Everything that is registered, since parts state the sizes that they need."""
    return Registries()


@pytest.fixture
def load(tmp_path, registries, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Loader(Path(), registries)


@pytest.mark.parametrize(
    ("text", "n_users", "expected"),
    [
        ("", 3, "x.yaml:4: protocol.view.size: found 3, but a node has only 2 possible peers"),
        (
            OBSERVER,
            5,
            "x.yaml:7: observers.0.community_size: found 5, but a community has no more than 4 members",
        ),
        (
            OBSERVER,
            9,
            "x.yaml:7: observers.0.community_size: found 5, but of the 8 other users, guessing finds 62%; a "
            "community can have up to half of the 9 users; lower it to 4 or less, or use more users",
        ),
        (
            COALITION % "fraction: [0.5, 0.04]",
            10,
            "x.yaml:7: observers.0.fraction.1: found 0.04, which selects no node",
        ),
        (
            COALITION % "members: [0, 10]",
            10,
            "x.yaml:7: observers.0.members.1: found node 10, but node ids range",
        ),
        (
            COALITION % "fraction: 0.5, placement: eclipse, victim: [3, 10]",
            10,
            "x.yaml:7: observers.0.victim.1: found node 10, but node ids range from 0 to 9",
        ),
        (
            COALITION % "fraction: [0.5, 0.99], placement: eclipse, victim: 3",
            10,
            "x.yaml:7: observers.0.fraction.1: found 0.99, with which the victim of an eclipse would collude too",
        ),
        (
            SHARE_LESS % "[10]",
            10,
            "x.yaml:7: policies.0.nodes.0: found node 10, but node ids range from 0 to 9",
        ),
        (
            SHARE_LESS % "{fraction: 0.01}",
            10,
            "x.yaml:7: policies.0.nodes.fraction: found 0.01, which selects no node",
        ),
        (
            "evaluate: {metrics: [recall@20]}\n",
            10,
            "x.yaml:7: evaluate.metrics.0: found 'recall@20', but there",
        ),
        (
            "evaluate: {metrics: [hr@5, f1@20]}\n",
            10,
            "x.yaml:7: evaluate.metrics.1: found 'f1@20', but there",
        ),
    ],
)
def test_what_the_data_cannot_carry_is_named_with_its_line(load, minimal, text, n_users, expected):
    with pytest.raises(ScenarioError) as caught:
        check_sizes(load(minimal + text), n_users, 20)
    assert str(caught.value).replace("x.yaml: ", "x.yaml:4: ").startswith(expected)
    check_sizes(load(minimal + text), 1000, 2000)


def test_a_round_of_no_client_is_refused(load):
    with pytest.raises(
        ScenarioError, match=r"protocol\.participation: found 0\.01, which selects no node of 24"
    ):
        check_sizes(load(FEDAVG % 0.01), 24, 60)
    check_sizes(load(FEDAVG % 0.5), 24, 60)


def test_all_sizes_are_checked_at_once(load, minimal):
    with pytest.raises(ScenarioError) as caught:
        check_sizes(load(minimal + OBSERVER + SHARE_LESS % "[7]"), 3, 20)
    assert len(str(caught.value).splitlines()) == 3


def test_sizes_are_placed_without_a_file_too(load, minimal, registries):
    scenario = load_scenario(load(minimal).resolved(), (), registries)
    with pytest.raises(ScenarioError, match=r"^scenario: protocol\.view\.size: found 3"):
        check_sizes(scenario, 2, 20)
