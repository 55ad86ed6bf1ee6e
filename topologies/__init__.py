"""Graphs as pure functions: parameters in, a networkx graph out; files of graphs, and functions that measure them.

Nodes are 0 .. n - 1. The same arguments give the same graph. Nothing here knows of models or recommenders.
"""

from __future__ import annotations

from topologies.families.barabasi_albert import barabasi_albert
from topologies.families.blocks_by_taste import blocks_by_taste
from topologies.families.complete import complete
from topologies.families.erdos_renyi import erdos_renyi
from topologies.families.nearest_by_place import nearest_by_place
from topologies.families.nearest_by_taste import nearest_by_taste
from topologies.families.random_regular import random_regular
from topologies.families.ring import ring
from topologies.families.star import star
from topologies.families.stochastic_block import stochastic_block
from topologies.families.torus import torus
from topologies.families.watts_strogatz import watts_strogatz
from topologies.files import check_size_of, read_graph, write_graph
from topologies.frozen_graphs import frozen_graph, frozen_names
from topologies.neighbors import out_neighbors
from topologies.registry import FAMILIES, REQUIRED, Family

__all__ = [
    "FAMILIES",
    "REQUIRED",
    "Family",
    "barabasi_albert",
    "blocks_by_taste",
    "check_size_of",
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
