"""The graph that a scenario names, drawn or read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.inputs import note_input, read_regular_file
from gossiprec.base.rng import generator
from gossiprec.network import graphs
from gossiprec.network.graphs.files import MAX_BYTES, SUFFIXES, build_graph, read_node_link_data
from gossiprec.network.overlay.base import UserProfiles
from gossiprec.network.overlay.graph_options import (
    FamilyGraph,
    FrozenGraph,
    GraphSequence,
    PlainGraph,
    check_starts,
)

if TYPE_CHECKING:
    import networkx as nx


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
            found, where = graphs.frozen_graph(graph.frozen), f"frozen graph {graph.frozen}"
        else:
            path = Path(graph.file)
            found = graphs.read_graph(path, directed=graph.directed, format=graph.format)
            where = graph.file
        return graphs.check_node_count(found, n_nodes, where)


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
    given: dict[str, Any] = {
        "n": n_nodes,
        "seed": int(generator(seed, "graph", place).integers(2**63)),
    }
    if family.asks & {"items", "places"} and profiles is None:
        raise ValueError(
            f"family {graph.family} links nodes by their users' data; use it in a scenario with a data set"
        )
    if "items" in family.asks:
        assert profiles is not None
        given["items"] = [profiles.items[user] for user in range(len(profiles.items))]
    if "places" in family.asks:
        assert profiles is not None
        if profiles.places is None:
            raise ValueError(
                f"family {graph.family} links nodes by place, but the items of {profiles.dataset} have no "
                "places; use check-in data such as synthetic-checkins, or nearest-by-taste"
            )
        given["places"] = profiles.places
    return family.graph(given, graph.chosen)


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
    note_input(path)
    try:
        listed = json.loads(read_regular_file(path, most_bytes=MAX_BYTES).decode("utf-8-sig"))
    except DataError as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror or error}; pass a folder or a JSON file of graphs"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {str(error)[:120]}; expected {form}") from None
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


def _time(said: Any, where: str) -> float:
    try:
        time = float(said)
    except (TypeError, ValueError):
        time = math.nan
    if isinstance(said, bool) or not 0 <= time < math.inf:
        raise ValueError(f"{where}: found time {said!r}; expected a number of at least 0")
    return time
