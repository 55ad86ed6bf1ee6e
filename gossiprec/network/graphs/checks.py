"""Preconditions that several families share, and draws of connected graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

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
