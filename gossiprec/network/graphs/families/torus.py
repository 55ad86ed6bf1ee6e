"""The torus: a grid without borders."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx

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
            f"found {rows} rows for {n} nodes; expected at least {SIDE} rows and columns, whose "
            "product is the number of nodes"
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
