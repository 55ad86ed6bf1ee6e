"""Measures of a graph: degrees, distances, mixing, times to contact, colluders that see every link, and a summary.

Graphs are networkx graphs over nodes 0 .. n - 1, undirected or directed; weights are ignored. A link u -> v of a
directed graph means that u sends to v. A link is seen if one of its ends colludes: for vertex covers, directed graphs
are treated as undirected, because a colluder sees the messages that it sends and receives.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from gossiprec.base.arrays import F64
from gossiprec.network.graphs.similarity import check_self_links

Matrix: TypeAlias = Any
"""A scipy sparse array."""

DENSE_UP_TO = 2000
"""Number of nodes up to which eigenvalues are found by dense algebra."""

_BLOCK = 256


def adjacency(graph: nx.Graph) -> Matrix:
    """Return a graph's links as a sparse array of ones, entry (u, v) for u -> v, shape (n, n).

    Raises
    ------
    ValueError
        If the nodes are not 0 .. n - 1, there are fewer than two, or a node is linked to itself.
    """
    n = len(graph)
    if n < 2 or set(graph) != set(range(n)):
        raise ValueError(f"found {n} nodes; expected at least 2, numbered from 0 to n - 1; relabel them")
    check_self_links(graph)
    links = sparse.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(n), weight=None, format="csr"))
    links.data = np.ones(links.nnz)  # parallel links count once
    return links


def degree_summary(graph: nx.Graph) -> dict[str, float]:
    """Return minimum, mean, maximum and standard deviation of the degrees.

    Returns
    -------
    dict of str to float
        ``min, mean, max, deviation`` of the out-degrees and ``in_min, in_max, in_deviation`` of the in-degrees, which
        have the same mean. In an undirected graph both are the degree.
    """
    links = adjacency(graph)
    out, into = links.sum(axis=1), links.sum(axis=0)
    return {
        "min": float(out.min()),
        "mean": float(out.mean()),
        "max": float(out.max()),
        "deviation": float(out.std()),
        "in_min": float(into.min()),
        "in_max": float(into.max()),
        "in_deviation": float(into.std()),
    }


def diameter(graph: nx.Graph) -> int | None:
    """Return the largest number of hops between two nodes; None if a node cannot reach another."""
    largest = max(float(hops.max()) for hops in _hops(adjacency(graph)))
    return int(largest) if math.isfinite(largest) else None


def average_distance(graph: nx.Graph) -> float | None:
    """Return the mean number of hops over all ordered pairs of nodes; None if a node cannot reach another."""
    links = adjacency(graph)
    n = links.shape[0]
    total = sum(float(hops.sum()) for hops in _hops(links))
    return total / (n * (n - 1)) if math.isfinite(total) else None


def _hops(links: Matrix) -> Iterator[F64]:
    """Yield distances in hops from blocks of nodes to all nodes; all at once would take n * n numbers."""
    from scipy.sparse.csgraph import shortest_path

    n = links.shape[0]
    for low in range(0, n, _BLOCK):
        yield shortest_path(links, method="D", unweighted=True, indices=np.arange(low, min(low + _BLOCK, n)))


def clustering(graph: nx.Graph) -> float:
    """Return the mean share of linked pairs among a node's neighbours; 0 for fewer than two.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998); directed:
    G. Fagiolo, "Clustering in complex directed networks", Physical Review E 76 (2007), eq. 8.
    """
    links = adjacency(graph)
    both = links + links.T
    triangles = (both @ both * both).sum(axis=1)
    total = links.sum(axis=0) + links.sum(axis=1)
    possible = 2 * (total * (total - 1) - 2 * (links * links.T).sum(axis=1))
    return float(np.divide(triangles, possible, out=np.zeros(len(total)), where=possible > 0).mean())


def spectral_gap(graph: nx.Graph, *, lazy: bool = False) -> float:
    """Return 1 - |lambda_2| of the random walk that follows each of a node's links with equal probability.

    lambda_2 is the eigenvalue with the second largest modulus. The larger the gap, the sooner information from one
    node has reached all nodes equally. It is 0 for a graph that is not connected, and for a bipartite graph, in which
    the walk never forgets its side; the lazy walk does.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
    lazy : bool
        Whether the walk stays at its node with probability 1/2: eigenvalues become (1 + lambda) / 2.

    Raises
    ------
    ValueError
        If a node has no outgoing link.

    References
    ----------
    D. Levin, Y. Peres, "Markov Chains and Mixing Times", 2nd edition (2017), chapter 12.

    Notes
    -----
    Dense algebra for up to 2,000 nodes; for more, the Lanczos or the Arnoldi method from a fixed first vector.
    """
    links = adjacency(graph)
    degree = links.sum(axis=1)
    if not degree.all():
        raise ValueError(
            f"found node {int(np.argmin(degree))} without an outgoing link, at which a walk would end; "
            "add a link"
        )
    if graph.is_directed():
        walk = sparse.diags_array(1.0 / degree) @ links
        return _gap(_largest_directed(_lazy(walk) if lazy else walk))
    # Similar to the walk's matrix and symmetric: the same eigenvalues, all real.
    halves = sparse.diags_array(1.0 / np.sqrt(degree))
    walk = sparse.csr_array(halves @ links @ halves)
    return _gap(_largest_symmetric(_lazy(walk) if lazy else walk))


def _lazy(walk: Matrix) -> Matrix:
    return sparse.csr_array((walk + sparse.eye_array(walk.shape[0])) / 2)


def _gap(eigenvalues: npt.NDArray[Any]) -> float:
    """Return the gap, never below zero."""
    return max(0.0, 1.0 - float(np.sort(np.abs(eigenvalues))[-2]))


def _largest_directed(walk: Matrix) -> npt.NDArray[Any]:
    n = walk.shape[0]
    if n <= DENSE_UP_TO:
        return np.asarray(np.linalg.eigvals(walk.toarray()))
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    try:
        return np.asarray(eigs(walk, k=2, which="LM", ncv=64, v0=_first_vector(n), return_eigenvectors=False))
    except ArpackNoConvergence as error:
        raise ValueError(
            f"found no second eigenvalue of a directed graph of {n} nodes: it is too close to other "
            f"eigenvalues; measure a graph of up to {DENSE_UP_TO} nodes"
        ) from error


def _largest_symmetric(walk: Matrix) -> F64:
    n = walk.shape[0]
    if n <= DENSE_UP_TO:
        return np.asarray(np.linalg.eigvalsh(walk.toarray()))
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    first = _first_vector(n)
    try:
        return np.asarray(
            eigsh(walk, k=2, which="LM", ncv=64, maxiter=300, v0=first, return_eigenvectors=False)
        )
    except ArpackNoConvergence:  # a long thin graph: many eigenvalues near 1, which inverting separates
        near = {"which": "LM", "v0": first, "return_eigenvectors": False}
        top = eigsh(walk.tocsc(), k=2, sigma=1.0 + 1e-7, **near)
        bottom = eigsh(walk.tocsc(), k=1, sigma=-1.0 - 1e-7, **near)
        return np.concatenate([top, bottom])


def _first_vector(n: int) -> F64:
    """Return the first vector of iterations; it is fixed, because it affects the last digits."""
    return np.random.default_rng(n).standard_normal(n)


def reachable_fraction(graph: nx.Graph) -> float:
    """Return the share of the others that a node can ever hear from in a fixed graph, averaged over nodes."""
    links = adjacency(graph)
    n = links.shape[0]
    return float(links.nnz / (n * (n - 1)))


def wakes_to_meet(fraction: float, graph: nx.Graph, fanout: int) -> float | None:
    """Return the time until the nodes of a fixed graph have heard from this share of the others, on average.

    A node that wakes sends to `fanout` random out-neighbours, or to all if it has no more; it is heard from by a
    given neighbour at rate ``min(1, fanout / d)``, d being its out-degree.

    Parameters
    ----------
    fraction : float
    graph : networkx.Graph or networkx.DiGraph
    fanout : int

    Returns
    -------
    float or None
        Mean wake periods until the mean over nodes of the expected share is `fraction`; None if the graph has fewer
        links (see :func:`reachable_fraction`), or exactly as many: then the mean time is infinite.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"found fraction {fraction}, must be from 0 to 1")
    if fanout < 1:
        raise ValueError(f"found fanout {fanout}, must be at least 1")
    links = adjacency(graph)
    n, degree = links.shape[0], links.sum(axis=1)
    rates, weights = np.unique(np.minimum(1.0, fanout / np.maximum(degree, 1)), return_inverse=True)
    links_at = np.bincount(weights, weights=degree) / (n * (n - 1))

    def missing(time: float) -> float:
        return fraction + float((links_at * np.expm1(-rates * time)).sum())

    if fraction >= reachable_fraction(graph) - 1e-12:
        return None
    latest = 1.0
    while missing(latest) > 0:
        latest *= 2
    return float(optimize.brentq(missing, 0.0, latest))


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


