"""Graphs without chance: ring, complete graph, star."""

from __future__ import annotations

import networkx as nx


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
    if k < 2 or k % 2:
        raise ValueError(f"found k = {k}, must be even and at least 2: half the neighbours lie on each side")
    if k >= n:
        raise ValueError(f"found k = {k}, but a node has only {n - 1} possible neighbours")
    graph = nx.empty_graph(n)
    graph.add_edges_from((u, (u + step) % n) for u in range(n) for step in range(1, k // 2 + 1))
    return graph


def complete(n: int) -> nx.Graph:
    """Return the graph in which every two of `n` nodes are linked.

    Raises
    ------
    ValueError
        If n < 2: a node would have nobody to talk to.
    """
    if n < 2:
        raise ValueError(f"found n = {n}, must be at least 2")
    return nx.complete_graph(n)


def star(n: int) -> nx.Graph:
    """Return the graph in which node 0, the centre, is linked to each of the n - 1 others, and these to nobody else.

    Raises
    ------
    ValueError
        If n < 2: a node would have nobody to talk to.
    """
    if n < 2:
        raise ValueError(f"found n = {n}, must be at least 2")
    return nx.star_graph(n - 1)
