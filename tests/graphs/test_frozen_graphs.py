"""Graphs that come with the package do not change, and are what their files say."""

from __future__ import annotations

import hashlib

import networkx as nx
import pytest

from gossiprec.network import graphs
from gossiprec.network.graphs.files import frozen_summary, frozen_text

CLASSICS = {
    "karate-club": nx.karate_club_graph,
    "florentine-families": nx.florentine_families_graph,
    "davis-southern-women": nx.davis_southern_women_graph,
}
DIGESTS = {
    "blocks-100": "30c67754b5c19111",
    "davis-southern-women": "f919ff2c6bc9958c",
    "florentine-families": "aa5d913432a4f017",
    "hubs-100": "3525714afc73b022",
    "karate-club": "3c804304fe42743a",
    "regular-24": "ca10b53d2f5b8d87",
    "small-world-100": "36364fa22fd200fc",
    "small-world-24": "ab97b7a037ee34a5",
}


def links(graph):
    return sorted(tuple(sorted(link)) for link in graph.edges)


@pytest.mark.parametrize("name", graphs.frozen_names())
def test_a_frozen_graph_is_connected_and_the_same_for_ever(name):
    graph = graphs.frozen_graph(name)

    assert nx.is_connected(graph)
    assert hashlib.sha256(str(links(graph)).encode()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", CLASSICS)
def test_a_classic_is_the_one_of_networkx(name):
    classic = nx.convert_node_labels_to_integers(CLASSICS[name]())

    assert links(graphs.frozen_graph(name)) == links(classic)


@pytest.mark.parametrize("name", graphs.frozen_names())
def test_the_first_line_counts_right_and_the_second_tells_what_it_is(name):
    graph = graphs.frozen_graph(name)
    first = frozen_text(name).splitlines()[0]

    assert first == f"# undirected, {len(graph)} nodes, {graph.number_of_edges()} links"
    assert frozen_summary(name).endswith(".")


def test_an_unknown_name_is_answered_with_the_known():
    with pytest.raises(ValueError, match="unknown bundled graph 'karate'; known: blocks-100, "):
        graphs.frozen_graph("karate")
