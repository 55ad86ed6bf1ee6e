"""Measures of graphs: closed forms where there are some, and networkx or the definitions elsewhere."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.network import graphs
from gossiprec.network.graphs import measures
from tests.slow import slow_except_first

GRAPHS = {
    "karate": nx.karate_club_graph(),
    "small world": graphs.watts_strogatz(40, 4, 0.2, 1),
    "random": graphs.erdos_renyi(30, 0.3, 2),
    "path": nx.path_graph(9),
    "directed": nx.gnp_random_graph(25, 0.2, seed=3, directed=True),
    "directed ring": nx.cycle_graph(8, create_using=nx.DiGraph),
}


def random_graph(seed, *, directed, n=12, p=0.3):
    return nx.gnp_random_graph(n, p, seed=seed, directed=directed)


@pytest.mark.parametrize("name", GRAPHS)
def test_distances_and_clustering_are_those_of_networkx(name):
    graph = GRAPHS[name]
    plain = nx.Graph(graph.edges) if not graph.is_directed() else graph
    assert measures.diameter(graph) == nx.diameter(plain)
    assert measures.average_distance(graph) == pytest.approx(nx.average_shortest_path_length(plain))
    assert measures.clustering(graph) == pytest.approx(nx.average_clustering(plain))


@given(seed=st.integers(0, 10**6), directed=st.booleans())
@settings(max_examples=60, deadline=None)
def test_clustering_agrees_with_networkx_on_any_graph(seed, directed):
    graph = random_graph(seed, directed=directed)
    assert measures.clustering(graph) == pytest.approx(nx.average_clustering(graph))


def test_a_graph_in_parts_has_no_diameter_and_no_average_distance():
    parts = nx.Graph([(0, 1), (2, 3)])
    one_way = nx.DiGraph([(0, 1), (1, 2)])
    for graph in (parts, one_way):
        assert measures.diameter(graph) is measures.average_distance(graph) is None


def test_degrees_are_counted_out_and_in():
    assert measures.degree_summary(graphs.star(5)) == pytest.approx(
        {"min": 1, "mean": 8 / 5, "max": 4, "deviation": 1.2, "in_min": 1, "in_max": 4, "in_deviation": 1.2}
    )
    fan = measures.degree_summary(nx.DiGraph([(0, 2), (1, 2), (2, 0)]))
    assert (fan["min"], fan["mean"], fan["max"], fan["deviation"]) == (1, 1, 1, 0)
    assert (fan["in_min"], fan["in_max"]) == (0, 2)


def test_weights_and_parallel_links_change_nothing():
    plain = GRAPHS["small world"]
    heavy, many = plain.copy(), nx.MultiGraph(plain)
    nx.set_edge_attributes(heavy, 7.5, "weight")
    many.add_edges_from(list(plain.edges)[:5])
    for graph in (heavy, many):
        assert measures.degree_summary(graph) == measures.degree_summary(plain)
        assert measures.spectral_gap(graph) == pytest.approx(measures.spectral_gap(plain))


@pytest.mark.parametrize(
    ("graph", "gap", "lazy_gap"),
    [
        # walk eigenvalues: 1 and -1/(n - 1); cos(2 pi j / n); 1, 0, -1; (d - 2 j) / d
        (nx.complete_graph(9), 1 - 1 / 8, 1 - (1 - 1 / 8) / 2),
        (nx.cycle_graph(9), 1 - math.cos(math.pi / 9), (1 - math.cos(2 * math.pi / 9)) / 2),
        (nx.cycle_graph(8), 0, (1 - math.cos(2 * math.pi / 8)) / 2),
        (nx.star_graph(6), 0, 1 / 2),
        (nx.convert_node_labels_to_integers(nx.hypercube_graph(4)), 0, 1 / 4),
        (nx.cycle_graph(7, create_using=nx.DiGraph), 0, 1 - math.cos(math.pi / 7)),
        (nx.complete_graph(6, create_using=nx.DiGraph), 1 - 1 / 5, 1 - (1 - 1 / 5) / 2),
    ],
    ids=["complete", "odd ring", "even ring", "star", "hypercube", "directed ring", "directed complete"],
)
def test_the_spectral_gap_has_its_closed_form(graph, gap, lazy_gap):
    assert measures.spectral_gap(graph) == pytest.approx(gap, abs=1e-9)
    assert measures.spectral_gap(graph, lazy=True) == pytest.approx(lazy_gap, abs=1e-9)


@pytest.mark.parametrize("directed", [False, True])
def test_the_spectral_gap_is_that_of_the_walk_written_out(directed):
    graph = random_graph(5, directed=directed, n=20, p=0.4)
    links = nx.to_numpy_array(graph, nodelist=range(20))
    moduli = np.sort(np.abs(np.linalg.eigvals(links / links.sum(axis=1, keepdims=True))))
    assert measures.spectral_gap(graph) == pytest.approx(1 - moduli[-2])


@pytest.mark.parametrize(
    "graph",
    [
        graphs.random_regular(60, 4, 1),
        graphs.ring(401, 2),
        random_graph(6, directed=True, n=80, p=0.2),
    ],
    ids=["regular", "thin ring", "directed"],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_large_graphs_are_measured_by_iteration_with_the_same_result(graph, lazy, monkeypatch):
    dense = measures.spectral_gap(graph, lazy=lazy)
    monkeypatch.setattr(measures, "DENSE_UP_TO", 10)
    assert measures.spectral_gap(graph, lazy=lazy) == pytest.approx(dense, abs=1e-9)


@pytest.mark.parametrize(("lazy", "gap"), slow_except_first([(False, math.pi), (True, 2 * math.pi)]))
@pytest.mark.full
def test_the_gap_of_a_long_thin_ring_is_found_though_eigenvalues_crowd(lazy, gap):
    """1 - cos(pi / n), and half of 1 - cos(2 pi / n): some 1e-6."""
    n = 2501
    expected = (1 - math.cos(gap / n)) / (2 if lazy else 1)
    assert measures.spectral_gap(graphs.ring(n, 2), lazy=lazy) == pytest.approx(expected, rel=1e-4)


def test_a_graph_in_parts_has_no_gap():
    assert measures.spectral_gap(nx.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])) == pytest.approx(
        0
    )


def test_a_walk_that_ends_has_no_gap():
    with pytest.raises(ValueError, match="found node 2 without an outgoing link"):
        measures.spectral_gap(nx.DiGraph([(0, 1), (1, 2), (1, 0)]))


@pytest.mark.parametrize(
    "graph", [nx.Graph([("a", "b")]), nx.Graph([(1, 2)]), nx.Graph([(0, 0), (0, 1)]), nx.Graph()]
)
def test_graphs_that_are_not_over_the_first_numbers_or_have_loops_are_refused(graph):
    for measure in (measures.degree_summary, measures.diameter, measures.spectral_gap, measures.clustering):
        with pytest.raises(ValueError, match="found"):
            measure(graph)


def test_a_fixed_graph_lets_a_node_meet_its_neighbours_only():
    ring = graphs.ring(11, 4)
    assert measures.reachable_fraction(ring) == pytest.approx(0.4)
    assert measures.wakes_to_meet(0.4, ring, 4) is None
    assert measures.wakes_to_meet(0.2, ring, 4) == pytest.approx(math.log(2))  # half of four, at rate 1
    assert measures.wakes_to_meet(0.2, ring, 1) == pytest.approx(4 * math.log(2))  # at rate 1/4
    complete = graphs.complete(11)
    assert measures.wakes_to_meet(0.5, complete, 2) == pytest.approx(5 * math.log(2))


def test_leaves_are_met_by_the_centre_sooner_than_the_centre_by_them():
    """The centre sends to one of four leaves at each wake, each leaf always to the centre."""
    time = measures.wakes_to_meet(0.25, graphs.star(5), 1)
    assert (4 * (1 - math.exp(-time)) + 4 * (1 - math.exp(-time / 4))) / 20 == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: measures.wakes_to_meet(1.1, graphs.star(4), 3),
            "found fraction 1.1, must be from 0 to 1",
        ),
        (
            lambda: measures.wakes_to_meet(0.5, graphs.star(4), 0),
            "found fanout 0, must be at least 1",
        ),
    ],
)
def test_impossible_questions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
