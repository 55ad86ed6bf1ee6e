"""Vertex covers: small groups of colluders that see every link.

A link is seen if one of its ends colludes. Directed graphs are treated as undirected: a colluder sees the messages
that it sends and receives.
"""

from __future__ import annotations

import heapq

import networkx as nx
import numpy as np

from gossiprec.network.graphs.measures import adjacency
from gossiprec.old_names import forward

Neighbors = list[set[int]]


def colluder_bound(n: int, degree: float) -> float:
    """Return ``n P / (P + 1)``, a number of well-placed colluders that always suffices to see every link.

    Parameters
    ----------
    n : int
        Number of nodes.
    degree : float
        P: the mean degree of an undirected graph. If every node sends to F fixed others, the links taken as
        undirected have a mean degree of up to 2F: pass that.

    Notes
    -----
    The nodes outside a cover are pairwise unlinked, and a graph of mean degree P has at least ``n / (P + 1)``
    pairwise unlinked nodes. The bound holds for every simple graph, regular or not, and is attained by complete
    groups of P + 1 nodes. Most graphs need fewer colluders: :func:`find_colluder_cover` finds them.

    References
    ----------
    P. Turán, "On an extremal problem in graph theory", 1941; Y. Caro (1979) and V. K. Wei (1981): the sum over nodes of
    ``1 / (degree + 1)``, from which Jensen's inequality gives the bound.
    """
    if n < 1 or degree < 0:
        raise ValueError(
            f"found {n} nodes of mean degree {degree}; expected at least 1 node and a degree of at least 0"
        )
    return n * degree / (degree + 1)


def find_colluder_cover(graph: nx.Graph, *, exact: bool = False) -> list[int]:
    """Return few colluders that see every link, in ascending order.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
        Over nodes 0 .. n - 1.
    exact : bool
        Whether to find the minimum by integer programming, for some hundred nodes. Otherwise the node that sees most
        unseen links is added repeatedly, and the result is improved by exchanges of two nodes for one until none is
        left; ties go to the lower id.

    Raises
    ------
    ValueError
        If the solver fails.

    References
    ----------
    D. Andrade, M. Resende, R. Werneck, "Fast local search for the maximum independent set problem", Journal of
    Heuristics 18 (2012): exchanges of one node outside the cover for two.
    """
    links = adjacency(graph)
    both = (links + links.T).tocsr()
    around: Neighbors = [set(row.tolist()) for row in np.split(both.indices, both.indptr[1:-1])]
    if exact:
        return _fewest(around)
    outside = set(range(len(around))) - _greedy(around)
    _exchange(around, outside)
    return [node for node in range(len(around)) if node not in outside]


def _greedy(around: Neighbors) -> set[int]:
    """Return a cover by repeatedly taking the node with most links that no taken node sees."""
    unseen = [len(neighbors) for neighbors in around]
    heap = [(-degree, node) for node, degree in enumerate(unseen)]
    heapq.heapify(heap)
    taken: set[int] = set()
    while heap:
        degree, node = heapq.heappop(heap)
        if -degree != unseen[node]:  # some have been seen since: try again later
            heapq.heappush(heap, (-unseen[node], node))
            continue
        if degree == 0:
            break
        taken.add(node)
        unseen[node] = 0
        for other in around[node] - taken:
            unseen[other] -= 1
    return taken


def _exchange(around: Neighbors, outside: set[int]) -> None:
    """Remove redundant nodes from the cover, and exchange two nodes for one, until neither is possible."""
    improved = True
    while improved:
        improved = False
        for node in range(len(around)):
            if node in outside:
                improved |= _two_for_one(around, outside, node)
            elif not around[node] & outside:
                outside.add(node)
                improved = True


def _two_for_one(around: Neighbors, outside: set[int], node: int) -> bool:
    """Take `node` into the cover if two unlinked neighbours can then leave it."""
    free = [other for other in sorted(around[node]) if around[other] & outside == {node}]
    for place, first in enumerate(free):
        second = next((other for other in free[place + 1 :] if other not in around[first]), None)
        if second is not None:
            outside.remove(node)
            outside.update((first, second))
            return True
    return False


def _fewest(around: Neighbors) -> list[int]:
    """Return a minimum vertex cover, found by integer programming."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    ends = [(u, v) for u, neighbors in enumerate(around) for v in sorted(neighbors) if u < v]
    if not ends:
        return []
    rows = np.repeat(np.arange(len(ends)), 2)
    seen = sparse.csr_array((np.ones(2 * len(ends)), (rows, np.ravel(ends))), shape=(len(ends), len(around)))
    found = milp(
        np.ones(len(around)),
        constraints=LinearConstraint(seen, lb=1),
        integrality=np.ones(len(around)),
        bounds=Bounds(0, 1),
    )
    if not found.success:
        raise ValueError(f"no minimum cover found for {len(around)} nodes: {found.message}; use exact=False")
    return [int(node) for node in np.flatnonzero(found.x > 0.5)]


forward(__name__)
