"""Small-world graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_lattice_degree, check_probability, draw_connected
from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family(
    "watts-strogatz",
    k=FamilyOption(int, "mean degree (even)", 4, least=2),
    p=FamilyOption(float, "probability that a link is rewired", 0.1, least=0, most=1),
)
def watts_strogatz(n: int, k: int, p: float, seed: int) -> nx.Graph:
    """Return a connected small-world graph: a ring lattice with links rewired with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Mean degree: even, 2 <= k < n.
    p : float
        0 <= p <= 1.
    seed : int

    Raises
    ------
    ValueError
        If there is no such lattice, or no connected graph was found.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998).
    """
    import networkx as nx

    check_lattice_degree(n, k)
    check_probability(p)
    return draw_connected(lambda rng: nx.watts_strogatz_graph(n, k, p, seed=rng), seed, "raise k or lower p")
