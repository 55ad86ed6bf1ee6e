"""Graphs drawn at random from a seed, always connected."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np

ATTEMPTS = 100
"""Draws of a graph that must be connected before it is given up."""


def random_regular(n: int, degree: int, seed: int) -> nx.Graph:
    """Return a connected graph drawn from those in which every node has the same degree.

    Parameters
    ----------
    n : int
        Number of nodes.
    degree : int
        1 <= degree < n, and n * degree even.
    seed : int

    Raises
    ------
    ValueError
        If there is no such graph, or no connected one.

    References
    ----------
    A. Steger, N. Wormald, "Generating random regular graphs quickly", Combinatorics, Probability and Computing 8
    (1999).
    """
    if not 1 <= degree < n:
        raise ValueError(
            f"found degree {degree}, must be from 1 to {n - 1}, the possible neighbours of a node"
        )
    if n * degree % 2:
        raise ValueError(
            f"found degree {degree} for {n} nodes, but n * degree must be even: a link has two ends"
        )
    return _connected(lambda rng: nx.random_regular_graph(degree, n, seed=rng), seed, "raise degree")


def watts_strogatz(n: int, k: int, p: float, seed: int) -> nx.Graph:
    """Return a connected small world: a ring lattice of which each link is rewired with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Mean degree: even, 2 <= k < n.
    p : float
        0 <= p <= 1.
    seed : int

    Raises
    ------
    ValueError
        If there is no such lattice, or no connected graph was found.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998).
    """
    if k < 2 or k % 2:
        raise ValueError(f"found k = {k}, must be even and at least 2: half the neighbours lie on each side")
    if k >= n:
        raise ValueError(f"found k = {k}, but a node has only {n - 1} possible neighbours")
    _check_probability(p)
    return _connected(lambda rng: nx.watts_strogatz_graph(n, k, p, seed=rng), seed, "raise k or lower p")


def erdos_renyi(n: int, p: float, seed: int) -> nx.Graph:
    """Return a connected graph in which every two nodes are linked with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes, at least 2.
    p : float
        0 <= p <= 1. Graphs are seldom connected where p is below ln(n) / n.
    seed : int

    Raises
    ------
    ValueError
        If no connected graph was found.

    References
    ----------
    P. Erdős, A. Rényi, "On random graphs I", Publicationes Mathematicae 6 (1959); this is Gilbert's variant.
    """
    if n < 2:
        raise ValueError(f"found n = {n}, must be at least 2")
    _check_probability(p)
    return _connected(lambda rng: nx.gnp_random_graph(n, p, seed=rng), seed, "raise p")


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"found p = {p}, must be from 0 to 1")


def _connected(draw: Callable[[np.random.Generator], nx.Graph], seed: int, remedy: str) -> nx.Graph:
    """Draw until the graph is connected: the family's law, given that it is."""
    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        graph = draw(rng)
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"found no connected graph in {ATTEMPTS} attempts; {remedy}")
