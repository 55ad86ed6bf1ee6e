"""Graphs of a formula or of draws: complete, star, ring lattice, torus, independent links, equal degrees, small-world
graphs, and preferential attachment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.network.graphs.families import (
    FamilyOption,
    check_lattice_degree,
    check_probability,
    check_size,
    draw_connected,
    register_family,
)

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


SIDE = 3
"""Minimum of rows and columns: with two, the neighbours above and below would be the same node."""


@register_family(
    "torus",
    rows=FamilyOption(
        int | None, "number of rows of the grid; none: as square as n allows", None, least=SIDE
    ),
)
def torus(n: int, rows: int | None = None) -> nx.Graph:
    """Return a grid that wraps around: every node is linked to the nodes above, below, left and right of it.

    Parameters
    ----------
    n : int
        Number of nodes: rows times columns, both at least 3. Node ``r * columns + c`` is in row r, column c.
    rows : int, optional
        If omitted, the largest divisor of n up to its square root.

    Raises
    ------
    ValueError
        If `n` nodes do not fill such a grid.
    """
    import networkx as nx

    if rows is None:
        rows = max(r for r in range(1, math.isqrt(max(n, 1)) + 1) if n % r == 0)
        if rows < SIDE:
            raise ValueError(
                f"found n = {n}, which is not a product of two numbers of at least {SIDE}; use {_near(n)} nodes"
            )
    columns, left = divmod(n, rows)
    if rows < SIDE or columns < SIDE or left:
        raise ValueError(
            f"found {rows} rows for {n} nodes; expected at least {SIDE} rows and columns, with {n} as their product"
        )
    graph = nx.empty_graph(n)
    for node in range(n):
        row, column = divmod(node, columns)
        graph.add_edge(node, row * columns + (column + 1) % columns)
        graph.add_edge(node, (row + 1) % rows * columns + column)
    return graph


def _near(n: int) -> int:
    """Return the next number of nodes above `n` that fills a torus."""
    above = max(n + 1, SIDE * SIDE)
    while not any(above % r == 0 for r in range(SIDE, math.isqrt(above) + 1)):
        above += 1
    return above


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
