"""Graph families as pure functions: parameters in, a networkx graph out; and functions that measure graphs.

Nodes are 0 .. n - 1. The same arguments give the same graph. Nothing here knows of models or recommenders.
"""

from __future__ import annotations

from topologies.neighbors import out_neighbors
from topologies.randomized import erdos_renyi, random_regular, watts_strogatz
from topologies.regular import complete, ring, star

__all__ = [
    "complete",
    "erdos_renyi",
    "out_neighbors",
    "random_regular",
    "ring",
    "star",
    "watts_strogatz",
]
