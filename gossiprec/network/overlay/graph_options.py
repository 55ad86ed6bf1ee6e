"""Graphs in a scenario: their options (a family, a file, a frozen graph, or a sequence), and drawing or reading them.

The option sets of families are derived from the declarations of their functions
(:mod:`gossiprec.network.graphs.families`), so that each option is declared once.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union

import numpy as np
from pydantic import Discriminator, Field, Tag, create_model, field_validator

from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.inputs import no_such_file
from gossiprec.base.options import Options, RegisteredOptions
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.network import graphs
from gossiprec.network.graphs import FAMILIES
from gossiprec.network.graphs.centrality import order_nodes
from gossiprec.network.graphs.files import SUFFIXES, build_graph, frozen_text, read_node_link_data, read_text
from gossiprec.network.overlay import PoisonerPlaces, UserProfiles

if TYPE_CHECKING:
    import networkx as nx

G = TypeVar("G", bound=Options)


class FamilyGraph(Options):
    """A graph drawn from a family, with its options; each family has a subclass."""

    family: str


class FrozenGraph(Options):
    """A graph that comes with gossiprec."""

    frozen: str
    """name of a bundled graph, as listed by `gossiprec topology list`"""

    @field_validator("frozen")
    @classmethod
    def _known(cls, name: str) -> str:
        frozen_text(name)  # refuses unknown names
        return name


class FileGraph(Options):
    """A graph in a file, over nodes 0 .. n - 1."""

    file: str = Field(min_length=1)
    """path, relative to the current directory"""
    format: Literal["graphml", "edges", "json"] | None = None
    """format; default: given by the suffix of the file"""
    directed: bool | None = None
    """whether links are directed; default: as stated in the file"""


@functools.cache
def family_options(name: str) -> type[FamilyGraph]:
    """Return the option set of a family.

    Raises
    ------
    ScenarioError
        If there is no family of that name, or its plug-in cannot be used.
    """
    family = FAMILIES[name]
    fields: dict[str, Any] = {"family": (Literal[family.name], ...)}
    for key, o in family.options.items():
        default = {} if o.default is graphs.REQUIRED else {"default": o.default}
        fields[key] = (o.kind, Field(**default, description=o.meaning, ge=o.least, le=o.most))
    return create_model(
        _class_name(name), __base__=FamilyGraph, __module__=__name__, __doc__=family.summary, **fields
    )


def timed_family_options(name: str) -> type[FamilyGraph]:
    """Return the option set of a family's graph with a start time."""
    return _dated(family_options(name))


@functools.cache
def _dated(graph: type[G]) -> type[G]:
    """Return the option set of a graph with a start time."""
    start = (float, Field(alias="from", ge=0, description="virtual time from which the graph is used"))
    return create_model(
        f"{graph.__name__}From", __base__=graph, __module__=__name__, __doc__=graph.__doc__, start=start
    )


def __getattr__(name: str) -> type[FamilyGraph]:
    """Return the option set of a family by its class name, for unpickling in another process."""
    for family in FAMILIES:
        if name == _class_name(family):
            return family_options(family)
        if name == f"{_class_name(family)}From":
            return timed_family_options(family)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _class_name(family: str) -> str:
    return "".join(word.capitalize() for word in family.split("-"))


KINDS = {"file": "FileGraph", "frozen": "FrozenGraph", "sequence": "GraphSequence", "family": "FamilyGraph"}
"""Kinds of graphs by the key that identifies them; no kind is named like a key, so messages can tell them apart."""


def graph_kind(raw: Any) -> str:
    """Return the kind of graph that a scenario specifies, identified by its key."""
    for key, kind in KINDS.items():
        if (raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)) is not None:
            return kind
    return KINDS["family"]


if TYPE_CHECKING:
    PlainGraph: TypeAlias = FamilyGraph | FileGraph | FrozenGraph
    DatedGraph: TypeAlias = Any
else:
    FileGraphFrom, FrozenGraphFrom = _dated(FileGraph), _dated(FrozenGraph)

    def _one_of(families: Any, file: type, frozen: type, **more: type) -> Any:
        drawn = Annotated[FamilyGraph, RegisteredOptions(FAMILIES, "family", families)]
        kinds = {"FamilyGraph": drawn, "FileGraph": file, "FrozenGraph": frozen, **more}
        return Annotated[
            Union[tuple(Annotated[kind, Tag(key)] for key, kind in kinds.items())],  # noqa: UP007
            Discriminator(graph_kind),
        ]

    PlainGraph = _one_of(family_options, FileGraph, FrozenGraph)
    DatedGraph = _one_of(timed_family_options, FileGraphFrom, FrozenGraphFrom)


class GraphSequence(Options):
    """Graphs that follow one another, or a folder or JSON file of graphs."""

    sequence: Annotated[str, Field(min_length=1)] | Annotated[tuple[DatedGraph, ...], Field(min_length=1)]
    """a list of graphs, each with `from`: the virtual time from which the graph is used; or a path"""

    @field_validator("sequence")
    @classmethod
    def _in_order(cls, sequence: Any) -> Any:
        if isinstance(sequence, tuple):
            check_starts([graph.start for graph in sequence])
        return sequence


