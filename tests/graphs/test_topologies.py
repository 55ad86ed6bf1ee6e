from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.network import graphs
from gossiprec.network.graphs import similarity
from gossiprec.network.graphs.similarity import spatial_proximity, taste_similarity

ITEMS = [np.random.default_rng(node).choice(30, 12, replace=False) for node in range(10)]
PLACES = np.random.default_rng(7).uniform((40, 0), (50, 10), (10, 2))


def edges(graph):
    return sorted(tuple(sorted(edge)) for edge in graph.edges)


def test_a_ring_links_the_nearest_on_both_sides():
    assert edges(graphs.ring(5, 2)) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    assert sorted(graphs.ring(7, 4)[0]) == [1, 2, 5, 6]


@given(half=st.integers(1, 5), extra=st.integers(1, 10))
def test_every_node_of_a_ring_has_its_degree(half, extra):
    k = 2 * half
    assert set(dict(graphs.ring(k + extra, k).degree).values()) == {k}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**63 - 1))
def test_every_node_of_a_random_regular_graph_has_its_degree(degree, extra, seed):
    n = degree + extra
    if n * degree % 2 or (degree == 1 and n > 2):
        return
    assert set(dict(graphs.random_regular(n, degree, seed).degree).values()) == {degree}


def test_the_centre_of_a_star_is_node_0():
    assert edges(graphs.star(4)) == [(0, 1), (0, 2), (0, 3)]


def test_a_torus_links_the_four_around_and_wraps():
    graph = graphs.torus(12, rows=3)  # 0 1 2 3 / 4 5 6 7 / 8 9 10 11

    assert sorted(graph[5]) == [1, 4, 6, 9]
    assert sorted(graph[0]) == [1, 3, 4, 8]
    assert set(dict(graph.degree).values()) == {4}


@pytest.mark.parametrize(("n", "columns"), [(9, 3), (12, 4), (36, 6), (943, 41)])
def test_a_torus_is_as_square_as_its_size_allows(n, columns):
    assert graphs.torus(n).has_edge(0, columns)


def test_newcomers_bring_their_links_to_a_star():
    graph = graphs.barabasi_albert(50, 3, 1)

    assert edges(graph.subgraph(range(4))) == [(0, 1), (0, 2), (0, 3)]
    assert all(len([peer for peer in graph[node] if peer < node]) == 3 for node in range(4, 50))


def test_blocks_are_of_consecutive_nodes_and_as_equal_as_can_be():
    blocks = nx.get_node_attributes(graphs.stochastic_block(10, 1, blocks=3, within=1, between=1), "block")

    assert [blocks[node] for node in range(10)] == [0] * 4 + [1] * 3 + [2] * 3


def test_blocks_may_have_sizes_and_probabilities_of_their_own():
    always, never = 1.0, 0.0
    table = [[always, never, always], [never, never, always], [always, always, never]]
    graph = graphs.stochastic_block(6, 1, sizes=[2, 2, 2], probabilities=table)

    assert edges(graph) == [(0, 1), *((a, b) for a in range(4) for b in (4, 5))]


def test_nodes_of_like_taste_are_linked_and_ties_go_to_the_lower_id():
    items = [[0, 1, 2], [0, 1, 2, 3], [2, 3, 4], [4, 5], [0, 1]]
    # Jaccard of 0: 3/4 with 1. Of 2: 2/5 with 1, 1/4 with 3, 1/5 with 0. Of 3: 1/4 with 2. Of 4: 2/3 with 0, 1/2 with 1
    assert edges(graphs.nearest_by_taste(items, 1)) == [(0, 1), (0, 4), (1, 2), (2, 3)]
    assert edges(graphs.nearest_by_taste([[1]] * 4, 1)) == [(0, 1), (0, 2), (0, 3)]


