"""How much alike nodes are: by the items of their users, or by where these live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import networkx as nx

F64 = npt.NDArray[np.float64]
EARTH_RADIUS_KM = 6371.0088
"""Mean radius."""


def taste_likeness(items: Sequence[npt.NDArray[np.integer[Any]] | Sequence[int]]) -> F64:
    """Return the Jaccard similarity of every two nodes' item sets, shape (n, n).

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each node, none negative. Two empty sets have nothing in common: 0.
    """
    from scipy import sparse

    sets = [np.unique(np.asarray(own, np.int64)) for own in items]
    sizes = np.array([len(own) for own in sets])
    everything = np.concatenate([*sets, np.zeros(0, np.int64)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(sets), int(everything.max(initial=-1)) + 1)
    owns = sparse.csr_matrix((np.ones(len(everything)), everything, offsets), shape=shape)
    common: F64 = (owns @ owns.T).toarray()
    union = sizes[:, None] + sizes[None, :] - common
    likeness: F64 = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return likeness


def place_likeness(places: npt.ArrayLike) -> F64:
    """Return the nearness of every two nodes: minus their great-circle distance in km, shape (n, n).

    Parameters
    ----------
    places : array-like, shape (n, 2)
        Latitude and longitude in degrees.

    Raises
    ------
    ValueError
        If a place is off the globe.
    """
    where = np.asarray(places, np.float64)
    if where.ndim != 2 or where.shape[1] != 2:
        raise ValueError(f"found places of shape {where.shape}, must be (n, 2): latitude and longitude")
    good = (np.abs(where) <= (90, 180)).all(axis=1)  # false for NaN
    if not good.all():
        node = int(np.argmin(good))
        raise ValueError(
            f"found latitude {where[node, 0]}, longitude {where[node, 1]} for node {node}, "
            "must be from -90 to 90 and from -180 to 180 degrees"
        )
    latitude, longitude = np.radians(where).T
    height = np.sin((latitude[:, None] - latitude) / 2) ** 2
    across = np.sin((longitude[:, None] - longitude) / 2) ** 2
    chord = height + np.cos(latitude)[:, None] * np.cos(latitude) * across  # haversine of the angle between
    nearness: F64 = -2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0, 1)))
    return nearness


def nearest_neighbors(likeness: F64, k: int) -> nx.Graph:
    """Return the graph in which two nodes are linked if either is among the `k` likest of the other.

    Parameters
    ----------
    likeness : ndarray of float64, shape (n, n)
        Larger for the more alike; ties go to the lower id.
    k : int
        1 <= k < n.

    Raises
    ------
    ValueError
        If `k` is out of range.
    """
    import networkx as nx

    n = len(likeness)
    if not 1 <= k < n:
        raise ValueError(f"found k = {k}, must be from 1 to {n - 1}, the possible neighbours of a node")
    others = np.where(np.eye(n, dtype=bool), -np.inf, likeness)
    nearest = np.argsort(-others, axis=1, kind="stable")[:, :k]
    graph = nx.empty_graph(n)
    graph.add_edges_from((node, peer) for node, peers in enumerate(nearest.tolist()) for peer in peers)
    return graph


def check_connected(graph: nx.Graph, remedy: str) -> nx.Graph:
    """Return the graph if it is connected.

    Raises
    ------
    ValueError
        If it falls into parts; `remedy` says what to change.
    """
    import networkx as nx

    parts = sorted((len(part) for part in nx.connected_components(graph)), reverse=True)
    if len(parts) > 1:
        raise ValueError(
            f"found a graph in {len(parts)} parts, the largest of {parts[0]} nodes, "
            f"the smallest of {parts[-1]}; {remedy}"
        )
    return graph