def links_follow_data(graph: Graph) -> bool:
    """Return whether nodes of a graph are linked by their users' items."""
    if isinstance(graph, GraphSequence):
        parts = () if isinstance(graph.sequence, str) else graph.sequence
        return any(map(links_follow_data, parts))
    return isinstance(graph, FamilyGraph) and bool(FAMILIES[graph.family].asks & {"items", "places"})


def check_starts(starts: list[float]) -> None:
    """Refuse start times of graphs that do not begin at 0 or are not ascending.

    Raises
    ------
    ValueError
    """
    if starts[0] != 0:
        raise ValueError(f"the first graph starts at {starts[0]:g}; expected 0, the start of the run")
    if any(later <= earlier for earlier, later in pairwise(starts)):
        raise ValueError(f"found graphs from {', '.join(f'{s:g}' for s in starts)}; expected ascending times")


if TYPE_CHECKING:
    Graph: TypeAlias = PlainGraph | GraphSequence
else:
    Graph = _one_of(family_options, FileGraph, FrozenGraph, GraphSequence=GraphSequence)


@contextmanager
def scenario_errors(key: str, *, over: str = "") -> Iterator[None]:
    """Convert a `ValueError` of the body to a :class:`ScenarioError` about a key and its context."""
    try:
        yield
    except ValueError as error:
        raise ScenarioError(f"{key}: {error}{over}") from error


def load_graph(
    graph: PlainGraph,
    n_nodes: int,
    *,
    seed: int,
    key: str,
    profiles: UserProfiles | None = None,
    place: int = 0,
) -> nx.Graph:
    """Return the run's graph over nodes 0 .. n_nodes - 1.

    Parameters
    ----------
    graph : options of a family, file or frozen graph
    n_nodes : int
    seed : int
        Seed of the run.
    key : str
        Key of the graph in the scenario, for messages.
    profiles : UserProfiles, optional
        Profiles of the nodes' users; required by families that link by taste or place.
    place : int
        Position in a sequence of graphs: each is drawn independently.

    Raises
    ------
    ScenarioError
        If there is no such graph over this number of nodes.
    """
    if isinstance(graph, FamilyGraph):
        with scenario_errors(key, over=f" ({n_nodes} nodes)"):
            return _drawn(graph, n_nodes, seed, profiles, place)
    with scenario_errors(key):
        if isinstance(graph, FrozenGraph):
            found, source = graphs.frozen_graph(graph.frozen), f"frozen graph {graph.frozen}"
        else:
            path = Path(graph.file)
            found = graphs.read_graph(path, directed=graph.directed, format=graph.format)
            source = graph.file
        return graphs.check_node_count(found, n_nodes, source)


def load_graph_sequence(
    graph: GraphSequence, n_nodes: int, *, seed: int, key: str, profiles: UserProfiles | None = None
) -> tuple[list[float], list[nx.Graph]]:
    """Return the start times of a sequence of graphs, ascending from 0, and the graphs.

    Raises
    ------
    ScenarioError
        If a graph is impossible, or a folder or file of graphs cannot be read.
    """
    if isinstance(graph.sequence, str):
        with scenario_errors(f"{key}.sequence"):
            starts, read = _snapshots(Path(graph.sequence))
            for start, found in zip(starts, read, strict=True):
                graphs.check_node_count(found, n_nodes, f"{graph.sequence}, from {start:g}")
            return starts, read
    made = [
        load_graph(dated, n_nodes, seed=seed, key=f"{key}.sequence.{place}", profiles=profiles, place=place)
        for place, dated in enumerate(graph.sequence)
    ]
    return [dated.start for dated in graph.sequence], made


def _drawn(
    graph: FamilyGraph, n_nodes: int, seed: int, profiles: UserProfiles | None, place: int
) -> nx.Graph:
    family = graphs.FAMILIES[graph.family]
    given: dict[str, Any] = {"n": n_nodes, "seed": int(generator(seed, "graph", place).integers(2**63))}
    if family.asks & {"items", "places"}:
        if profiles is None:
            raise ValueError(
                f"family {graph.family} links nodes by their users' data; use it in a scenario with a data set"
            )
        if "places" in family.asks and profiles.places is None:
            raise ValueError(
                f"family {graph.family} links nodes by place, but the items of {profiles.dataset} have no "
                "places; use check-in data such as synthetic-checkins, or nearest-by-taste"
            )
        given["items"] = [profiles.items[user] for user in range(len(profiles.items))]
        given["places"] = profiles.places
    return family.graph(given, {name: getattr(graph, name) for name in family.options})