def test_nodes_that_are_near_on_the_globe_are_linked_across_the_date_line():
    places = [(0, 179.5), (0, -179.5), (0, 176), (0, -170)]

    assert edges(graphs.nearest_by_place(places, 1)) == [(0, 1), (0, 2), (1, 3)]


def test_distances_are_those_of_the_haversine_library():
    from haversine import haversine_vector

    places = np.random.default_rng(1).uniform((-90, -180), (90, 180), (40, 2))
    expected = haversine_vector(np.repeat(places, 40, axis=0), np.tile(places, (40, 1))).reshape(40, 40)

    np.testing.assert_allclose(-spatial_proximity(places), expected, rtol=1e-6, atol=1e-3)


@given(st.lists(st.sets(st.integers(0, 12), max_size=8), min_size=2, max_size=8))
def test_likeness_of_taste_is_the_jaccard_similarity(items):
    likeness = taste_similarity([sorted(own) for own in items])
    for a, one in enumerate(items):
        for b, other in enumerate(items):
            union = one | other
            assert likeness[a, b] == (len(one & other) / len(union) if union else 0)


def test_communities_of_taste_become_the_blocks():
    """Two groups that share no item; 1 in 20 links lead out of a group, half of all would if blocks were of chance."""
    rng = np.random.default_rng(3)
    group = rng.permutation(np.repeat([0, 1], 20))
    items = [10 * g + rng.choice(10, 6, replace=False) for g in group]
    graph = graphs.blocks_by_taste(items, 1, nearest=8, within=0.5, between=0.02)
    block = nx.get_node_attributes(graph, "block")

    assert all(
        len(
            {block[node] for node in range(40) if group[node] == g}
            & {block[node] for node in range(40) if group[node] != g}
        )
        == 0
        for g in (0, 1)
    )
    assert np.mean([group[a] != group[b] for a, b in graph.edges]) < 0.15


def test_a_complete_graph_has_every_link():
    assert graphs.complete(6).number_of_edges() == 15


def test_without_rewiring_a_small_world_is_a_ring():
    assert edges(graphs.watts_strogatz(9, 4, 0.0, 1)) == edges(graphs.ring(9, 4))


def test_links_of_a_random_graph_are_as_many_as_its_probability_says():
    """50 graphs of 40 nodes, p = 0.3 (all but surely connected): 39,000 possible links.

    The mean has a deviation of sqrt(0.3 * 0.7 / 39000) = 0.0023; the tolerance is five of them.
    """
    counts = [graphs.erdos_renyi(40, 0.3, seed).number_of_edges() for seed in range(50)]

    assert np.mean(counts) / 780 == pytest.approx(0.3, abs=0.012)


