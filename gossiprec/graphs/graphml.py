"""GraphML, the form in which graph tools such as Gephi and igraph exchange graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from gossiprec.graphs.edge_lists import ordered_links

if TYPE_CHECKING:
    import networkx as nx

SPACE = "http://graphml.graphdrawing.org/xmlns"


def read_graphml(text: str) -> tuple[bool | None, list[Any], list[tuple[Any, Any]]]:
    """Return whether links have a direction, the nodes, and the links.

    Ids may be numbers, or numbers after an ``n``, as GraphML's own examples have them.

    Raises
    ------
    ValueError
        If the text is not GraphML with one plain graph. Document types are refused: entities could blow up.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("found a document type declaration; remove it")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from None
    space = root.tag[: root.tag.find("}") + 1] if root.tag.startswith("{") else ""
    graphs = root.findall(f"{space}graph")
    if root.tag != f"{space}graphml" or len(graphs) != 1:
        raise ValueError(
            f"found {len(graphs)} graphs in <{root.tag.removeprefix(space)}>, must be one in <graphml>"
        )
    graph = graphs[0]
    default = graph.get("edgedefault")
    if default not in ("directed", "undirected"):
        raise ValueError(f"found edgedefault {default!r}, must be 'directed' or 'undirected'")
    edges = graph.findall(f"{space}edge")
    word = str(default == "directed").lower()
    if any(edge.get("directed", word) != word for edge in edges):
        raise ValueError(
            f"found links that are not {default}, although the graph is; make all links {default}"
        )
    links = [(_id(edge.get("source")), _id(edge.get("target"))) for edge in edges]
    return default == "directed", [_id(node.get("id")) for node in graph.findall(f"{space}node")], links


def graphml_text(graph: nx.Graph) -> str:
    """Return a graph as GraphML, in the order of nodes."""
    kind = "directed" if graph.is_directed() else "undirected"
    return "\n".join(
        [
            "<?xml version='1.0' encoding='utf-8'?>",
            f'<graphml xmlns="{SPACE}">',
            f'<graph edgedefault="{kind}">',
            *(f'<node id="{node}"/>' for node in range(len(graph))),
            *(f'<edge source="{one}" target="{other}"/>' for one, other in ordered_links(graph)),
            "</graph>",
            "</graphml>\n",
        ]
    )


def _id(name: str | None) -> str:
    """Return a node's id without the ``n`` before a number."""
    if name is None:
        raise ValueError("found a node without id, or a link without source or target")
    return name[1:] if name[:1] == "n" and name[1:].isdigit() else name
