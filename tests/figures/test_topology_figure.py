"""The picture of a graph."""

import csv

import networkx as nx
import numpy as np
import pytest

from gossiprec import graphs
from gossiprec.figures.topology import MOST_LINKS, draw, placed


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_colluders_of_the_table_see_every_link(tmp_path):
    graph = graphs.frozen_graph("karate-club")
    paths = draw([("club", graph)], tmp_path / "club")
    rows = table(paths[0])
    colluders = {int(row["node"]) for row in rows if row["colluder"] == "1"}

    assert [path.suffix for path in paths] == [".csv", ".png", ".svg"]
    assert all(one in colluders or other in colluders for one, other in graph.edges)
    assert [int(row["degree"]) for row in rows] == [graph.degree(node) for node in range(34)]


@pytest.mark.parametrize("layout", ["spring", "circular"])
@pytest.mark.parametrize("graph", [graphs.ring(12, 2), graphs.ring(200, 4), nx.Graph([(0, 1), (2, 3)])])
def test_nodes_lie_apart_and_inside_the_panel(layout, graph):
    places = placed("graph", graph, layout).places

    assert np.isfinite(places).all()
    assert np.abs(places).max() == pytest.approx(1)
    assert len({(round(x, 6), round(y, 6)) for x, y in places}) == len(graph)


def test_a_ring_is_drawn_as_one():
    distances = np.hypot(*placed("ring", graphs.ring(40, 2), "spring").places.T)

    assert distances.std() / distances.mean() < 0.02


def test_a_directed_graph_is_drawn_with_all_its_links(tmp_path):
    paths = draw([("views", nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))], tmp_path / "views")

    assert [row["degree"] for row in table(paths[0])] == ["3", "2", "3"]
    assert "<!-- 3 nodes, 4 links -->" in paths[2].read_text()


def test_more_links_than_can_be_told_apart_are_refused(tmp_path):
    with pytest.raises(ValueError, match=f"at most {MOST_LINKS:,}"):
        draw([("all", graphs.complete(250))], tmp_path / "all")
