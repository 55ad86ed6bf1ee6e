"""Graphs as pure functions: parameters in, a networkx graph out; also files of graphs, and measures of graphs.

Nodes are 0 .. n - 1. Equal arguments give equal graphs. Nothing here depends on models or recommenders.
"""

from __future__ import annotations

from gossiprec.network.graphs.families import (
    FAMILIES,
    REQUIRED,
    GraphFamily,
    barabasi_albert,
    blocks_by_taste,
    complete,
    erdos_renyi,
    nearest_by_place,
    nearest_by_taste,
    out_neighbors,
    random_regular,
    ring,
    star,
    stochastic_block,
    torus,
    watts_strogatz,
)
from gossiprec.network.graphs.files import (
    check_node_count,
    frozen_graph,
    frozen_names,
    read_graph,
    write_graph,
)

__all__ = [
    "FAMILIES", "REQUIRED", "GraphFamily", "barabasi_albert", "blocks_by_taste", "check_node_count", "complete",
    "erdos_renyi", "frozen_graph", "frozen_names", "nearest_by_place", "nearest_by_taste", "out_neighbors",
    "random_regular", "read_graph", "ring", "star", "stochastic_block", "torus", "watts_strogatz", "write_graph",
]  # fmt: skip
