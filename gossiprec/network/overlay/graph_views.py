"""Views in graphs: the peers of a node are its neighbours, in a fixed graph or in a sequence of graphs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import model_validator

from gossiprec.base.arrays import I64
from gossiprec.base.options import Options
from gossiprec.network import graphs
from gossiprec.network.overlay.base import OverlayContext, Views, WordStreams, pick_distinct
from gossiprec.network.overlay.graph_options import (
    KINDS,
    Graph,
    GraphSequence,
    load_graph,
    load_graph_sequence,
)
from gossiprec.network.overlay.random_views import CHOICE


class StaticViewOptions(Options):
    """The peers of a node are its neighbours in a graph."""

    size: ClassVar[None] = None
    """None, because nodes may have different degrees."""
    graph: Graph

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_random_views(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        for key in ("size", "refresh", "sampling"):
            if raw.get(key) is not None:
                raise ValueError(
                    f"found graph and {key}, but in a fixed graph a node keeps its neighbours; remove {key} "
                    "(or set it to null), or remove graph"
                )
        graph = raw.get("graph")
        if isinstance(graph, dict) and not KINDS.keys() & graph.keys():
            raise ValueError(
                f"found a graph with {', '.join(map(str, graph)) or 'no keys'}; expected one of "
                f"{', '.join(KINDS)}"
            )
        return {key: value for key, value in raw.items() if key not in ("size", "refresh", "sampling")}


class GraphViews(Views):
    """Neighbours in the graph that is in use when a node wakes; a fixed graph is a sequence of one.

    Parameters
    ----------
    starts : sequence of float
        Times from which the graphs are used, ascending from 0.
    neighbors : sequence of sequence of array of int
        Out-neighbours of every node in each graph.
    fanout : int
        Number of neighbours, drawn per wake, that a node sends to; all if it has no more.
    seed : int
    """

    def __init__(
        self, starts: Sequence[float], neighbors: Sequence[Sequence[I64]], *, fanout: int, seed: int
    ) -> None:
        self._starts = list(starts)
        self._neighbors = [[peers.tolist() for peers in graph] for graph in neighbors]
        self._fanout = fanout
        self._words = WordStreams(len(neighbors[0]), fanout, seed=seed, purpose=CHOICE)

    def next_receivers(self, node: int, now: float = 0.0) -> Sequence[int]:
        """Return the receivers of the node's next wake."""
        words = self._words.take(node)
        return pick_distinct(self._neighbors[bisect_right(self._starts, now) - 1][node], self._fanout, words)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Skip the draws of one wake."""
        self._words.take(node)


def make_graph_views(graph: Graph, setting: OverlayContext, *, key: str) -> GraphViews:
    """Return the views of nodes in the graph or graphs that a scenario names.

    Raises
    ------
    ScenarioError
        If there is no such graph over this number of nodes.
    """
    inputs: Any = {"seed": setting.seed, "key": key, "profiles": setting.profiles}
    if isinstance(graph, GraphSequence):
        starts, drawn = load_graph_sequence(graph, setting.n_nodes, **inputs)
    else:
        starts, drawn = [0.0], [load_graph(graph, setting.n_nodes, **inputs)]
    in_each = [graphs.out_neighbors(found) for found in drawn]
    return GraphViews(starts, in_each, fanout=setting.fanout, seed=setting.seed)
