"""Graphs in files: GraphML, edge lists and node-link JSON, and the bundled graphs.

The bundled graphs are files in ``gossiprec/network/graphs/frozen`` that never change. A file's nodes must be 0 .. n -
1, as numbers or texts; they are not renumbered, because node n holds the data of user n.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from gossiprec.base.errors import DataError, did_you_mean
from gossiprec.base.inputs import no_such_file, note_input, read_regular_file
from gossiprec.network.graphs.similarity import check_self_links

if TYPE_CHECKING:
    import networkx as nx


GraphParts = tuple[bool | None, list[Any], list[tuple[Any, Any]]]
"""Contents of a file: whether links are directed (None if not stated), its nodes, its links."""

_FORM = '{"directed": false, "nodes": [{"id": 0}, ...], "edges": [{"source": 0, "target": 1}, ...]}'


def read_node_link(text: str) -> GraphParts:
    """Return whether links are directed (None if not stated), the nodes, and the links.

    Raises
    ------
    ValueError
        If the text is not JSON of this form. Links may be under ``edges`` or ``links``.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {str(error)[:120]}") from None
    return read_node_link_data(found)


def read_node_link_data(found: Any) -> GraphParts:
    """Return the result of :func:`read_node_link` from parsed JSON."""
    key = "edges" if isinstance(found, dict) and "edges" in found else "links"
    if not isinstance(found, dict) or not isinstance(found.get(key), list):
        raise ValueError(f"found no list of links; expected {_FORM}")
    directed = found.get("directed")
    if directed is not None and not isinstance(directed, bool):
        raise ValueError(f"found directed {str(directed)[:40]!r}, must be true or false")
    nodes = found.get("nodes", [])
    try:
        links = [(link["source"], link["target"]) for link in found[key]]
        return directed, [node["id"] for node in nodes], links
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


SPACE = "http://graphml.graphdrawing.org/xmlns"


def read_graphml(text: str) -> GraphParts:
    """Return whether links are directed, the nodes, and the links.

    Ids may be numbers, or numbers after an ``n``, as in GraphML's own examples.

    Raises
    ------
    ValueError
        If the text is not GraphML with one plain graph. Document types are refused, because entities could expand.
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
    lines = [
        f"<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"{SPACE}\">\n<graph edgedefault=\"{kind}\">",
        *(f'<node id="{node}"/>' for node in range(len(graph))),
        *(f'<edge source="{one}" target="{other}"/>' for one, other in ordered_links(graph)),
    ]
    return "\n".join([*lines, "</graph>\n</graphml>\n"])


def _id(name: str | None) -> str:
    """Return a node's id without the ``n`` before a number."""
    if name is None:
        raise ValueError("found a node without id, or a link without source or target")
    return name[1:] if name[:1] == "n" and name[1:].isdigit() else name


_DECLARED = re.compile(r"\s*#[\s#]*(un)?directed", re.IGNORECASE)
_UNCLEAR = re.compile(r"(?:\s*#.*\n)*?\s*#(.*directed.*)", re.IGNORECASE)
"""A first comment that states the direction of links, and a comment before them that names it in another way."""
_BETWEEN = re.compile(r"[,;\s]+")


def read_edge_list(text: str) -> GraphParts:
    """Return whether links are directed (None if not stated), an empty list of nodes, and the links.

    Raises
    ------
    ValueError
        If a line is not a link; the message names the first one.
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


def _refuse_unclear(text: str) -> None:
    """Refuse an edge list if its first comment names a direction in another way than the one that is read."""
    unclear = _UNCLEAR.match(text)
    if unclear:
        raise ValueError(
            f"found the comment {unclear[1].strip()[:60]!r}, which may state the direction of links; expected one that "
            "begins with 'directed' or 'undirected'; change it, or set directed: true or directed: false"
        )


def edge_list_text(graph: nx.Graph) -> str:
    """Return a graph as an edge list, in the order of nodes."""
    kind = "directed" if graph.is_directed() else "undirected"
    lines = [f"# {kind}, {len(graph)} nodes, {graph.number_of_edges()} links"]
    lines += [f"{one} {other}" for one, other in ordered_links(graph)]
    return "\n".join(lines) + "\n"


def ordered_links(graph: nx.Graph) -> list[tuple[int, int]]:
    """Return the links in ascending order; links of an undirected graph lead from the lower to the higher id."""
    if graph.is_directed():
        return sorted(graph.edges)
    return sorted((min(link), max(link)) for link in graph.edges)


Format = Literal["graphml", "edges", "json"]

MAX_BYTES = 256 * 2**20
"""Largest file size in bytes, enough for about ten million links."""

SUFFIXES: dict[str, Format] = {
    ".graphml": "graphml", ".xml": "graphml",
    ".edges": "edges", ".edgelist": "edges", ".txt": "edges", ".csv": "edges", ".tsv": "edges",
    ".json": "json",
}  # fmt: skip
"""Formats by suffix of the file's name."""

