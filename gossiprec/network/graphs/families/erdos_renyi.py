"""Random graphs with independent links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_probability, check_size, draw_connected
from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family("erdos-renyi", p=FamilyOption(float, "probability of a link", least=0, most=1))
def erdos_renyi(n: int, p: float, seed: int) -> nx.Graph:
    """Return a connected graph in which every two nodes are linked with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes, at least 2.
    p : float
        0 <= p <= 1. Graphs with p below ln(n) / n are seldom connected.
    seed : int

    Raises
    ------
    ValueError
        If no connected graph was found.

    References
    ----------
    P. Erdős, A. Rényi, "On random graphs I", Publicationes Mathematicae 6 (1959); this is Gilbert's variant.
    """
    import networkx as nx

    check_size(n)
    check_probability(p)
    return draw_connected(lambda rng: nx.gnp_random_graph(n, p, seed=rng), seed, "raise p")
