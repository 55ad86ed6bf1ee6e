"""Graphs in files: GraphML, edge lists and node-link JSON.

A file's nodes must be 0 .. n - 1, as numbers or as words for them; nothing is renumbered, because who holds whose data
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gossiprec.errors import DataError
from gossiprec.graphs.edge_lists import edge_list_text, read_edge_list
from gossiprec.graphs.graphml import graphml_text, read_graphml
from gossiprec.graphs.node_link import node_link_text, read_node_link
from gossiprec.inputs import note_input
from gossiprec.regular_files import read_regular_file

if TYPE_CHECKING:
    import networkx as nx

Format = Literal["graphml", "edges", "json"]

MAX_BYTES = 256 * 2**20
"""Largest file that is read: some ten million links."""

SUFFIXES: dict[str, Format] = {
    ".graphml": "graphml",
    ".xml": "graphml",
    ".edges": "edges",
    ".edgelist": "edges",
    ".txt": "edges",
    ".csv": "edges",
    ".tsv": "edges",
    ".json": "json",
}
"""The format that the end of a file's name stands for."""


Said = tuple[bool | None, list[Any], list[tuple[Any, Any]]]
"""What a file says: whether links have a direction (None: it does not say), its nodes, its links."""

_READERS: dict[Format, Callable[[str], Said]] = {
    "graphml": read_graphml,
    "edges": read_edge_list,
    "json": read_node_link,
}
_WRITERS: dict[Format, Callable[[Any], str]] = {
    "graphml": graphml_text,
    "edges": edge_list_text,
    "json": node_link_text,
}


def format_of(path: Path, format: Format | None = None) -> Format:
    """Return a file's format: as stated, or else by the end of its name.

    Raises
    ------
    ValueError
        If the name says nothing.
    """
    if format is None and path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{path}: found suffix {path.suffix!r}, must be one of {', '.join(SUFFIXES)}; rename it, or set "
            "the format"
        )
    return format or SUFFIXES[path.suffix.lower()]


def read_graph(path: Path, *, directed: bool | None = None, format: Format | None = None) -> nx.Graph:
    """Return the graph in a file, over nodes 0 .. n - 1.

    Parameters
    ----------
    path : Path
    directed : bool, optional
        Whether links have a direction; must agree with the file where that says so. Left out: as the file says, and
        undirected if it does not.
    format : {'graphml', 'edges', 'json'}, optional
        By the end of the file's name if left out.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        A pair of nodes is linked once, however often the file says so; weights and other data are left aside.

    Raises
    ------
    ValueError
        If the file cannot be read as such a graph; the message names it, what was found and what is allowed.
    """
    reader = _READERS[format_of(path, format)]
    try:
        return graph_from(*reader(_text(path)), directed=directed)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def graph_from(
    declared: bool | None, nodes: Iterable[Any], edges: Iterable[tuple[Any, Any]], *, directed: bool | None
) -> nx.Graph:
    """Return the graph of named nodes and links, after checking both; see :func:`read_graph`.

    Raises
    ------
    ValueError
        If nodes are not 0 .. n - 1, a node is linked to itself or to nobody, or directions contradict.
    """
    import networkx as nx

    if directed is not None and declared is not None and directed != declared:
        words = {True: "directed", False: "undirected"}
        raise ValueError(
            f"found {'a' if declared else 'an'} {words[declared]} graph, but directed: "
            f"{str(directed).lower()} is set; change one of them"
        )
    links = [(_number(one), _number(other)) for one, other in edges]
    numbers = {_number(node) for node in nodes} | {end for link in links for end in link}
    if not numbers:
        raise ValueError("found no nodes; expected at least two")
    if max(numbers) != len(numbers) - 1:
        lacking = next(node for node in range(len(numbers)) if node not in numbers)
        raise ValueError(
            f"found {len(numbers)} nodes with ids up to {max(numbers)} and none with id {lacking}; expected "
            "ids from 0 to n - 1, without gaps"
        )
    graph = (nx.DiGraph if (declared if directed is None else directed) else nx.Graph)()
    graph.add_nodes_from(range(len(numbers)))
    graph.add_edges_from(links)
    return _checked(graph)


def check_size_of(graph: nx.Graph, n_nodes: int, where: str) -> nx.Graph:
    """Return the graph if it has as many nodes as the data have users.

    Raises
    ------
    ValueError
        Naming both numbers.
    """
    if len(graph) != n_nodes:
        raise ValueError(
            f"{where}: found {len(graph)} nodes, but the data have {n_nodes} users; choose another graph, or "
            f"limit the data to {len(graph)} users (dataset.limit_users)"
        )
    return graph


def write_graph(graph: nx.Graph, path: Path, *, format: Format | None = None) -> None:
    """Write a graph over nodes 0 .. n - 1 so that :func:`read_graph` returns it again.

    Raises
    ------
    ValueError
        If the end of the name stands for no format.
    OSError
        If the file cannot be written.
    """
    path.write_text(graph_text(graph, format_of(path, format)), encoding="utf-8")


def graph_text(graph: nx.Graph, format: Format) -> str:
    """Return a graph as the text of a file."""
    return _WRITERS[format](graph)


def _text(path: Path) -> str:
    note_input(path)
    try:
        raw = read_regular_file(path, most_bytes=MAX_BYTES)
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{path}: ")) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not a text file in UTF-8") from None


def _number(node: Any) -> int:
    """Return the id that a node's name stands for."""
    if isinstance(node, int) and not isinstance(node, bool) and node >= 0:
        return node
    if isinstance(node, str) and node.isascii() and node.isdigit() and (node == "0" or node[0] != "0"):
        return int(node[:19])
    raise ValueError(
        f"found a node named {str(node)[:40]!r}; expected ids from 0 to n - 1, one for each user"
    )


def _checked(graph: nx.Graph) -> nx.Graph:
    for node in graph:
        if graph.has_edge(node, node):
            raise ValueError(
                f"found node {node} linked to itself; remove the link, because a node does not send to itself"
            )
        if not graph.degree(node):
            raise ValueError(
                f"found node {node} without any link; add a link, or remove its user from the data"
            )
    return graph
