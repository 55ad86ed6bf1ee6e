"""Shared parts of graph families: preconditions, and draws of connected graphs and of links between blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F64, I64

if TYPE_CHECKING:
    import networkx as nx


ATTEMPTS = 100
"""Number of attempts to draw a connected graph."""


def check_size(n: int, least: int = 2) -> None:
    """Refuse a graph over too few nodes."""
    if n < least:
        raise ValueError(f"found n = {n}, must be at least {least}")


def check_probability(p: float, name: str = "p") -> None:
    """Refuse a number that is not a probability, including NaN."""
    if not 0 <= p <= 1:
        raise ValueError(f"found {name} = {p}, must be from 0 to 1")


def check_lattice_degree(n: int, k: int) -> None:
    """Refuse a degree that a ring lattice of `n` nodes cannot have."""
    if k < 2 or k % 2:
        raise ValueError(
            f"found k = {k}; expected an even number of at least 2: half of the neighbours are on each side"
        )
    if k >= n:
        raise ValueError(f"found k = {k}, but a node has only {n - 1} possible neighbours")


def draw_connected(draw: Callable[[np.random.Generator], nx.Graph], seed: int, remedy: str) -> nx.Graph:
    """Draw from the family's distribution until the graph is connected.

    Raises
    ------
    ValueError
        If none of :data:`ATTEMPTS` draws is; `remedy` is the next step of the message.
    """
    import networkx as nx

    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        graph = draw(rng)
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"found no connected graph in {ATTEMPTS} attempts; {remedy}")


def draw_block_graph(
    block_of: Sequence[int],
    within: float,
    between: float,
    probabilities: Sequence[Sequence[float]] | None,
    seed: int,
) -> nx.Graph:
    """Return a connected graph of independent links, with probabilities by the blocks of their ends.

    Parameters
    ----------
    block_of : sequence of int, shape (n,)
        Block of each node, 0 .. n_blocks - 1. The graph keeps it as the node attribute ``block``.
    within, between : float
    probabilities : sequence of sequence of float, shape (n_blocks, n_blocks), or None
        Used in place of the two; symmetric.
    seed : int

    Raises
    ------
    ValueError
        If the probabilities are invalid, or no connected graph was found.
    """
    blocks = np.asarray(block_of, np.int64)
    table = _table(int(blocks.max()) + 1, within, between, probabilities)
    remedy = "raise between" if probabilities is None else "raise probabilities"
    return draw_connected(lambda rng: _drawn(blocks, table, rng), seed, remedy)


def _table(
    n_blocks: int, within: float, between: float, probabilities: Sequence[Sequence[float]] | None
) -> F64:
    if probabilities is None:
        check_probability(within, "within")
        check_probability(between, "between")
        return np.where(np.eye(n_blocks, dtype=bool), within, between)
    rows = [list(row) for row in probabilities]
    if len(rows) != n_blocks or any(len(row) != n_blocks for row in rows):
        shape = f"{len(rows)} rows of {sorted({len(row) for row in rows})} numbers"
        raise ValueError(
            f"found probabilities of {shape}; expected {n_blocks} rows of {n_blocks}, one for each block"
        )
    for p in (p for row in rows for p in row):
        check_probability(p, "probabilities")
    table = np.array(rows)
    if (table != table.T).any():
        raise ValueError(
            "found probabilities that are not symmetric; expected symmetric ones, because links are undirected"
        )
    return table


def _drawn(blocks: I64, table: F64, rng: np.random.Generator) -> nx.Graph:
    import networkx as nx

    graph = nx.empty_graph(len(blocks))
    nx.set_node_attributes(graph, dict(enumerate(blocks.tolist())), "block")
    for node in range(len(blocks) - 1):
        linked = rng.random(len(blocks) - node - 1) < table[blocks[node], blocks[node + 1 :]]
        graph.add_edges_from((node, node + 1 + int(step)) for step in np.flatnonzero(linked))
    return graph
