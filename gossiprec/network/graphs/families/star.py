"""The star."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_size
from gossiprec.network.graphs.registry import register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family("star")
def star(n: int) -> nx.Graph:
    """Return the graph in which node 0, the centre, is linked to each of the n - 1 others, and no others are linked.

    Raises
    ------
    ValueError
        If n < 2: a node would have no peer.
    """
    import networkx as nx

    check_size(n)
    return nx.star_graph(n - 1)
