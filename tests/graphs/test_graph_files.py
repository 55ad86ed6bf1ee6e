from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.network import graphs
from gossiprec.network.graphs.files import (
    build_graph,
    graph_text,
    read_edge_list,
    read_graphml,
    read_node_link,
)

READERS = {"edges": read_edge_list, "json": read_node_link, "graphml": read_graphml}
SUFFIX = {"edges": ".edges", "json": ".json", "graphml": ".graphml"}


def links(graph):
    return sorted(graph.edges) if graph.is_directed() else sorted(tuple(sorted(link)) for link in graph.edges)


@st.composite
def small_graphs(draw):
    n = draw(st.integers(2, 9))
    directed = draw(st.booleans())
    graph = (nx.DiGraph if directed else nx.Graph)()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((node, (node + 1) % n) for node in range(n - 1))  # nobody is left alone
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    graph.add_edges_from(draw(st.lists(pairs, max_size=12)))
    return graph


@pytest.mark.parametrize("form", READERS)
@given(graph=small_graphs())
@pytest.mark.cases(1)
def test_what_is_written_is_read_again(form, graph):
    again = build_graph(*READERS[form](graph_text(graph, form)), directed=None)

    assert again.is_directed() == graph.is_directed()
    assert list(again) == list(range(len(graph)))
    assert links(again) == links(graph)


@pytest.mark.parametrize("form", READERS)
def test_a_file_goes_by_the_end_of_its_name(form, tmp_path):
    path = tmp_path / f"graph{SUFFIX[form]}"
    graphs.write_graph(graphs.ring(5, 2), path)

    assert links(graphs.read_graph(path)) == links(graphs.ring(5, 2))


@pytest.mark.parametrize(
    ("write", "name"),
    [(nx.write_graphml, "g.graphml"), (nx.write_edgelist, "g.edges")],
    ids=["graphml", "edges"],
)
def test_what_networkx_writes_is_read(write, name, tmp_path):
    graph = nx.karate_club_graph()
    for _, _, data in graph.edges(data=True):
        data.clear()
    if name.endswith("edges"):
        nx.write_edgelist(graph, tmp_path / name, data=False)
    else:
        write(graph, tmp_path / name)

    assert links(graphs.read_graph(tmp_path / name)) == links(graph)


@pytest.mark.parametrize("key", ["links", "edges"])
def test_node_link_data_of_networkx_is_read_under_either_key(key, tmp_path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(nx.node_link_data(graphs.star(4), edges=key)))

    assert links(graphs.read_graph(path)) == [(0, 1), (0, 2), (0, 3)]


def test_a_stated_format_beats_the_name(tmp_path):
    path = tmp_path / "graph.dat"
    path.write_text("0,1\n1;2\n2\t0 # closing\n\n")

    assert links(graphs.read_graph(path, format="edges")) == [(0, 1), (0, 2), (1, 2)]