def _snapshots(path: Path) -> tuple[list[float], list[nx.Graph]]:
    """Return the graphs in a folder of files named by their times, or in a JSON list of node-link graphs."""
    found = _in_folder(path) if path.is_dir() else _in_file(path)
    found.sort(key=lambda dated: dated[0])
    starts = [start for start, _ in found]
    try:
        check_starts(starts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return starts, [read() for _, read in found]


def _in_folder(path: Path) -> list[tuple[float, Callable[[], nx.Graph]]]:
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise ValueError(
            f"{path}: found no graph; expected files named by their times, such as 0.edges and 12.5.edges"
        )
    return [(_time(file.stem, str(file)), lambda file=file: graphs.read_graph(file)) for file in files]  # type: ignore[misc]


def _in_file(path: Path) -> list[tuple[float, Callable[[], nx.Graph]]]:
    form = '[{"from": 0, "nodes": [{"id": 0}, ...], "edges": [{"source": 0, "target": 1}, ...]}, ...]'
    if not path.exists():
        expected = "a folder or a JSON file of graphs"
        raise ValueError(f"{path}: {no_such_file(path, expected, what='file or folder')}")
    try:
        listed = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {str(error)[:120]}; expected {form}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(listed, list) or not listed or not all(isinstance(graph, dict) for graph in listed):
        raise ValueError(f"{path}: found no list of graphs; expected {form}")

    def read(place: int) -> nx.Graph:
        try:
            return build_graph(*read_node_link_data(listed[place]), directed=None)
        except ValueError as error:
            raise ValueError(f"{path}: graph {place}: {error}") from None

    return [
        (_time(graph.get("from"), f"{path}: graph {place}"), lambda place=place: read(place))  # type: ignore[misc]
        for place, graph in enumerate(listed)
    ]


def _time(said: Any, source: str) -> float:
    try:
        time = float(said)
    except (TypeError, ValueError):
        time = math.nan
    if isinstance(said, bool) or not 0 <= time < math.inf:
        raise ValueError(f"{source}: found time {said!r}; expected a number of at least 0")
    return time


def load_placed_graph(
    graph: PlainGraph,
    n_nodes: int,
    poisoners: Sequence[PoisonerPlaces],
    *,
    seed: int,
    key: str,
    profiles: UserProfiles | None = None,
) -> nx.Graph:
    """Return the run's graph over users and poisoners, with each poisoner in its place.

    Parameters
    ----------
    graph : options of a family, file or frozen graph
        Over all nodes except Sybils.
    n_nodes : int
    poisoners : sequence of PoisonerPlaces
        All poisoners; empty if none is placed: the graph is then the one of :func:`load_graph`.
    seed, key, profiles
        See :func:`load_graph`.

    Raises
    ------
    ScenarioError
        If there is no such graph over this number of nodes.

    Notes
    -----
    A poisoner that is placed exchanges places with the user there, so that the graph has the same shape.
    """
    sybils = [group for group in poisoners if group.edges is not None and len(group.nodes)]
    ids = np.setdiff1d(np.arange(n_nodes), [node for group in sybils for node in group.nodes])
    if sybils and profiles is not None:
        profiles = replace(profiles, items=Ragged.from_parts([profiles.items[node] for node in ids]))
    found = load_graph(graph, len(ids), seed=seed, key=key, profiles=profiles)
    if not poisoners:
        return found
    import networkx as nx

    with scenario_errors(key):
        holders = _holders(found, ids, [group for group in poisoners if group.edges is None], seed)
    found = nx.relabel_nodes(found, dict(enumerate(holders.tolist())))
    n_users = n_nodes - sum(len(group.nodes) for group in poisoners)
    for group in sybils:
        users = (
            generator(seed, "attack-edges", int(group.nodes[0])).permutation(n_users)[: group.edges].tolist()
        )
        nodes = np.resize(group.nodes, len(users)).tolist()
        pairs = [*zip(nodes, users, strict=True), *zip(users, nodes, strict=True)]
        found.add_edges_from(pairs + list(permutations(group.nodes.tolist(), 2)) if group.linked else pairs)
    return found


def _holders(graph: nx.Graph, ids: I64, poisoners: Sequence[PoisonerPlaces], seed: int) -> I64:
    """Return the node at each place of a graph, of which the places belong to some ascending ids at first."""
    from gossiprec.network.graphs.measures import adjacency

    moved = np.concatenate([[], *(group.nodes for group in poisoners if group.placement)]).astype(np.int64)
    if not len(moved):
        return ids
    staying = [node for group in poisoners if not group.placement for node in group.nodes]
    free, taken = ~np.isin(ids, staying), np.zeros(0, np.int64)
    towards = adjacency(graph).T.tocsr()  # orders count the senders of a node: here, those that it sends to
    for group in poisoners:
        if group.placement:
            draw = int(generator(seed, "poisoner-placement", len(taken)).integers(2**63))
            order = order_nodes(towards, group.placement, draw)
            chosen = order[free[order]][: len(group.nodes)]
            free[chosen] = False
            taken = np.append(taken, chosen)
    holders, left = ids.copy(), np.setdiff1d(np.flatnonzero(np.isin(ids, moved)), taken)
    holders[left] = np.setdiff1d(ids[taken], moved)
    holders[taken] = moved
    return holders
