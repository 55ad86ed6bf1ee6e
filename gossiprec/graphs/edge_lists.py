"""Edge lists: a line for each link, the ids of its ends separated by blanks or a comma; # begins a comment.

A first line ``# directed`` or ``# undirected`` says whether links have a direction (from the first to the second).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx

_DECLARED = re.compile(r"#\s*(un)?directed\b")
_BETWEEN = re.compile(r"[,;\s]+")


def read_edge_list(text: str) -> tuple[bool | None, list[Any], list[tuple[str, str]]]:
    """Return whether links have a direction (None: not said), no nodes, and the links.

    Raises
    ------
    ValueError
        Naming the first line that is no link.
    """
    declared = _DECLARED.match(text)
    edges = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [word for word in _BETWEEN.split(line.partition("#")[0]) if word]
        if not words:
            continue
        if len(words) != 2:
            raise ValueError(
                f"line {number}: found {len(words)} columns; expected the two ends of a link; remove weights "
                "and other data, which are not used"
            )
        edges.append((words[0], words[1]))
    if not edges:
        raise ValueError("found no links; expected lines such as: 0 1")
    return None if declared is None else declared[1] is None, [], edges


def edge_list_text(graph: nx.Graph) -> str:
    """Return a graph as an edge list, in the order of nodes."""
    kind = "directed" if graph.is_directed() else "undirected"
    lines = [f"# {kind}, {len(graph)} nodes, {graph.number_of_edges()} links"]
    lines += [f"{one} {other}" for one, other in ordered_links(graph)]
    return "\n".join(lines) + "\n"


def ordered_links(graph: nx.Graph) -> list[tuple[int, int]]:
    """Return the links in ascending order, those of an undirected graph from the lower to the higher id."""
    if graph.is_directed():
        return sorted(graph.edges)
    return sorted((min(link), max(link)) for link in graph.edges)