Fact = float | int | bool | str | list[int] | None


def summarise_graph(graph: nx.Graph, *, fraction: float, fanout: int) -> dict[str, Fact]:
    """Return sizes, degrees, distances, mixing, times to contact, and colluders that see every link.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
        Over nodes 0 .. n - 1.
    fraction : float
        Share of the other nodes for `wakes_to_meet`, from 0 to 1.
    fanout : int
        Number of peers that a node sends to per wake.

    Returns
    -------
    dict
        A value that does not exist is None: the diameter of a disconnected graph, the gap if a walk can end, the time
        until more nodes are met than have a link. ``cover_bound`` is n P / (P + 1), P the mean degree of the
        undirected graph; ``colluders`` see every link, and are ``n_colluders`` (few, not always the fewest).
    """
    degrees = degree_summary(graph)
    undirected = graph.to_undirected()
    cover = find_colluder_cover(graph)
    some_end = degrees["min"] == 0
    found: dict[str, Fact] = {
        "nodes": len(graph),
        "links": graph.number_of_edges(),
        "directed": graph.is_directed(),
        "parts": nx.number_connected_components(undirected),
        "degree_min": int(degrees["min"]),
        "degree_mean": degrees["mean"],
        "degree_max": int(degrees["max"]),
        "diameter": diameter(graph),
        "average_distance": average_distance(graph),
        "clustering": clustering(graph),
        "spectral_gap": None if some_end else spectral_gap(graph),
        "lazy_spectral_gap": None if some_end else spectral_gap(graph, lazy=True),
        "can_meet": reachable_fraction(graph),
        "fraction": fraction,
        "fanout": fanout,
        "wakes_to_meet": wakes_to_meet(fraction, graph, fanout),
        "cover_bound": colluder_bound(len(graph), 2 * undirected.number_of_edges() / len(graph)),
        "n_colluders": len(cover),
        "colluders": cover,
    }
    if graph.is_directed():
        found |= {f"in_degree_{end}": int(degrees[f"in_{end}"]) for end in ("min", "max")}
        found["in_degree_deviation"] = degrees["in_deviation"]
    return found
