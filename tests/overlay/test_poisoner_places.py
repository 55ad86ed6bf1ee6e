"""Places of poisoners in a fixed graph: central nodes, drawn ones, or Sybils with attack edges."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from pydantic import TypeAdapter

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import simulate
from gossiprec.network.overlay import PoisonerPlaces, UserProfiles
from gossiprec.network.overlay.graph_options import Graph, load_graph, load_placed_graph
from gossiprec.scenario import load_scenario
from gossiprec.scenario.section_checks import check_sizes
from tests.emulation.tiny_runs import tiny

USERS, KEY = 24, "protocol.view.graph"
SCALE_FREE = {"family": "barabasi-albert", "m": 2}
SMALL_WORLD = {"family": "watts-strogatz", "k": 4, "p": 0.2}
MEASURES = {"degree": lambda graph: dict(graph.degree), "betweenness": nx.betweenness_centrality}


def places(*groups):
    """Return the places of groups of poisoners, given the size and the options of each."""
    ends = USERS + np.cumsum([0, *(count for count, _ in groups)])
    return [PoisonerPlaces(np.arange(ends[i], ends[i + 1]), **chosen) for i, (_, chosen) in enumerate(groups)]


def placed(raw, *groups, seed=1, profiles=None):
    n_nodes = USERS + sum(count for count, _ in groups)
    found = TypeAdapter(Graph).validate_python(raw)
    return load_placed_graph(found, n_nodes, places(*groups), seed=seed, key=KEY, profiles=profiles)


def drawn(raw, n_nodes, seed=1):
    return load_graph(TypeAdapter(Graph).validate_python(raw), n_nodes, seed=seed, key=KEY)


def links(graph):
    return {frozenset(link) for link in graph.edges}


@pytest.mark.parametrize("graph", [SCALE_FREE, SMALL_WORLD], ids=["scale-free", "small-world"])
@pytest.mark.parametrize("how", MEASURES)
def test_poisoners_take_the_first_places_and_no_other_node_moves(how, graph):
    before, after = drawn(graph, USERS + 3), placed(graph, (3, {"placement": how}))
    values = {node: round(value, 9) for node, value in MEASURES[how](before).items()}
    first = sorted(values, key=lambda node: (-values[node], node))[:3]
    found = MEASURES[how](after)

    assert [round(found[node], 9) for node in range(USERS, USERS + 3)] == [values[node] for node in first]
    assert nx.is_isomorphic(before, after)
    still = set(range(USERS)) - set(first)
    assert {link for link in links(before) if link <= still} == {
        link for link in links(after) if link <= still
    }


def test_a_second_entry_takes_the_next_places_and_an_entry_without_placement_none():
    before = drawn(SCALE_FREE, USERS + 4)
    after = placed(SCALE_FREE, (1, {"placement": "degree"}), (1, {}), (2, {"placement": "degree"}))
    degrees = sorted((degree for node, degree in before.degree if node != USERS + 1), reverse=True)

    assert [after.degree[node] for node in (USERS, USERS + 2, USERS + 3)] == degrees[:3]
    assert after.degree[USERS + 1] == before.degree[USERS + 1]


def test_random_places_follow_the_seed():
    found = [links(placed(SCALE_FREE, (2, {"placement": "random"}), seed=seed)) for seed in (1, 1, 2)]
    assert found[0] == found[1] != links(drawn(SCALE_FREE, USERS + 2))
    assert found[2] != found[0]


def test_in_a_directed_graph_degree_counts_the_nodes_that_a_node_sends_to(tmp_path):
    into = "\n".join(f"{node} 1" for node in range(USERS + 1) if node != 1)
    (tmp_path / "g.edges").write_text(f"# directed\n{into}\n2 3\n2 4\n")
    after = placed({"file": str(tmp_path / "g.edges")}, (1, {"placement": "degree"}))

    assert set(after[USERS]) == {1, 3, 4}


def test_sybils_hang_on_the_graph_of_the_users_by_their_attack_edges():
    profiles = UserProfiles("x", Ragged.from_parts([np.array([i % 5]) for i in range(USERS + 3)]))
    few, many = (placed(SCALE_FREE, (3, {"edges": edges}), profiles=profiles) for edges in (4, 24))
    added = links(few) - links(drawn(SCALE_FREE, USERS))

    assert links(drawn(SCALE_FREE, USERS)) | added == links(few) < links(many)
    assert sorted(few.degree[node] for node in range(USERS, USERS + 3)) == [1, 1, 2]
    assert all(min(link) < USERS <= max(link) for link in added)
    assert {user for node in range(USERS, USERS + 3) for user in many[node]} == set(range(USERS))


def test_linked_sybils_reach_one_another_and_may_share_one_attack_edge():
    alone, linked = (placed(SCALE_FREE, (3, {"edges": 3, "linked": each})) for each in (False, True))
    behind = placed(SCALE_FREE, (3, {"edges": 1, "linked": True}))
    sybils = range(USERS, USERS + 3)

    assert links(linked) - links(alone) == {link for link in links(linked) if min(link) >= USERS}
    assert [linked.degree[node] for node in sybils] == [3, 3, 3]
    assert [behind.degree[node] for node in sybils] == [3, 2, 2]


def gossip(graph, **attacker):
    return tiny(
        model={"name": "ncf", "dim": 4, "hidden": [6, 3]}, observers=[],
        protocol={"name": "rand-gossip", "fanout": 12, "view": {"graph": graph}, "wakes": 2},
        attackers=[{"name": "a-hum", "number": 1, **attacker}], evaluate={"every": 1, "metrics": ["hr@5"]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attacker", "reached"), [({"placement": "degree"}, set(range(12))), ({}, {0}), ({"edges": 5}, 5)]
)
def test_messages_of_a_run_follow_the_places(attacker, reached, tmp_path):
    run = simulate(gossip({"family": "star"}, **attacker), out=tmp_path / "run")
    message = run.events("message")
    found = set(message["receiver"][message["sender"] == 12].tolist())

    assert (len(found) if isinstance(reached, int) else found) == reached


VIEW, STAR = {"size": 3}, {"graph": {"family": "star"}}
CHANGES = {"graph": {"sequence": [{"from": 0, "family": "star"}]}}
CHANGING = "peers change during the run; expected a fixed graph; use rand-gossip with view.graph, or remove"
BAD = [
    (VIEW, {"placement": "degree"}, f"attackers.0.placement: found 'degree', but {CHANGING} placement"),
    (CHANGES, {"edges": 3}, f"attackers.0.edges: found 3, but {CHANGING} edges"),
    (None, {"placement": "random"}, "attackers.0.placement: found 'random', but with a coordinator poisoners have no"),
    (STAR, {"placement": "degre"}, "attackers.0.placement: found 'degre', must be 'random', 'degree' or 'betweenness'"),
    (STAR, {"edges": 0}, "attackers.0.edges: found 0, must be greater than or equal to 1"),
    (STAR, {"edges": 3, "placement": "degree"}, "attackers.0: found both placement and edges, but Sybils"),
    (STAR, {"edges": 13}, "attackers.0.edges: found 13, but there are only 12 users"),
    (STAR, {"edges": 3, "number": 4}, "attackers.0.edges: found 3 for 4 poisoners; expected an edge for each"),
    (STAR, {"linked": True}, "attackers.0: found linked without edges, but only Sybils are linked"),
]  # fmt: skip


@pytest.mark.parametrize(("view", "attacker", "message"), BAD)
def test_impossible_places_are_refused_with_one_message(view, attacker, message):
    run = gossip(None, **attacker)
    run["protocol"] = (
        {"name": "fedavg", "rounds": 2} if view is None else {**run["protocol"], "fanout": 2, "view": view}
    )
    with pytest.raises(ScenarioError) as refused:
        check_sizes(load_scenario(run), 12, 40)
    assert message in str(refused.value)
    assert str(refused.value).count("attackers") == 1
