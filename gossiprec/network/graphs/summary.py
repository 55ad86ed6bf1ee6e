"""All facts about a graph, for reports."""

from __future__ import annotations

import networkx as nx

from gossiprec.network.graphs.measures import (
    average_distance,
    clustering,
    degree_summary,
    diameter,
    reachable_fraction,
    spectral_gap,
    wakes_to_meet,
)
from gossiprec.network.graphs.vertex_cover import colluder_bound, find_colluder_cover

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
