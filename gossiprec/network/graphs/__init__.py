"""Graphs as pure functions: parameters in, a networkx graph out; also files of graphs, and measures of graphs.

Nodes are 0 .. n - 1. Equal arguments give equal graphs. Nothing here depends on models or recommenders.
"""

from __future__ import annotations

from gossiprec.network.graphs.families.barabasi_albert import barabasi_albert
from gossiprec.network.graphs.families.blocks_by_taste import blocks_by_taste
from gossiprec.network.graphs.families.complete import complete
from gossiprec.network.graphs.families.erdos_renyi import erdos_renyi
from gossiprec.network.graphs.families.nearest_by_place import nearest_by_place
from gossiprec.network.graphs.families.nearest_by_taste import nearest_by_taste
from gossiprec.network.graphs.families.random_regular import random_regular
from gossiprec.network.graphs.families.ring import ring
from gossiprec.network.graphs.families.star import star
from gossiprec.network.graphs.families.stochastic_block import stochastic_block
from gossiprec.network.graphs.families.torus import torus
from gossiprec.network.graphs.families.watts_strogatz import watts_strogatz
from gossiprec.network.graphs.files import (
    check_node_count,
    frozen_graph,
    frozen_names,
    read_graph,
    write_graph,
)
from gossiprec.network.graphs.registry import FAMILIES, REQUIRED, GraphFamily, out_neighbors

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
