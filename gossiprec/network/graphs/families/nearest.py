"""Graphs that link each node to the nearest others, by taste or by place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gossiprec.network.graphs.families import FamilyOption, register_family
from gossiprec.network.graphs.similarity import (
    check_connected,
    nearest_neighbors,
    spatial_proximity,
    taste_similarity,
)

if TYPE_CHECKING:
    import networkx as nx


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
