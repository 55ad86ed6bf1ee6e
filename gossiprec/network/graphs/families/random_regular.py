"""Random regular graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import draw_connected
from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family("random-regular", degree=FamilyOption(int, "number of neighbours of every node", 3, least=1))
def random_regular(n: int, degree: int, seed: int) -> nx.Graph:
    """Return a random connected graph in which every node has the same degree.

    Parameters
    ----------
    n : int
        Number of nodes.
    degree : int
        1 <= degree < n, and n * degree even.
    seed : int

    Raises
    ------
    ValueError
        If there is no such graph, or no connected one.

    References
    ----------
    A. Steger, N. Wormald, "Generating random regular graphs quickly", Combinatorics, Probability and Computing 8
    (1999).
    """
    import networkx as nx

    if not 1 <= degree < n:
        raise ValueError(f"found degree {degree}; expected 1 to {n - 1}, the number of other nodes")
    if n * degree % 2:
        raise ValueError(
            f"found degree {degree} for {n} nodes, but n * degree must be even, because a link has two ends"
        )
    return draw_connected(lambda rng: nx.random_regular_graph(degree, n, seed=rng), seed, "raise degree")