def test_an_edge_list_is_undirected_unless_it_or_the_reader_says_otherwise(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1\n1 0\n1 2\n")

    assert links(graphs.read_graph(path)) == [(0, 1), (1, 2)]
    assert links(graphs.read_graph(path, directed=True)) == [(0, 1), (1, 0), (1, 2)]


@pytest.mark.parametrize(
    ("directed", "words"), [(True, "an undirected graph, but directed: true"), (False, "")]
)
def test_directions_that_contradict_the_file_are_refused(directed, words, tmp_path):
    path = tmp_path / "g.graphml"
    graphs.write_graph(graphs.ring(5, 2), path)
    if words:
        with pytest.raises(ValueError, match=f"g.graphml: found {words} is set"):
            graphs.read_graph(path, directed=directed)
    else:
        assert not graphs.read_graph(path, directed=directed).is_directed()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.edges", "0 1\n1 1\n", "node 1 linked to itself"),
        ("g.edges", "0 1\n3 1\n", "3 nodes with ids up to 3 and none with id 2"),
        ("g.edges", "1 2\n", "none with id 0"),
        ("g.edges", "a b\n", "a node named 'a'; expected ids"),
        ("g.edges", "-1 0\n", "a node named '-1'"),
        ("g.edges", "01 0\n", "a node named '01'"),
        ("g.edges", "0 1 0.5\n", "line 1: found 3 columns"),
        ("g.edges", "0 1\n2\n", "line 2: found 1 columns"),
        ("g.edges", "# nothing\n", "found no links"),
        ("g.edges", "0 99999999999999999999999\n", "none with id 1"),
        ("g.json", "{", "not JSON"),
        ("g.json", "[" * 100_000, "not JSON"),
        ("g.json", "[]", "found no list of links"),
        ("g.json", '{"edges": [[0, 1]]}', "a link without source or target"),
        ("g.json", '{"nodes": [0, 1], "edges": []}', "a node without id"),
        ("g.json", '{"edges": [{"source": 0.0, "target": 1}]}', "a node named '0.0'"),
        ("g.json", '{"edges": [{"source": true, "target": 0}]}', "a node named 'True'"),
        ("g.json", '{"directed": 1, "edges": []}', "found directed '1'"),
        ("g.json", '{"edges": []}', "found no nodes"),
        ("g.json", '{"nodes": [{"id": 2}], "edges": [{"source": 0, "target": 1}]}', "node 2 without any link"),
        ("g.graphml", "<graphml>", "not XML"),
        ("g.graphml", "<a/>", "found 0 graphs in <a>"),
        ("g.graphml", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "found a document type"),
        ("g.graphml", "<graphml><graph edgedefault='both'/></graphml>", "found edgedefault 'both'"),
        (
            "g.graphml",
            "<graphml><graph edgedefault='directed'><edge source='n0' target='n1' directed='false'/></graph></graphml>",
            "found links that are not directed",
        ),
        ("g.graphml", "<graphml><graph edgedefault='directed'><edge source='n0'/></graph></graphml>", "without id"),
        ("g.pdf", "0 1", "found suffix '.pdf'"),
    ],
)  # fmt: skip
def test_what_is_no_graph_over_the_users_is_refused_by_name(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        graphs.read_graph(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("head", "directed"),
    [
        (
            "# Directed graph (each unordered pair of nodes is saved once): votes.txt\n# Nodes: 4 Edges: 5\n",
            True,
        ),
        ("# Undirected graph: com-amazon.ungraph.txt\n", False),
        ("#DIRECTED\n", True),
        ("\n  #  directed, 4 nodes\n# undirected\n", True),
        ("#\n# UnDirected\n", False),
        ("## directed_graph\n", True),
        ("\ufeff# Directed\n", True),
        ("# nodes: 4\n", False),
    ],
)
def test_a_first_comment_states_the_direction_in_any_case(head, directed, tmp_path):
    path = tmp_path / "votes.txt"
    path.write_text(f"{head}0\t1\n1\t2\n2\t3\n3\t0\n0\t2\n", encoding="utf-8")

    graph = graphs.read_graph(path)
    assert graph.is_directed() == directed
    assert graph.has_edge(1, 0) != directed
    if "irected" in head.lower():
        with pytest.raises(ValueError, match=f"graph, but directed: {str(not directed).lower()} is set"):
            graphs.read_graph(path, directed=not directed)


@pytest.mark.parametrize(
    "head", ["# type: directed\n", "# my graph\n# Directed\n", "# nodes 4, UNDIRECTED\n"]
)
def test_a_comment_that_may_state_the_direction_is_refused_until_the_key_does(head, tmp_path):
    path = tmp_path / "g.edges"
    path.write_text(f"{head}0 1\n1 2\n")

    with pytest.raises(
        ValueError, match=r"which may state the direction of links; .* set directed: true or directed"
    ):
        graphs.read_graph(path)
    assert graphs.read_graph(path, directed=True).is_directed()
    assert not graphs.read_graph(path, directed=False).is_directed()


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "binary.edges").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.edges").mkdir()
    for name, message in (
        ("binary", "not a text file"),
        ("folder", "found a folder"),
        ("nowhere", "no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            graphs.read_graph(tmp_path / f"{name}.edges")


def test_ids_of_graphml_may_begin_with_n():
    inside = "<node id='n0'/><node id='n1'/><edge source='n0' target='n1'/>"
    text = f"<graphml><graph edgedefault='undirected'>{inside}</graph></graphml>"

    assert links(build_graph(*read_graphml(text), directed=None)) == [(0, 1)]


def test_a_graph_of_another_size_than_the_data_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match="here: found 5 nodes, but the data have 24 users"):
        graphs.check_node_count(graphs.ring(5, 2), 24, "here")