@pytest.mark.parametrize(
    ("family", "arguments", "message"),
    [
        ("ring", (5, 3), "an even number"),
        ("ring", (5, 0), "at least 2"),
        ("ring", (4, 4), "only 3 possible neighbours"),
        ("random_regular", (5, 3, 1), "must be even"),
        ("random_regular", (4, 4, 1), "expected 1 to 3"),
        ("random_regular", (4, 0, 1), "expected 1 to 3"),
        ("random_regular", (6, 1, 1), "no connected graph in 100 attempts; raise degree"),
        ("complete", (1,), "at least 2"),
        ("star", (1,), "at least 2"),
        ("watts_strogatz", (9, 3, 0.1, 1), "an even number"),
        ("watts_strogatz", (4, 4, 0.1, 1), "only 3 possible neighbours"),
        ("watts_strogatz", (9, 4, 1.1, 1), "from 0 to 1"),
        ("erdos_renyi", (1, 0.5, 1), "at least 2"),
        ("erdos_renyi", (9, -0.1, 1), "from 0 to 1"),
        ("erdos_renyi", (50, 0.01, 1), "no connected graph in 100 attempts; raise p"),
        ("torus", (7,), "not a product of two numbers of at least 3"),
        ("torus", (10,), "at least 3"),
        ("torus", (12, 5), "found 5 rows for 12 nodes"),
        ("torus", (12, 6), "found 6 rows for 12 nodes"),
        ("barabasi_albert", (5, 5, 1), "expected 1 to 4"),
        ("barabasi_albert", (5, 0, 1), "expected 1 to 4"),
        ("stochastic_block", (5, 1, 6), "found 6 blocks, must be from 1 to 5"),
        ("stochastic_block", (5, 1, 2, (2, 2)), "add up to 4"),
        ("stochastic_block", (5, 1, 2, (5, 0)), "expected positive sizes"),
        ("stochastic_block", (6, 1, 2, None, 1.5), "found within = 1.5"),
        ("stochastic_block", (6, 1, 2, None, 0.5, float("nan")), "found between = nan"),
        ("stochastic_block", (20, 1, 2, None, 0.9, 0.0), "no connected graph in 100 attempts; raise between"),
        ("stochastic_block", (6, 1, 2, None, 0.5, 0.5, ((1.0,),)), "expected 2 rows of 2"),
        ("stochastic_block", (6, 1, 2, None, 0.5, 0.5, ((1, 0.5), (0.2, 1))), "not symmetric"),
        ("nearest_by_taste", ([[1], [1], [2]], 3), "expected 1 to 2"),
        ("nearest_by_taste", ([[1], [1], [2], [2]], 1), "in 2 parts, the largest of 2 nodes"),
        ("nearest_by_place", ([(0, 0), (91, 0)], 1), "found latitude 91.0, longitude 0.0 for node 1"),
        ("nearest_by_place", ([(0, 0), (float("nan"), 0)], 1), "for node 1"),
        ("nearest_by_place", ([0, 1], 1), "must be .n, 2."),
    ],
)
def test_impossible_graphs_are_refused(family, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(graphs, family)(*arguments)


def test_neighbours_are_in_ascending_order():
    graph = nx.Graph([(2, 0), (1, 0), (3, 0)])

    assert [peers.tolist() for peers in graphs.out_neighbors(graph)] == [[1, 2, 3], [0], [0], [0]]


def test_neighbours_follow_the_direction_of_links():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])

    assert [peers.tolist() for peers in graphs.out_neighbors(graph)] == [[1, 2], [2], [0]]


@pytest.mark.parametrize("graph", [nx.Graph([("a", "b")]), nx.Graph([(1, 2)]), nx.Graph([(0, 0), (0, 1)])])
def test_graphs_that_are_not_over_the_first_numbers_or_have_loops_are_refused(graph):
    with pytest.raises(ValueError, match=r"found (a|node 0)"):
        graphs.out_neighbors(graph)


def test_the_package_imports_nothing_of_gossiprec_but_what_lies_under_all():
    for file in Path(graphs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            ours = {name for name in names if name.split(".")[0] == "gossiprec"}
            low = (
                "base.arrays",
                "base.errors",
                "base.geodesy",
                "base.inputs",
                "base.machine",
                "native",
                "base.registry",
                "base.regular_files",
            )
            allowed = {f"gossiprec.{name}" for name in low}
            assert {name for name in ours if not name.startswith("gossiprec.network.graphs")} <= allowed, file


BY_LIKENESS = {
    "blocks_by_taste": lambda: graphs.blocks_by_taste(ITEMS, 1, nearest=3, within=0.9, between=0.3),
    "nearest_by_taste": lambda: graphs.nearest_by_taste(ITEMS, 4),
    "nearest_by_place": lambda: graphs.nearest_by_place(PLACES, 4),
}


@pytest.mark.parametrize("family", BY_LIKENESS)
def test_likeness_is_the_same_block_by_block(family, monkeypatch):
    whole = edges(BY_LIKENESS[family]())
    monkeypatch.setattr(similarity, "BLOCK_CELLS", 31)  # three rows of ten at a time

    assert edges(BY_LIKENESS[family]()) == whole
