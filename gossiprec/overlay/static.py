"""Views in graphs: a node knows its neighbours, in a fixed graph or in a sequence of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import model_validator

from gossiprec import graphs
from gossiprec.arrays import I64
from gossiprec.options import Options
from gossiprec.overlay.base import Setting, Views
from gossiprec.overlay.graph_options import KINDS, Graph, GraphSequence, PlainGraph
from gossiprec.overlay.graphs import graph_of, graphs_of
from gossiprec.overlay.picks import WordStreams, picked
from gossiprec.overlay.profiles import Profiles
from gossiprec.overlay.views import CHOICE, StaticViews


class StaticViewOptions(Options):
    """A node knows its neighbours in a graph, and nobody else."""

    size: ClassVar[None] = None
    """Nodes may have different degrees."""
    graph: Graph

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_random_views(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        for key in ("size", "refresh", "sampling"):
            if raw.get(key) is not None:
                raise ValueError(
                    f"found graph and {key}, but in a fixed graph a node knows its neighbours and keeps them; "
                    f"remove {key} (or set it to null), or remove graph"
                )
        graph = raw.get("graph")
        if isinstance(graph, dict) and not KINDS.keys() & graph.keys():
            raise ValueError(
                f"found a graph with {', '.join(map(str, graph)) or 'no keys'}; must have one of {', '.join(KINDS)}"
            )
        return {key: value for key, value in raw.items() if key not in ("size", "refresh", "sampling")}


class SequenceViews(Views):
    """Neighbours in the graph that is in force when a node wakes.

    Parameters
    ----------
    starts : sequence of float
        Times from which on the graphs are in force, ascending from 0.
    neighbors : sequence of sequence of array of int
        Out-neighbours of every node in each graph.
    fanout : int
        How many of them a node sends to at a wake, drawn at each wake; all, if it has no more.
    seed : int
    """

    def __init__(
        self, starts: Sequence[float], neighbors: Sequence[Sequence[I64]], *, fanout: int, seed: int
    ) -> None:
        self._starts = list(starts)
        self._neighbors = [[peers.tolist() for peers in graph] for graph in neighbors]
        self._fanout = fanout
        self._words = WordStreams(len(neighbors[0]), fanout, seed=seed, purpose=CHOICE)

    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return whom the node sends to at its next wake."""
        words = self._words.take(node)
        return picked(self._neighbors[bisect_right(self._starts, now) - 1][node], self._fanout, words)

    def missed(self, node: int, now: float) -> None:
        """Let a wake pass."""
        self._words.take(node)


def neighbors_in(
    graph: PlainGraph, n_nodes: int, *, seed: int, key: str, profiles: Profiles | None = None
) -> list[I64]:
    """Draw or read the run's graph and return the out-neighbours of every node.

    Raises
    ------
    ScenarioError
        If there is no such graph over so many nodes; see :func:`gossiprec.overlay.graphs.graph_of`.
    """
    return graphs.out_neighbors(graph_of(graph, n_nodes, seed=seed, key=key, profiles=profiles))


def graph_views(graph: Graph, setting: Setting, *, key: str) -> StaticViews | SequenceViews:
    """Return the views of nodes in the graph or graphs that a scenario names.

    Raises
    ------
    ScenarioError
        If there is no such graph over so many nodes.
    """
    n_nodes, seed, fanout = setting.n_nodes, setting.seed, setting.fanout
    if not isinstance(graph, GraphSequence):
        neighbors = neighbors_in(graph, n_nodes, seed=seed, key=key, profiles=setting.profiles)
        return StaticViews(neighbors, fanout=fanout, seed=seed)
    starts, drawn = graphs_of(graph, n_nodes, seed=seed, key=key, profiles=setting.profiles)
    in_each = [graphs.out_neighbors(found) for found in drawn]
    return SequenceViews(starts, in_each, fanout=fanout, seed=seed)
