from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies

FAMILIES = {
    "ring": lambda seed: topologies.ring(10, 4),
    "random_regular": lambda seed: topologies.random_regular(10, 3, seed),
    "complete": lambda seed: topologies.complete(10),
    "star": lambda seed: topologies.star(10),
    "watts_strogatz": lambda seed: topologies.watts_strogatz(10, 4, 0.3, seed),
    "erdos_renyi": lambda seed: topologies.erdos_renyi(10, 0.3, seed),
}


def edges(graph):
    return sorted(tuple(sorted(edge)) for edge in graph.edges)


@pytest.mark.parametrize("family", FAMILIES)
def test_graph_is_connected_and_simple_over_the_first_numbers(family):
    for seed in range(20):
        graph = FAMILIES[family](seed)

        assert sorted(graph) == list(range(10))
        assert nx.is_connected(graph)
        assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_arguments_give_the_same_graph(family):
    np.random.seed(0)  # noqa: NPY002 - the global generator must not matter
    first = edges(FAMILIES[family](3))
    np.random.seed(1)  # noqa: NPY002

    assert edges(FAMILIES[family](3)) == first


@pytest.mark.parametrize("family", ["random_regular", "watts_strogatz", "erdos_renyi"])
def test_another_seed_gives_another_graph(family):
    assert len({str(edges(FAMILIES[family](seed))) for seed in range(10)}) > 5


def test_a_ring_links_the_nearest_on_both_sides():
    assert edges(topologies.ring(5, 2)) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    assert sorted(topologies.ring(7, 4)[0]) == [1, 2, 5, 6]


@given(half=st.integers(1, 5), extra=st.integers(1, 10))
def test_every_node_of_a_ring_has_its_degree(half, extra):
    k = 2 * half
    assert set(dict(topologies.ring(k + extra, k).degree).values()) == {k}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**63 - 1))
def test_every_node_of_a_random_regular_graph_has_its_degree(degree, extra, seed):
    n = degree + extra
    if n * degree % 2 or (degree == 1 and n > 2):
        return
    assert set(dict(topologies.random_regular(n, degree, seed).degree).values()) == {degree}


def test_the_centre_of_a_star_is_node_0():
    assert edges(topologies.star(4)) == [(0, 1), (0, 2), (0, 3)]


def test_a_complete_graph_has_every_link():
    assert topologies.complete(6).number_of_edges() == 15


def test_without_rewiring_a_small_world_is_a_ring():
    assert edges(topologies.watts_strogatz(9, 4, 0.0, 1)) == edges(topologies.ring(9, 4))


def test_links_of_a_random_graph_are_as_many_as_its_probability_says():
    """50 graphs of 40 nodes, p = 0.3 (all but surely connected): 39,000 possible links.

    The mean has a deviation of sqrt(0.3 * 0.7 / 39000) = 0.0023; the tolerance is five of them.
    """
    counts = [topologies.erdos_renyi(40, 0.3, seed).number_of_edges() for seed in range(50)]

    assert np.mean(counts) / 780 == pytest.approx(0.3, abs=0.012)


@pytest.mark.parametrize(
    ("family", "arguments", "message"),
    [
        ("ring", (5, 3), "must be even"),
        ("ring", (5, 0), "at least 2"),
        ("ring", (4, 4), "only 3 possible neighbours"),
        ("random_regular", (5, 3, 1), "must be even"),
        ("random_regular", (4, 4, 1), "from 1 to 3"),
        ("random_regular", (4, 0, 1), "from 1 to 3"),
        ("random_regular", (6, 1, 1), "no connected graph in 100 attempts; raise degree"),
        ("complete", (1,), "at least 2"),
        ("star", (1,), "at least 2"),
        ("watts_strogatz", (9, 3, 0.1, 1), "must be even"),
        ("watts_strogatz", (4, 4, 0.1, 1), "only 3 possible neighbours"),
        ("watts_strogatz", (9, 4, 1.1, 1), "from 0 to 1"),
        ("erdos_renyi", (1, 0.5, 1), "at least 2"),
        ("erdos_renyi", (9, -0.1, 1), "from 0 to 1"),
        ("erdos_renyi", (50, 0.01, 1), "no connected graph in 100 attempts; raise p"),
    ],
)
def test_impossible_graphs_are_refused(family, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(topologies, family)(*arguments)


def test_neighbours_are_in_ascending_order():
    graph = nx.Graph([(2, 0), (1, 0), (3, 0)])

    assert [peers.tolist() for peers in topologies.out_neighbors(graph)] == [[1, 2, 3], [0], [0], [0]]


def test_neighbours_follow_the_direction_of_links():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])

    assert [peers.tolist() for peers in topologies.out_neighbors(graph)] == [[1, 2], [2], [0]]


@pytest.mark.parametrize("graph", [nx.Graph([("a", "b")]), nx.Graph([(1, 2)]), nx.Graph([(0, 0), (0, 1)])])
def test_graphs_that_are_not_over_the_first_numbers_or_have_loops_are_refused(graph):
    with pytest.raises(ValueError, match="found a"):
        topologies.out_neighbors(graph)


def test_the_package_imports_nothing_of_gossiprec():
    for file in Path(topologies.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "gossiprec" for name in names)