_FORMATS: dict[Format, tuple[Callable[[str], GraphParts], Callable[[Any], str]]] = {
    "graphml": (read_graphml, graphml_text),
    "edges": (read_edge_list, edge_list_text),
    "json": (read_node_link, node_link_text),
}
"""Reader and writer of each format."""


def infer_graph_format(path: Path, format: Format | None = None) -> Format:
    """Return a file's format: the given one, or else the format of its suffix.

    Raises
    ------
    ValueError
        If the suffix has no format.
    """
    if format is None and path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{path}: found suffix {path.suffix!r}, must be one of {', '.join(SUFFIXES)}; rename it, set the format, "
            "or write other formats as GraphML with networkx"
        )
    return format or SUFFIXES[path.suffix.lower()]


def read_graph(path: Path, *, directed: bool | None = None, format: Format | None = None) -> nx.Graph:
    """Return the graph in a file, over nodes 0 .. n - 1.

    Parameters
    ----------
    path : Path
    directed : bool, optional
        Whether links are directed; must agree with the file if the file states it. If omitted, the file decides; a
        file that does not state it is undirected.
    format : {'graphml', 'edges', 'json'}, optional
        If omitted, the suffix of the file decides.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        A pair of nodes is linked once, even if the file repeats it; weights and other data are ignored.

    Raises
    ------
    ValueError
        If the file cannot be read as such a graph; the message names it, what was found and what was expected.
    """
    reader, _ = _FORMATS[infer_graph_format(path, format)]
    try:
        text = read_text(path)
        declared, nodes, links = reader(text)
        if directed is None and declared is None and reader is read_edge_list:
            _refuse_unclear(text)
        return build_graph(declared, nodes, links, directed=directed)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def build_graph(
    declared: bool | None, nodes: Iterable[Any], edges: Iterable[tuple[Any, Any]], *, directed: bool | None
) -> nx.Graph:
    """Return the graph of named nodes and links, after checking both; see :func:`read_graph`.

    Raises
    ------
    ValueError
        If nodes are not 0 .. n - 1, a node is linked to itself or has no link, or directions contradict.
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


def check_node_count(graph: nx.Graph, n_nodes: int, source: str) -> nx.Graph:
    """Return the graph if its number of nodes is the number of users in the data.

    Raises
    ------
    ValueError
        If it is not; the message has both numbers.
    """
    if len(graph) != n_nodes:
        raise ValueError(
            f"{source}: found {len(graph)} nodes, but the data have {n_nodes} users; choose another graph, or "
            f"limit the data to {len(graph)} users (dataset.limit_users)"
        )
    return graph


def write_graph(graph: nx.Graph, path: Path, *, format: Format | None = None) -> None:
    """Write a graph over nodes 0 .. n - 1 so that :func:`read_graph` returns it again.

    Raises
    ------
    ValueError
        If the suffix has no format.
    OSError
        If the file cannot be written.
    """
    path.write_text(graph_text(graph, infer_graph_format(path, format)), encoding="utf-8")


def graph_text(graph: nx.Graph, format: Format) -> str:
    """Return a graph as the text of a file."""
    return _FORMATS[format][1](graph)


def read_text(path: Path) -> str:
    """Return the text of a file, which is an input of the run.

    Raises
    ------
    ValueError
        If it cannot be read, or is not in UTF-8.
    """
    note_input(path)
    try:
        raw = read_regular_file(path, most_bytes=MAX_BYTES)
    except FileNotFoundError:
        raise ValueError(no_such_file(path)) from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{path}: ")) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not a text file in UTF-8") from None


def _number(node: Any) -> int:
    """Return the id that the name of a node denotes."""
    if isinstance(node, int) and not isinstance(node, bool) and node >= 0:
        return node
    if isinstance(node, str) and node.isascii() and node.isdigit() and (node == "0" or node[0] != "0"):
        return int(node[:19])
    raise ValueError(
        f"found a node named {str(node)[:40]!r}; expected ids from 0 to n - 1, one for each user"
    )


def _checked(graph: nx.Graph) -> nx.Graph:
    check_self_links(graph)
    for node in graph:
        if not graph.degree(node):
            raise ValueError(
                f"found node {node} without any link; add a link, or remove its user from the data"
            )
    return graph


_FOLDER = resources.files("gossiprec.network.graphs") / "frozen"
_SUFFIX = ".edges"


@functools.cache
def frozen_names() -> tuple[str, ...]:
    """Return the names of the bundled graphs, in alphabetical order."""
    files = (file.name for file in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def frozen_graph(name: str) -> nx.Graph:
    """Return a bundled graph.

    Raises
    ------
    ValueError
        If there is no graph of that name.
    """
    return build_graph(*read_edge_list(frozen_text(name)), directed=None)


def frozen_summary(name: str) -> str:
    """Return the description of a bundled graph: the second line of its file."""
    return frozen_text(name).splitlines()[1].lstrip("# ")


def frozen_text(name: str) -> str:
    """Return the text of a bundled graph's file."""
    if name not in frozen_names():
        known = frozen_names()
        raise ValueError(
            f"unknown bundled graph {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}"
        )
    return (_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
