"""Graphs as pure functions: parameters in, a networkx graph out; also files of graphs, and measures of graphs.

Nodes are 0 .. n - 1. Equal arguments give equal graphs. Nothing here depends on models or recommenders.
"""

from __future__ import annotations

from gossiprec.graphs.families.barabasi_albert import barabasi_albert
from gossiprec.graphs.families.blocks_by_taste import blocks_by_taste
from gossiprec.graphs.families.complete import complete
from gossiprec.graphs.families.erdos_renyi import erdos_renyi
from gossiprec.graphs.families.nearest_by_place import nearest_by_place
from gossiprec.graphs.families.nearest_by_taste import nearest_by_taste
from gossiprec.graphs.families.random_regular import random_regular
from gossiprec.graphs.families.ring import ring
from gossiprec.graphs.families.star import star
from gossiprec.graphs.families.stochastic_block import stochastic_block
from gossiprec.graphs.families.torus import torus
from gossiprec.graphs.families.watts_strogatz import watts_strogatz
from gossiprec.graphs.files import check_node_count, read_graph, write_graph
from gossiprec.graphs.frozen_graphs import frozen_graph, frozen_names
from gossiprec.graphs.neighbors import out_neighbors
from gossiprec.graphs.registry import FAMILIES, REQUIRED, GraphFamily

__all__ = [
    "FAMILIES",
    "REQUIRED",
    "GraphFamily",
    "barabasi_albert",
    "blocks_by_taste",
    "check_node_count",
    "complete",
    "erdos_renyi",
    "frozen_graph",
    "frozen_names",
    "nearest_by_place",
    "nearest_by_taste",
    "out_neighbors",
    "random_regular",
    "read_graph",
    "ring",
    "star",
    "stochastic_block",
    "torus",
    "watts_strogatz",
    "write_graph",
]
