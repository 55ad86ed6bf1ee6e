"""Centralities against networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.network import graphs
from gossiprec.network.graphs.centrality import betweenness, hops_to, pagerank
from gossiprec.network.graphs.measures import adjacency


def in_order(by_node):
    return [by_node[node] for node in range(len(by_node))]


@given(n=st.integers(3, 14), p=st.floats(0.05, 0.9), seed=st.integers(0, 10**6), directed=st.booleans())
@settings(max_examples=80, deadline=None)
def test_betweenness_is_that_of_networkx(n, p, seed, directed):
    graph = nx.gnp_random_graph(n, p, seed=seed, directed=directed)
    assert betweenness(adjacency(graph)) == pytest.approx(in_order(nx.betweenness_centrality(graph)))


@given(
    n=st.integers(3, 9), ways=st.lists(st.sampled_from(["in", "out", "both", "none"]), min_size=8, max_size=8)
)
def test_betweenness_of_a_star_is_that_of_networkx(n, ways):
    star = nx.DiGraph()
    star.add_nodes_from(range(n))
    hub = n // 2
    for leaf, way in zip([node for node in range(n) if node != hub], ways, strict=False):
        star.add_edges_from(
            [(leaf, hub)] * (way in ("in", "both")) + [(hub, leaf)] * (way in ("out", "both"))
        )
    expected = pytest.approx(in_order(nx.betweenness_centrality(star)))
    assert betweenness(adjacency(star)) == expected
    assert betweenness(adjacency(star), exact_up_to=2, samples=1) == expected


@pytest.mark.slow
@pytest.mark.full
def test_betweenness_adds_up_over_blocks_of_first_nodes():
    graph = graphs.watts_strogatz(600, 4, 0.1, 1)
    assert betweenness(adjacency(graph)) == pytest.approx(in_order(nx.betweenness_centrality(graph)))


def test_sampled_betweenness_is_near_the_exact_one_and_depends_on_the_seed_alone():
    """A quarter of 400 first nodes; the order of the nodes must survive well enough to choose by it."""
    links = adjacency(nx.barabasi_albert_graph(400, 2, seed=3))
    exact = betweenness(links)
    some = [betweenness(links, exact_up_to=100, samples=100, seed=seed) for seed in (1, 1, 2)]
    assert (some[0] == some[1]).all()
    assert (some[0] != some[2]).any()
    assert some[0].sum() == pytest.approx(exact.sum(), rel=0.05)
    assert np.corrcoef(some[0], exact)[0, 1] > 0.98


@given(n=st.integers(2, 12), p=st.floats(0, 0.9), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_pagerank_is_that_of_networkx_with_weights_and_ends(n, p, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed, directed=True)
    for number, (u, v) in enumerate(graph.edges):
        graph[u][v]["weight"] = 1 + number % 3
    weights = nx.to_scipy_sparse_array(graph, nodelist=range(n), format="csr", dtype=float)
    expected = in_order(nx.pagerank(graph, tol=1e-12, max_iter=1000))
    assert pagerank(weights) == pytest.approx(expected, abs=1e-8)


def test_hops_are_counted_along_links_to_the_nearest_of_a_group():
    path = adjacency(nx.DiGraph([(0, 1), (1, 2), (2, 3), (4, 3)]))
    assert hops_to(path, np.array([2])).tolist() == [2, 1, 0, np.inf, np.inf]
    assert hops_to(path, np.array([3, 1])).tolist() == [1, 0, 1, 0, 1]
