"""The fewest colluders that see every link."""

import itertools

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.network import graphs
from gossiprec.network.graphs.measures import colluder_bound, find_colluder_cover


def sees_all(graph, members):
    return all(u in members or v in members for u, v in graph.edges)


def fewest_by_trying(graph):
    for size in range(len(graph) + 1):
        if any(sees_all(graph, set(some)) for some in itertools.combinations(graph, size)):
            return size
    raise AssertionError


@given(n=st.integers(2, 9), p=st.floats(0.05, 0.9), seed=st.integers(0, 10**6), directed=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_cover_sees_every_link_and_the_exact_one_is_the_smallest(n, p, seed, directed):
    graph = nx.gnp_random_graph(n, p, seed=seed, directed=directed)
    fewest = fewest_by_trying(graph)
    exact, quick = find_colluder_cover(graph, exact=True), find_colluder_cover(graph)
    assert sees_all(graph, set(exact))
    assert sees_all(graph, set(quick))
    assert len(exact) == fewest <= len(quick)
    assert exact == sorted(set(exact))
    assert quick == sorted(set(quick))


@pytest.mark.parametrize(
    ("graph", "fewest"),
    [
        (nx.star_graph(7), 1),
        (nx.path_graph(9), 4),
        (nx.cycle_graph(9), 5),
        (nx.complete_graph(8), 7),
        (nx.complete_bipartite_graph(3, 8), 3),
        (nx.petersen_graph(), 6),
        (nx.convert_node_labels_to_integers(nx.hypercube_graph(4)), 8),
        (nx.karate_club_graph(), 14),
        (nx.Graph([(0, 1)]), 1),
    ],
)
def test_known_graphs_have_their_known_cover(graph, fewest):
    assert len(find_colluder_cover(graph, exact=True)) == fewest
    assert len(find_colluder_cover(graph)) == fewest  # on these the quick way finds it too


@pytest.mark.parametrize("seed", range(5))
def test_the_quick_cover_of_a_bipartite_graph_is_near_koenigs(seed):
    """König: as many as there are links in a largest matching. The quick way may need 5 % more."""
    graph = nx.bipartite.random_graph(60, 60, 0.05, seed=seed)
    matched = len(nx.bipartite.maximum_matching(graph, top_nodes=range(60))) // 2
    assert len(find_colluder_cover(graph, exact=True)) == matched
    assert matched <= len(find_colluder_cover(graph)) <= 1.05 * matched


@given(n=st.integers(2, 30), p=st.floats(0.02, 0.9), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_quick_cover_needs_no_more_than_the_bound(n, p, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    degree = 2 * graph.number_of_edges() / n
    assert len(find_colluder_cover(graph)) <= colluder_bound(n, degree) + 1e-9


def test_groups_that_are_all_linked_need_as_many_as_the_bound():
    graph = nx.disjoint_union_all([nx.complete_graph(4)] * 5)
    assert len(find_colluder_cover(graph, exact=True)) == colluder_bound(20, 3) == 15


def test_a_node_no_longer_needed_leaves():
    """Node 0 has most links and is taken first, but then its neighbours see all of them."""
    graph = nx.Graph([(0, leaf) for leaf in (1, 2, 3)] + [(leaf, leaf + 3) for leaf in (1, 2, 3)])
    assert find_colluder_cover(graph) == [1, 2, 3]


def test_one_node_comes_in_for_two_that_leave():
    """Taking the highest degree ends with 0, 1, 2 and 5, all needed; 4 can take the places of 0 and 5."""
    graph = nx.Graph([(0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 4), (2, 5), (4, 5)])
    assert find_colluder_cover(graph) == [1, 2, 4]


def test_the_cover_of_a_graph_without_links_is_empty():
    assert find_colluder_cover(nx.empty_graph(3)) == find_colluder_cover(nx.empty_graph(3), exact=True) == []


def test_the_same_graph_has_the_same_cover_whatever_the_order_of_its_links():
    graph = graphs.watts_strogatz(50, 6, 0.3, 4)
    turned = nx.Graph()
    turned.add_edges_from(sorted(((v, u) for u, v in graph.edges), reverse=True))
    assert find_colluder_cover(turned) == find_colluder_cover(graph)


def test_the_bound_refuses_what_is_no_graph():
    with pytest.raises(ValueError, match="found 0 nodes of mean degree 3"):
        colluder_bound(0, 3)
