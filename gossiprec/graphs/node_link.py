"""Node-link JSON, as networkx and D3 write it: ``{"directed": false, "nodes": [{"id": 0}], "edges": [...]}``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gossiprec.graphs.edge_lists import ordered_links

if TYPE_CHECKING:
    import networkx as nx

_FORM = '{"directed": false, "nodes": [{"id": 0}, ...], "edges": [{"source": 0, "target": 1}, ...]}'


def read_node_link(text: str) -> tuple[bool | None, list[Any], list[tuple[Any, Any]]]:
    """Return whether links have a direction (None: not said), the nodes, and the links.

    Raises
    ------
    ValueError
        If the text is not JSON of this form. Links may stand under ``edges`` or ``links``.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {str(error)[:120]}") from None
    return read_node_link_data(found)


def read_node_link_data(found: Any) -> tuple[bool | None, list[Any], list[tuple[Any, Any]]]:
    """Return the same from data that JSON has become."""
    key = "edges" if isinstance(found, dict) and "edges" in found else "links"
    if not isinstance(found, dict) or not isinstance(found.get(key), list):
        raise ValueError(f"found no list of links; expected {_FORM}")
    directed = found.get("directed")
    if directed is not None and not isinstance(directed, bool):
        raise ValueError(f"found directed {str(directed)[:40]!r}, must be true or false")
    nodes = found.get("nodes", [])
    try:
        return (
            directed,
            [node["id"] for node in nodes],
            [(link["source"], link["target"]) for link in found[key]],
        )
    except (TypeError, KeyError):
        raise ValueError(
            f"found a node without id, or a link without source or target; expected {_FORM}"
        ) from None


def node_link_text(graph: nx.Graph) -> str:
    """Return a graph as node-link JSON, in the order of nodes."""
    whole = {
        "directed": graph.is_directed(),
        "multigraph": False,
        "graph": {},
        "nodes": [{"id": node} for node in range(len(graph))],
        "edges": [{"source": one, "target": other} for one, other in ordered_links(graph)],
    }
    return json.dumps(whole) + "\n"
