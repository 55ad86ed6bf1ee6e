"""Classic graphs: complete, star, ring lattice and torus."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gossiprec.network.graphs.families import FamilyOption, check_lattice_degree, check_size, register_family

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
