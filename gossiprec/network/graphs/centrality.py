"""Centrality of nodes, and colluders placed by it: shares of shortest paths, PageRank, hops to a group.

Functions take sparse arrays with entry (u, v) for a link u -> v (:func:`gossiprec.network.graphs.measures.adjacency`
makes one from a graph), because graphs of contacts have up to a million links.

Contacts, by which colluders are placed, are a sparse array with entry (u, v) for the number of messages from u to v
(:func:`gossiprec.network.graphs.measures.adjacency` makes one from a graph, with each link once). Every choice is a
function of its arguments; ties go to the lower id. A larger group placed in the same way contains the smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.machine import usable_cores
from gossiprec.native import jit_cached

if TYPE_CHECKING:
    from gossiprec.network.graphs.measures import Matrix  # imports networkx, which a run may not need


def add_dependencies(
    out_offsets: I32, successors: I32, in_offsets: I32, predecessors: I32, first: I64, total: F64
) -> None:
    """Add to `total`, shape (n,), each node's shares of the shortest paths from some first nodes.

    Parameters
    ----------
    out_offsets, successors : ndarray of int32, shapes (n + 1,) and (n_links,)
        Node v's links lead to ``successors[out_offsets[v]:out_offsets[v + 1]]``.
    in_offsets, predecessors : ndarray of int32
        Sources of the links into each node, in the same form.
    first : ndarray of int64
    total : ndarray of float64, shape (n,)

    Notes
    -----
    Nodes of a level are in the reverse of the order in which they were found, like the rows of scipy's products with
    sparse arrays: earlier versions added in that order.
    """
    n = len(out_offsets) - 1
    depth = np.empty(n, np.int32)
    paths, through = np.empty(n), np.zeros(n)
    order, level_of = np.empty(n, np.int32), np.zeros(n + 2, np.int32)
    for root in first:
        depth[:] = -1
        depth[root], paths[root], through[root], order[0] = 0, 1.0, 0.0, root
        level_of[1] = 1
        level, end = 0, 1
        while level_of[level] < end < n:  # once all are found, links of the last level lead to none
            level += 1
            begin = end
            for place in range(level_of[level - 1], begin):
                node = order[place]
                for link in range(out_offsets[node], out_offsets[node + 1]):
                    reached = successors[link]
                    if depth[reached] < 0:
                        depth[reached], paths[reached], through[reached] = level, paths[node], 0.0
                        order[end] = reached
                        end += 1
                    elif depth[reached] == level:
                        paths[reached] += paths[node]
            low, high = begin, end - 1
            while low < high:
                order[low], order[high] = order[high], order[low]
                low, high = low + 1, high - 1
            level_of[level + 1] = end
        last = level if level_of[level] < end else level - 1
        for back in range(last, 1, -1):  # paths from the root do not count for the root
            for place in range(level_of[back], level_of[back + 1]):
                node = order[place]
                share = (1.0 + through[node]) / paths[node]
                for link in range(in_offsets[node], in_offsets[node + 1]):
                    before = predecessors[link]
                    through[before] += share if depth[before] == back - 1 else 0.0  # no branch to guess
            for place in range(level_of[back - 1], level_of[back]):
                through[order[place]] *= paths[order[place]]
        for place in range(1, end):
            total[order[place]] += through[order[place]]


EXACT_UP_TO = 2000
"""Number of nodes up to which betweenness counts the paths from every node."""

SAMPLES = 512
"""Number of nodes from which paths are counted in larger graphs."""

_BLOCK = 512

PLAIN_VISITS = 100_000
"""Links followed in a block of searches up to which compiling is not worthwhile."""


def betweenness(
    links: Matrix, *, exact_up_to: int = EXACT_UP_TO, samples: int = SAMPLES, seed: int = 0
) -> F64:
    """Return each node's share of the shortest paths between two other nodes, shape (n,).

    Parameters
    ----------
    links : sparse array, shape (n, n)
        Values do not matter: the length of a path is its number of hops. An undirected graph has both directions.
    exact_up_to : int
        In larger graphs only the paths from `samples` nodes, drawn with `seed`, are counted, and scaled up.
    samples : int
    seed : int

    References
    ----------
    U. Brandes, "A faster algorithm for betweenness centrality", Journal of Mathematical Sociology 25 (2001);
    U. Brandes, C. Pich, "Centrality estimation in large networks", Int. J. of Bifurcation and Chaos 17 (2007).

    Notes
    -----
    Normalised by (n - 1)(n - 2), as in networkx. Searches cost as much as the links that they follow: n * links in
    total, however long the paths.
    """
    n = links.shape[0]
    if n < 3:
        return np.zeros(n)
    forward = links.astype(np.float64)  # a copy
    forward.data[:] = 1.0
    of_star = _of_star(forward)
    if of_star is not None:
        return of_star
    first = np.arange(n)
    if n > exact_up_to:
        first = np.sort(np.random.default_rng(seed).choice(n, samples, replace=False))
    total = np.zeros(n)
    for low in range(0, len(first), _BLOCK):
        total += _dependencies(forward, first[low : low + _BLOCK])
    return np.asarray(total * (n / len(first)) / ((n - 1) * (n - 2)))


def _of_star(forward: Matrix) -> F64 | None:
    """Return the betweenness in a star, in which the hub is an end of every link; None for any other graph."""
    n = forward.shape[0]
    into, out = np.bincount(forward.indices, minlength=n), np.diff(forward.indptr)
    hub = int(np.argmax(into + out))
    sources, targets = forward[:, [hub]].toarray()[:, 0] > 0, forward[[hub]].toarray()[0] > 0
    if into[hub] + out[hub] - sources[hub] != forward.nnz:
        return None
    sources[hub] = targets[hub] = False
    found = np.zeros(n)
    found[hub] = (sources.sum() * targets.sum() - (sources & targets).sum()) / ((n - 1) * (n - 2))
    return found


def _dependencies(forward: Matrix, first: I64) -> F64:
    """Return each node's shares of the shortest paths, summed over some first nodes.

    Searches that follow many links are compiled, and as many as there are cores run in parallel; their results are
    added in the order of `first`.
    """
    backward, total = forward.T.tocsr(), np.zeros(forward.shape[0])
    graph = (forward.indptr, forward.indices, backward.indptr, backward.indices)
    if len(first) * forward.nnz <= PLAIN_VISITS:
        add_dependencies(*graph, first, total)
        return total
    search = jit_cached(add_dependencies)

    def from_one(root: int) -> F64:
        found = np.zeros_like(total)
        search(*graph, np.array([root]), found)
        return found

    with ThreadPoolExecutor(usable_cores()) as threads:
        for some in np.array_split(first, -(-len(first) // usable_cores())):
            for found in threads.map(from_one, some.tolist()):
                total += found
    return total


def pagerank(links: Matrix, *, damping: float = 0.85, tolerance: float = 1e-10) -> F64:
    """Return the share of time that a random surfer spends at each node, shape (n,).

    Parameters
    ----------
    links : sparse array, shape (n, n)
        Link weights; from a node without links the surfer moves to any node.
    damping : float
        Probability of following a link instead of jumping to a random node.
    tolerance : float
        Sum of absolute changes at which the iteration ends.

    References
    ----------
    L. Page, S. Brin, R. Motwani, T. Winograd, "The PageRank citation ranking", Stanford InfoLab 1999.
    """
    n = links.shape[0]
    out = np.asarray(links.sum(axis=1), np.float64)
    stuck = out == 0
    scale = np.divide(1.0, out, out=np.zeros(n), where=~stuck)
    into = links.T.tocsr()
    rank, change = np.full(n, 1.0 / n), 1.0
    while change > tolerance:  # it shrinks at least by `damping` per iteration, so that the loop ends
        new = damping * (into @ (rank * scale) + rank[stuck].sum() / n) + (1 - damping) / n
        rank, change = new, float(np.abs(new - rank).sum())
    return rank


def hops_to(links: Matrix, group: npt.NDArray[np.integer]) -> F64:
    """Return the number of hops from each node to the nearest of a group, shape (n,); infinite if unreachable."""
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


def place_colluders(
    contacts: Matrix, size: int, how: str, *, seed: int = 0, victim: int | None = None
) -> I64:
    """Return the nodes that collude, chosen by a placement.

    Parameters
    ----------
    contacts : sparse array, shape (n, n)
    size : int
        Number of colluders, from 1 to n, or to n - 1 around a victim.
    how : str
        ``random``; ``degree``: nodes that receive from most different nodes, then most often; ``betweenness``: nodes
        on most shortest paths; ``clustered``: a ball around a random node; ``greedy-cover``: at each step the node
        that adds most different senders; ``eclipse``: nodes that receive most from the victim, then those that send
        most to it, then those next to it.
    seed : int
        Seed of ``random`` and ``clustered``, and of the paths that ``betweenness`` samples in large graphs.
    victim : int, optional
        The victim of ``eclipse``; never a colluder.

    Returns
    -------
    ndarray of int64, shape (size,)
        Node ids in ascending order.

    Raises
    ------
    ValueError
        If there is no such placement, the size is impossible, or a victim is missing, unknown or not applicable.
    """
    n = contacts.shape[0]
    if how not in PLACEMENTS:
        raise ValueError(f"found placement {how!r}, must be one of {', '.join(PLACEMENTS)}")
    if (victim is not None) != (how == "eclipse"):
        raise ValueError(
            f"found victim {victim} with placement {how}; only eclipse uses a victim, and it requires one"
        )
    if victim is not None and not 0 <= victim < n:
        raise ValueError(f"found victim {victim}, must be from 0 to {n - 1}")
    if not 1 <= size <= n - (victim is not None):
        raise ValueError(f"found {size} colluders, must be from 1 to {n - (victim is not None)}")
    order = order_by_eclipse(contacts, victim) if victim is not None else order_nodes(contacts, how, seed)
    return np.sort(order[:size])


def order_nodes(contacts: Matrix, how: str, seed: int) -> I64:
    """Return all nodes in the order of a placement other than ``eclipse``; see :func:`place_colluders`."""
    return _ORDERS[how](contacts, seed)


def count_senders_reached(contacts: Matrix, members: npt.NDArray[np.integer]) -> int:
    """Return the number of different nodes that send to at least one of the members."""
    into = contacts.tocsc()[:, np.asarray(members)]
    return int(np.count_nonzero(into.sum(axis=1)))


def order_by_chance(contacts: Matrix, seed: int) -> I64:
    """Return all nodes in random order."""
    return np.random.default_rng(seed).permutation(contacts.shape[0])


def order_by_degree(contacts: Matrix, seed: int = 0) -> I64:
    """Return all nodes, ordered by the number of different senders, then of messages received, descending."""
    return _sorted(-_senders(contacts), -contacts.sum(axis=0))


def order_by_betweenness(contacts: Matrix, seed: int) -> I64:
    """Return all nodes, ordered by descending betweenness."""
    # Rounded: sums in another order must not separate equivalent nodes.
    return _sorted(-np.round(betweenness(contacts.tocsr(), seed=seed), 12))


def order_by_ball(contacts: Matrix, seed: int) -> I64:
    """Return all nodes by undirected hops from a random centre, then by contacts with it."""
    both = (contacts + contacts.T).tocsr()
    centre = int(np.random.default_rng(seed).integers(both.shape[0]))
    return _sorted(hops_to(both, np.array([centre])), -both[[centre]].toarray()[0])


def order_by_greedy_cover(contacts: Matrix, seed: int = 0) -> I64:
    """Return all nodes, each the one that hears from most nodes not covered by those before it.

    If no node adds any sender, the cover begins again with the remaining nodes: every sender is then reached twice,
    and so on.

    References
    ----------
    G. Nemhauser, L. Wolsey, M. Fisher, "An analysis of approximations for maximizing submodular set functions",
    Mathematical Programming 14 (1978): the first cover reaches at least 1 - 1/e of the best cover of the same size.
    """
    n = contacts.shape[0]
    to, by = contacts.tocsr(), contacts.tocsc()
    all_gains = _senders(contacts)
    gains, covered, left = all_gains.copy(), np.zeros(n, np.bool_), np.ones(n, np.bool_)
    order = np.empty(n, np.int64)
    for place_ in range(n):
        if not gains[left].any():
            gains, covered = all_gains.copy(), np.zeros(n, np.bool_)
        best = int(np.argmax(np.where(left, gains, -1)))
        order[place_], left[best] = best, False
        senders = by.indices[by.indptr[best] : by.indptr[best + 1]]
        new = senders[~covered[senders]]
        covered[new] = True
        gains -= np.bincount(to[new].indices, minlength=n)  # nodes that hear from these add less
    return order


def order_by_eclipse(contacts: Matrix, victim: int) -> I64:
    """Return all nodes but the victim, by messages received from it, then by messages sent to it."""
    both = (contacts + contacts.T).tocsr()
    heard = contacts.tocsr()[[victim]].toarray()[0]
    sent = contacts.tocsc()[:, [victim]].toarray()[:, 0]
    order = _sorted(-heard, -sent, hops_to(both, np.array([victim])))
    return np.asarray(order[order != victim])


_ORDERS: dict[str, Callable[[Matrix, int], I64]] = {
    "random": order_by_chance,
    "degree": order_by_degree,
    "betweenness": order_by_betweenness,
    "clustered": order_by_ball,
    "greedy-cover": order_by_greedy_cover,
}
PLACEMENTS = (*_ORDERS, "eclipse")
"""The ways of placing colluders."""


def _senders(contacts: Matrix) -> I64:
    """Return the number of different nodes that each node receives from, shape (n,)."""
    return np.asarray(np.bincount(contacts.tocsr().indices, minlength=contacts.shape[0]))


def _sorted(*keys: npt.NDArray[np.number]) -> I64:
    """Return positions ordered by the first key, then the second, ..., then the lower id."""
    return np.asarray(np.lexsort(keys[::-1]))
