"""The complete graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_size
from gossiprec.network.graphs.registry import register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family("complete")
def complete(n: int) -> nx.Graph:
    """Return the graph in which every two of `n` nodes are linked.

    Raises
    ------
    ValueError
        If n < 2: a node would have no peer.
    """
    import networkx as nx

    check_size(n)
    return nx.complete_graph(n)
