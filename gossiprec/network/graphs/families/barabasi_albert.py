"""Graphs that grow by preferential attachment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family("barabasi-albert", m=FamilyOption(int, "number of links of each new node", 2, least=1))
def barabasi_albert(n: int, m: int, seed: int) -> nx.Graph:
    """Return a graph grown node by node: each new node links to `m` others, in proportion to their degrees.

    Parameters
    ----------
    n : int
        Number of nodes.
    m : int
        1 <= m < n. The graph starts as a star of m + 1 nodes and has m (n - m) links: a few hubs, many leaves.
    seed : int

    Raises
    ------
    ValueError
        If there are too few nodes.

    References
    ----------
    A.-L. Barabási, R. Albert, "Emergence of scaling in random networks", Science 286 (1999).
    """
    import networkx as nx

    if not 1 <= m < n:
        raise ValueError(f"found m = {m}; expected 1 to {n - 1}, the number of other nodes")
    return nx.barabasi_albert_graph(n, m, seed=np.random.default_rng(seed))
