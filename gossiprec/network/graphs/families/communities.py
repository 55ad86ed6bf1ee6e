"""Graphs of communities and of neighbours: dense within blocks of nodes, or linked to the nearest by taste or place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64
from gossiprec.network.graphs.families import (
    FamilyOption,
    check_probability,
    check_size,
    draw_connected,
    register_family,
)
from gossiprec.network.graphs.similarity import (
    check_connected,
    nearest_neighbors,
    spatial_proximity,
    taste_similarity,
)

if TYPE_CHECKING:
    import networkx as nx


@register_family(
    "stochastic-block",
    blocks=FamilyOption(int, "number of equal blocks, in order of node id", 4, least=1),
    sizes=FamilyOption(
        tuple[int, ...] | None, "sizes of the blocks, in order of node id, instead of their number", None
    ),
    within=FamilyOption(float, "probability of a link inside a block", 0.3, least=0, most=1),
    between=FamilyOption(float, "probability of a link between blocks", 0.02, least=0, most=1),
    probabilities=FamilyOption(
        tuple[tuple[float, ...], ...] | None,
        "probability for each pair of blocks, instead of within and between",
        None,
    ),
)
def stochastic_block(
    n: int,
    seed: int,
    blocks: int = 4,
    sizes: Sequence[int] | None = None,
    within: float = 0.3,
    between: float = 0.02,
    probabilities: Sequence[Sequence[float]] | None = None,
) -> nx.Graph:
    """Return a connected graph of communities: links are likelier inside a block of nodes than between two.

    Parameters
    ----------
    n : int
        Number of nodes.
    seed : int
    blocks : int
        1 <= blocks <= n: blocks of consecutive nodes, with sizes that differ by no more than one.
    sizes : sequence of int, optional
        Sizes of the blocks, which add up to n; `blocks` is then ignored.
    within, between : float
        0 <= p <= 1.
    probabilities : sequence of sequence of float, optional
        Symmetric, one row and column for each block; `within` and `between` are then ignored.

    Raises
    ------
    ValueError
        If sizes or probabilities are invalid, or no connected graph was found.

    References
    ----------
    P. W. Holland, K. B. Laskey, S. Leinhardt, "Stochastic blockmodels: first steps", Social Networks 5 (1983).
    """
    check_size(n)
    if sizes is None:
        if not 1 <= blocks <= n:
            raise ValueError(f"found {blocks} blocks, must be from 1 to {n}, the number of nodes")
        sizes = [n // blocks + (block < n % blocks) for block in range(blocks)]
    if min(sizes, default=0) < 1 or sum(sizes) != n:
        raise ValueError(
            f"found sizes {list(sizes)}, which add up to {sum(sizes)}; expected positive sizes that "
            f"add up to {n}"
        )
    block_of = [block for block, size in enumerate(sizes) for _ in range(size)]
    return draw_block_graph(block_of, within, between, probabilities, seed)


@register_family(
    "blocks-by-taste",
    nearest=FamilyOption(
        int, "number of most similar nodes that a node is linked to for community detection", 10, least=1
    ),
    within=FamilyOption(float, "probability of a link inside a community", 0.3, least=0, most=1),
    between=FamilyOption(float, "probability of a link between communities", 0.02, least=0, most=1),
)
def blocks_by_taste(
    items: Sequence[Sequence[int]],
    seed: int,
    nearest: int = 10,
    within: float = 0.3,
    between: float = 0.02,
) -> nx.Graph:
    """Return a connected stochastic block graph, the blocks of which are communities of users of similar taste.

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each node's user.
    seed : int
        Seed of the communities and of the links.
    nearest : int
        Communities are found, by modularity, in the graph that links every node to this number of others with the
        largest Jaccard similarity, with the similarities as weights. Their number depends on the data.
    within, between : float
        0 <= p <= 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or no connected graph was found.

    References
    ----------
    V. D. Blondel et al., "Fast unfolding of communities in large networks", Journal of Statistical Mechanics (2008).
    """
    return draw_block_graph(taste_communities(items, nearest, seed), within, between, None, seed)


def taste_communities(items: Sequence[Sequence[int]], nearest: int, seed: int) -> list[int]:
    """Return the community of each node; communities are numbered in the order of their lowest nodes."""
    import networkx as nx

    ties = nearest_neighbors(partial(taste_similarity, items), len(items), nearest)
    communities = nx.community.louvain_communities(ties, weight="similarity", seed=seed % 2**32)
    block_of = [0] * len(items)
    for block, members in enumerate(sorted(communities, key=min)):
        for node in sorted(members):
            block_of[node] = block
    return block_of


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


@register_family(
    "nearest-by-taste",
    k=FamilyOption(int, "number of most similar nodes that a node is linked to", 5, least=1),
)
def nearest_by_taste(items: Sequence[Sequence[int]], k: int) -> nx.Graph:
    """Return the graph that links every node to the `k` nodes with the most similar items.

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each node's user. The similarity is the Jaccard similarity; ties go to the lower id.
    k : int
        1 <= k < n. A link leads both ways, so a node of common taste has more than `k` neighbours.

    Raises
    ------
    ValueError
        If `k` is out of range, or the graph is not connected.
    """
    return check_connected(nearest_neighbors(partial(taste_similarity, items), len(items), k), "raise k")


@register_family(
    "nearest-by-place", k=FamilyOption(int, "number of nearest nodes that a node is linked to", 5, least=1)
)
def nearest_by_place(places: npt.ArrayLike, k: int) -> nx.Graph:
    """Return the graph that links every node to the `k` nearest nodes on the globe.

    Parameters
    ----------
    places : array-like, shape (n, 2)
        Latitude and longitude of each node in degrees. Ties go to the lower id.
    k : int
        1 <= k < n. A link leads both ways, so that a node may have more than `k` neighbours.

    Raises
    ------
    ValueError
        If `k` is out of range, a place is not on the globe, or the graph is not connected.
    """
    return check_connected(
        nearest_neighbors(partial(spatial_proximity, places), len(np.asarray(places)), k), "raise k"
    )
