"""Nodes are divided into parts of equal size, by who talks to whom where that is known; what cannot be is refused."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.adversaries.attacks.cda import CDA
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.shard_partition import (
    bisect_by_contacts,
    count_crossing_messages,
    partition_nodes,
)
from gossiprec.rules.servers import SERVERS
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_server_runs import Factions
from tests.emulation.tiny_runs import SINGLE, tiny


def meetings_of(graph):
    sender, receiver = np.array(graph.edges, np.int32).T
    return KnownDeliveries(
        np.arange(len(sender), dtype=np.int32), sender, receiver, np.zeros(len(sender)), len(sender)
    )


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(
    "graph", [nx.path_graph(17), nx.empty_graph(17), nx.gnp_random_graph(17, 0.2, seed=1)]
)
def test_parts_are_of_equal_size_to_one_node(graph, n_parts):
    edges = nx.path_graph(17) if not graph.edges else graph
    for found in (
        bisect_by_contacts(meetings_of(edges), 17, n_parts),
        partition_nodes(None, 17, n_parts, []),
    ):
        sizes = np.bincount(found, minlength=n_parts)
        assert len(sizes) == n_parts
        assert sizes.max() - sizes.min() <= 1 + (n_parts > 2)


def test_neighbours_stay_together_though_their_numbers_do_not_say_so():
    order = np.random.default_rng(0).permutation(64)
    ring = nx.relabel_nodes(nx.cycle_graph(64), dict(enumerate(order.tolist())))
    met = meetings_of(ring)

    assert count_crossing_messages(partition_nodes(met, 64, 4, []), met) <= 8
    assert count_crossing_messages(partition_nodes(None, 64, 4, []), met) > 32


def test_blocks_are_kept_where_contacts_tell_nothing():
    met = meetings_of(nx.complete_graph(12))

    assert partition_nodes(met, 12, 3, []).tolist() == np.repeat([0, 1, 2], 4).tolist()


def test_shard_0_is_where_most_members_of_pools_are():
    found = partition_nodes(None, 12, 3, [np.array([0, 9, 10]), np.array([11])])

    assert found.tolist() == [2] * 4 + [1] * 4 + [0] * 4


REFUSED = {
    "several-versions": (
        {"protocol": {"name": "fedavg", "rounds": 3, "server": {"name": "factions"}}, "observers": []},
        "and the server factions sends clients versions of several models; set executor.name to auto",
    ),
    "too-many": ({}, "executor.shards: found 13; expected up to 12, the number of nodes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_divided_is_refused(case, tmp_path):
    sections, message = REFUSED[case]
    with temporarily_registered(SERVERS, {"factions": Factions}), pytest.raises(ScenarioError, match=message):
        simulate(divided(tiny(**sections), 13), out=tmp_path / "run", make_shard_group=Threads)
    assert not (tmp_path / "run").exists()


def test_an_attack_that_cannot_be_divided_is_refused(tmp_path):
    class Silent(CDA):
        export_node_state = Attack.export_node_state

    scenario = divided(tiny(observers=[{**SINGLE, "name": "silent"}]), 2)
    message = r"observers: cda-single observes at single nodes .*export_node_state and import_node_state"
    with temporarily_registered(ATTACKS, {"silent": Silent}), pytest.raises(ScenarioError, match=message):
        simulate(scenario, out=tmp_path / "run", make_shard_group=Threads)


def test_options_of_shards_belong_to_ray():
    with pytest.raises(ScenarioError, match="shards requires name: ray, found name: fused"):
        load_scenario(tiny(executor={"name": "fused", "shards": 2}))
