"""The picture of a graph."""

import csv

import networkx as nx
import numpy as np
import pytest

from gossiprec.figures import style, topology
from gossiprec.figures.topology import (
    CURVE_POINTS,
    DEPTH,
    MOST_LINKS,
    curved_links,
    draw,
    is_ring,
    place_nodes,
)
from gossiprec.network import graphs


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
    places = place_nodes("graph", graph, layout).places

    assert np.isfinite(places).all()
    assert np.abs(places).max() == pytest.approx(1)
    assert len({(round(x, 6), round(y, 6)) for x, y in places}) == len(graph)


def test_a_ring_is_drawn_as_one():
    distances = np.hypot(*place_nodes("ring", graphs.ring(40, 2), "spring").places.T)

    assert distances.std() / distances.mean() < 0.02


def test_a_directed_graph_is_drawn_with_all_its_links(tmp_path):
    paths = draw([("views", nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))], tmp_path / "views")

    assert [row["degree"] for row in table(paths[0])] == ["3", "2", "3"]
    assert "<!-- 3 nodes, 4 links -->" in paths[2].read_text()


def test_more_links_than_can_be_told_apart_are_refused(tmp_path):
    with pytest.raises(ValueError, match=f"up to {MOST_LINKS:,}"):
        draw([("all", graphs.complete(250))], tmp_path / "all")


@pytest.mark.parametrize(("n", "k"), [(30, 4), (300, 2), (943, 6)])
def test_links_of_a_ring_run_between_its_nodes_and_not_beneath_them(n, k):
    graph = graphs.ring(n, k)
    places = place_nodes("ring", graph, "spring").places
    links = np.array(sorted(graph.edges))
    courses = curved_links(places, links)
    middles = np.linalg.norm(courses[:, CURVE_POINTS // 2], axis=1)
    hops = np.minimum(np.abs(links[:, 0] - links[:, 1]), n - np.abs(links[:, 0] - links[:, 1]))

    assert np.allclose(np.linalg.norm(places, axis=1), 1)
    assert np.allclose(courses[:, [0, -1]], places[links])
    assert (middles <= 1 - DEPTH * hops + 1e-9).all()
    for fewer in range(1, k // 2):
        assert middles[hops == fewer].min() > middles[hops == fewer + 1].max() + DEPTH / 2


def test_a_link_across_a_circle_is_straight():
    places = place_nodes("ring", graphs.ring(24, 2), "circular").places
    course = curved_links(places, np.array([[0, 10], [0, 12]]))
    assert np.allclose(course, np.linspace(places[[0, 0]], places[[10, 12]], CURVE_POINTS, axis=1))


@pytest.mark.parametrize(
    ("graph", "is_one"),
    [
        (graphs.ring(40, 6), True),
        (graphs.complete(12), False),
        (graphs.torus(36), False),
        (nx.DiGraph(), False),
    ],
)
def test_a_ring_is_known_by_its_links(graph, is_one):
    assert is_ring(graph) is is_one


def test_nodes_of_a_large_ring_do_not_touch(tmp_path, monkeypatch):
    widths = []
    draw_nodes = topology._draw_nodes

    def drawn(axes, one, *, width_pt, has_ids):
        widths.append((width_pt, topology._between(one)))
        draw_nodes(axes, one, width_pt=width_pt, has_ids=has_ids)

    monkeypatch.setattr(topology, "_draw_nodes", drawn)
    draw([("ring", graphs.ring(100, 4))], tmp_path / "ring")
    ((width, between),) = widths
    assert width / 72 < between * style.COLUMN_IN / 2.2


def test_all_panels_have_ids_or_none_has(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(topology, "write_figure", lambda stem, header, rows, draw: found.append(draw()))
    large = [("ring", graphs.ring(9, 2)), ("large", graphs.ring(200, 4))]
    for shown in (large[:1], large):
        topology.draw(shown, tmp_path / "d")
    assert [
        sum(text.get_text().isdigit() for axes in figure.axes for text in axes.texts) for figure in found
    ] == [9, 0]
