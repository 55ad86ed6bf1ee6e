"""The ring lattice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_lattice_degree
from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family(
    "ring", k=FamilyOption(int, "degree (even; half of the neighbours are on each side)", 2, least=2)
)
def ring(n: int, k: int) -> nx.Graph:
    """Return a ring lattice: every node is linked to its `k` nearest nodes, half of them on each side.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Degree: even, 2 <= k < n.

    Raises
    ------
    ValueError
        If there is no such lattice.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998): the lattice they
    start from.
    """
    import networkx as nx

    check_lattice_degree(n, k)
    graph = nx.empty_graph(n)
    graph.add_edges_from((u, (u + step) % n) for u in range(n) for step in range(1, k // 2 + 1))
    return graph
