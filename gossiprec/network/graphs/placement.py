"""Placement of colluders by their position in a graph of contacts.

Contacts are a sparse array with entry (u, v) for the number of messages from u to v
(:func:`gossiprec.network.graphs.measures.adjacency` makes one from a graph, with each link once). Every choice is a
function of its arguments; ties go to the lower id. A larger group placed in the same way contains the smaller one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gossiprec.base.arrays import I64
from gossiprec.network.graphs.centrality import betweenness, hops_to
from gossiprec.network.graphs.measures import Matrix
from gossiprec.old_names import forward


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
    order = order_by_eclipse(contacts, victim) if victim is not None else _ORDERS[how](contacts, seed)
    return np.sort(order[:size])


def count_senders_reached(contacts: Matrix, members: npt.NDArray[np.integer]) -> int:
    """Return the number of different nodes that send to at least one of the members."""
    into = sparse.csc_array(contacts)[:, np.asarray(members)]
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
    return _sorted(-np.round(betweenness(sparse.csr_array(contacts), seed=seed), 12))


def order_by_ball(contacts: Matrix, seed: int) -> I64:
    """Return all nodes by undirected hops from a random centre, then by contacts with it."""
    both = sparse.csr_array(contacts + contacts.T)
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
    to, by = sparse.csr_array(contacts), sparse.csc_array(contacts)
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
    both = sparse.csr_array(contacts + contacts.T)
    heard = sparse.csr_array(contacts)[[victim]].toarray()[0]
    sent = sparse.csc_array(contacts)[:, [victim]].toarray()[:, 0]
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
    return np.asarray(np.bincount(sparse.csr_array(contacts).indices, minlength=contacts.shape[0]))


def _sorted(*keys: npt.NDArray[np.number]) -> I64:
    """Return positions ordered by the first key, then the second, ..., then the lower id."""
    return np.asarray(np.lexsort(keys[::-1]))


forward(__name__)
