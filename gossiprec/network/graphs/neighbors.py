"""Out-neighbours of a graph's nodes, in the form that the emulator needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import I64

if TYPE_CHECKING:
    import networkx as nx


def out_neighbors(graph: nx.Graph) -> list[I64]:
    """Return the out-neighbours of nodes 0 .. n - 1, each list in ascending order.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
        Over nodes 0 .. n - 1; a link of an undirected graph leads both ways.

    Raises
    ------
    ValueError
        If the nodes are not 0 .. n - 1, or a node is linked to itself.
    """
    if set(graph) != set(range(len(graph))):
        raise ValueError(f"found a graph whose nodes are not 0 to {len(graph) - 1}; relabel them")
    if any(graph.has_edge(node, node) for node in graph):
        raise ValueError(
            "found a node linked to itself; remove the link, because a node does not send to itself"
        )
    return [np.array(sorted(graph[node]), np.int64) for node in range(len(graph))]
