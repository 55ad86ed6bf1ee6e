"""Similarity of nodes: by the items or the homes of their users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64
from gossiprec.base.geodesy import first_off_globe, great_circle_km

if TYPE_CHECKING:
    import networkx as nx

BlockSimilarity = Callable[[slice], F64]
EVERYONE = slice(None)
BLOCK_CELLS = 2_000_000
"""Number of pairs of nodes compared at once."""


def taste_similarity(
    items: Sequence[npt.NDArray[np.integer[Any]] | Sequence[int]], rows: slice = EVERYONE
) -> F64:
    """Return the Jaccard similarity of nodes' item sets, shape (n_rows, n).

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each of n nodes, none negative. Two empty sets have similarity 0.
    rows : slice
        Nodes that are compared with all nodes.
    """
    from scipy import sparse

    sets = [np.unique(np.asarray(own, np.int64)) for own in items]
    sizes = np.array([len(own) for own in sets])
    everything = np.concatenate([*sets, np.zeros(0, np.int64)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(sets), int(everything.max(initial=-1)) + 1)
    owns = sparse.csr_matrix((np.ones(len(everything)), everything, offsets), shape=shape)
    common: F64 = (owns[rows] @ owns.T).toarray()
    union = sizes[rows, None] + sizes[None, :] - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0))


def spatial_proximity(places: npt.ArrayLike, rows: slice = EVERYONE) -> F64:
    """Return the proximity of nodes: minus their great-circle distance in km, shape (n_rows, n).

    Parameters
    ----------
    places : array-like, shape (n, 2)
        Latitude and longitude in degrees.
    rows : slice
        Nodes that are compared with all nodes.

    Raises
    ------
    ValueError
        If a place is not on the globe.
    """
    degrees = np.asarray(places, np.float64)
    if degrees.ndim != 2 or degrees.shape[1] != 2:
        raise ValueError(f"found places of shape {degrees.shape}, must be (n, 2): latitude and longitude")
    node = first_off_globe(degrees)
    if node is not None:
        raise ValueError(
            f"found latitude {degrees[node, 0]}, longitude {degrees[node, 1]} for node {node}, must be from -90 "
            "to 90 and -180 to 180 degrees"
        )
    return -great_circle_km(degrees, degrees[rows], every_pair=True)


def iter_similarity_blocks(similarity: BlockSimilarity, n: int) -> Iterator[tuple[int, F64]]:
    """Yield the first of a block of nodes, and the similarities of the block to all nodes; -inf to themselves.

    All at once would take n * n numbers, several times over.
    """
    height = max(1, BLOCK_CELLS // n)
    for first in range(0, n, height):
        block = similarity(slice(first, min(first + height, n)))
        rows = np.arange(len(block))
        block[rows, first + rows] = -np.inf
        yield first, block


def nearest_neighbors(similarity: BlockSimilarity, n: int, k: int) -> nx.Graph:
    """Return the graph in which two nodes are linked if either is among the other's `k` most similar.

    Parameters
    ----------
    similarity : callable
        Function from a slice of nodes to their similarities to all nodes, shape (n_rows, n); ties go to the lower id.
        Links keep the similarity as the attribute ``similarity``.
    n : int
    k : int
        1 <= k < n.

    Raises
    ------
    ValueError
        If `k` is out of range.
    """
    import networkx as nx

    if not 1 <= k < n:
        raise ValueError(f"found k = {k}; expected 1 to {n - 1}, the number of other nodes")
    graph = nx.empty_graph(n)
    for first, block in iter_similarity_blocks(similarity, n):
        nearest = np.argsort(-block, axis=1, kind="stable")[:, :k]
        worth = np.take_along_axis(block, nearest, axis=1)
        for node, (peers, similarities) in enumerate(
            zip(nearest.tolist(), worth.tolist(), strict=True), first
        ):
            graph.add_edges_from(
                (node, peer, {"similarity": like}) for peer, like in zip(peers, similarities, strict=True)
            )
    return graph


def check_self_links(graph: nx.Graph) -> None:
    """Refuse a graph in which a node is linked to itself.

    Raises
    ------
    ValueError
    """
    for node in graph:
        if graph.has_edge(node, node):
            raise ValueError(
                f"found node {node} linked to itself; remove the link, because a node does not send to itself"
            )


def check_connected(graph: nx.Graph, remedy: str) -> nx.Graph:
    """Return the graph if it is connected.

    Raises
    ------
    ValueError
        If it has several components; `remedy` is the next step of the message.
    """
    import networkx as nx

    parts = sorted((len(part) for part in nx.connected_components(graph)), reverse=True)
    if len(parts) > 1:
        raise ValueError(
            f"found a graph in {len(parts)} parts, the largest of {parts[0]} nodes, "
            f"the smallest of {parts[-1]}; {remedy}"
        )
    return graph
