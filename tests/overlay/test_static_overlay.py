from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter

from gossiprec.base.errors import ScenarioError
from gossiprec.network.graphs import out_neighbors
from gossiprec.network.overlay.graph_options import load_graph
from gossiprec.network.overlay.views import Graph, GraphViews, choose_receivers

GRAPHS = [
    {"family": "ring", "k": 4},
    {"family": "random-regular", "degree": 3},
    {"family": "complete"},
    {"family": "star"},
    {"family": "watts-strogatz", "k": 4, "p": 0.2},
    {"family": "erdos-renyi", "p": 0.4},
]


def neighbors(options, n_nodes=12, seed=1):
    graph = TypeAdapter(Graph).validate_python(options)
    return out_neighbors(load_graph(graph, n_nodes, seed=seed, key="protocol.view.graph"))


@pytest.mark.parametrize("options", GRAPHS, ids=lambda options: options["family"])
def test_links_lead_both_ways_and_never_to_oneself(options):
    links = {(node, int(peer)) for node, peers in enumerate(neighbors(options)) for peer in peers}

    assert links == {(b, a) for a, b in links}
    assert not any(a == b for a, b in links)
    assert {a for a, _ in links} == set(range(12))


@pytest.mark.parametrize("options", GRAPHS, ids=lambda options: options["family"])
def test_a_graph_depends_on_the_seed_alone(options):
    def drawn(seed):
        return [peers.tolist() for peers in neighbors(options, seed=seed)]

    assert drawn(1) == drawn(1)
    chance = options["family"] in ("random-regular", "watts-strogatz", "erdos-renyi")
    assert (len({str(drawn(seed)) for seed in range(4)}) > 1) == chance


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "ring", "k": 3}, r"^protocol\.view\.graph: found k = 3; expected an even number"),
        ({"family": "ring", "k": 12}, r"^protocol\.view\.graph: found k = 12, but .* 11 possible .*12 nodes"),
        ({"family": "random-regular", "degree": 12}, "found degree 12; expected 1 to 11"),
        ({"family": "watts-strogatz", "k": 14}, "found k = 14"),
        ({"family": "erdos-renyi", "p": 0.001}, "no connected graph in 100 attempts; raise p"),
    ],
)
def test_a_graph_that_cannot_be_is_an_error_of_the_scenario(options, message):
    with pytest.raises(ScenarioError, match=message):
        neighbors(options)


def test_an_odd_number_of_link_ends_is_an_error_of_the_scenario():
    with pytest.raises(ScenarioError, match=r"found degree 3 for 11 nodes, but n \* degree must be even"):
        neighbors({"family": "random-regular", "degree": 3}, n_nodes=11)


def test_receivers_are_drawn_from_the_neighbours_at_each_wake():
    neighbors = [np.array([1, 2, 3]), np.array([0]), np.array([0, 3]), np.array([0, 2])]
    views = GraphViews([0.0], [neighbors], fanout=2, seed=1)
    drawn = [views.next_receivers(0) for _ in range(100)]

    assert {tuple(sorted(peers)) for peers in drawn} == {(1, 2), (1, 3), (2, 3)}
    assert [views.next_receivers(1), views.next_receivers(2)] == [[0], [0, 3]]


def test_picks_among_neighbours_are_those_of_earlier_versions():
    """Drawn for many wakes at once then; runs of old scenarios keep their bytes."""
    views = GraphViews([0.0], [[np.array([1, 2, 3, 4]), *[np.array([0])] * 4]], fanout=2, seed=1)
    wakes, nodes = np.arange(20), np.array([0])
    together = choose_receivers(np.broadcast_to(np.arange(1, 5), (1, 20, 4)), wakes, nodes, fanout=2, seed=1)[
        0
    ]

    assert [list(views.next_receivers(0)) for _ in range(20)] == together.tolist()
