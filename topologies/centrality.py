"""How central each node is: shares of shortest paths, PageRank, hops to a group.

Functions take sparse arrays, entry (u, v) for a link u -> v (:func:`topologies.measures.adjacency` makes one of a
graph), because graphs of who met whom have up to a million links.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from topologies.measures import F64, Matrix

EXACT_UP_TO = 2000
"""Nodes up to which betweenness counts the paths from every node."""

SAMPLES = 512
"""Nodes whose paths are counted in larger graphs."""

_BLOCK = 128


def betweenness(
    links: Matrix, *, exact_up_to: int = EXACT_UP_TO, samples: int = SAMPLES, seed: int = 0
) -> F64:
    """Return the share of the shortest paths between two other nodes that lead through each node, shape (n,).

    Parameters
    ----------
    links : sparse array, shape (n, n)
        Values do not matter: a path's length is its number of hops. Of an undirected graph both directions.
    exact_up_to : int
        In larger graphs only the paths from `samples` nodes are counted, drawn from `seed`, and scaled up.
    samples : int
    seed : int

    References
    ----------
    U. Brandes, "A faster algorithm for betweenness centrality", Journal of Mathematical Sociology 25 (2001);
    U. Brandes, C. Pich, "Centrality estimation in large networks", Int. J. of Bifurcation and Chaos 17 (2007).

    Notes
    -----
    Normalised by (n - 1)(n - 2), as in networkx. Searches go level by level for many first nodes at once.
    """
    n = links.shape[0]
    if n < 3:
        return np.zeros(n)
    forward = sparse.csr_array((np.ones(links.nnz), links.indices, links.indptr), shape=(n, n))
    backward = sparse.csr_array(forward.T)
    first = np.arange(n)
    if n > exact_up_to:
        first = np.sort(np.random.default_rng(seed).choice(n, samples, replace=False))
    total = np.zeros(n)
    for low in range(0, len(first), _BLOCK):
        total += _dependencies(forward, backward, first[low : low + _BLOCK])
    return np.asarray(total * (n / len(first)) / ((n - 1) * (n - 2)))


def _dependencies(forward: Matrix, backward: Matrix, first: npt.NDArray[np.int64]) -> F64:
    """Return, summed over some first nodes, the paths' shares that lead through each node."""
    n, here = forward.shape[0], np.arange(len(first))
    paths = np.zeros((n, len(first)))
    paths[first, here] = 1.0
    reached = paths > 0
    levels, front = [], paths.copy()
    while front.any():
        levels.append(front > 0)
        front = backward @ front
        front[reached] = 0.0
        reached |= front > 0
        paths += front
    through = np.zeros_like(paths)
    for nearer, farther in zip(levels[-2::-1], levels[:0:-1], strict=True):
        # Each path to a farther node leads through nearer ones, in proportion to the paths that reach these.
        share = np.divide(1.0 + through, paths, out=np.zeros_like(paths), where=farther)
        through += np.where(nearer, paths * (forward @ share), 0.0)
    through[first, here] = 0.0
    return np.asarray(through.sum(axis=1))


def pagerank(links: Matrix, *, damping: float = 0.85, tolerance: float = 1e-10) -> F64:
    """Return the share of its time that a random surfer spends at each node, shape (n,).

    Parameters
    ----------
    links : sparse array, shape (n, n)
        Link weights; a node without links is left for any node.
    damping : float
        Probability of following a link rather than jumping anywhere.
    tolerance : float
        Largest sum of absolute changes at which iterating ends.

    References
    ----------
    L. Page, S. Brin, R. Motwani, T. Winograd, "The PageRank citation ranking", Stanford InfoLab 1999.
    """
    n = links.shape[0]
    out = np.asarray(links.sum(axis=1), np.float64)
    stuck = out == 0
    scale = np.divide(1.0, out, out=np.zeros(n), where=~stuck)
    into = sparse.csr_array(links.T)
    rank, change = np.full(n, 1.0 / n), 1.0
    while change > tolerance:  # by `damping` at each turn at least, so that it ends
        new = damping * (into @ (rank * scale) + rank[stuck].sum() / n) + (1 - damping) / n
        rank, change = new, float(np.abs(new - rank).sum())
    return rank


def hops_to(links: Matrix, group: npt.NDArray[np.integer]) -> F64:
    """Return the number of hops from each node to the nearest of a group, shape (n,); infinite if there is no way."""
    n = links.shape[0]
    hops = np.full(n, np.inf)
    front = np.zeros(n, np.bool_)
    front[group] = True
    distance = 0.0
    while front.any():
        hops[front] = distance
        front = (links @ front.astype(np.float64) > 0) & np.isinf(hops)
        distance += 1.0
    return hops
