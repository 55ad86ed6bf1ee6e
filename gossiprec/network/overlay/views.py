"""Views that need no messages: random ones, which are drawn again from time to time, and neighbours in graphs.

Random views may replace offline peers. The graph is fixed, or follows a sequence of graphs.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import model_validator

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.options import Options
from gossiprec.base.rng import NodeStreams, distinct_below, purpose_id, uniforms
from gossiprec.network import graphs
from gossiprec.network.overlay import OverlayContext, Views, WordStreams, pick_distinct, wake_words
from gossiprec.network.overlay.graph_options import (
    KINDS,
    Graph,
    GraphSequence,
    links_follow_data,
    load_graph_sequence,
    load_placed_graph,
)
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import WakeClock

HEAL = purpose_id("view-healing")

CANDIDATES = 12
"""Number of nodes drawn with a view as replacements of offline peers."""

NO_NODE = -1


class ViewHealer:
    """Replacement of offline peers in views.

    Parameters
    ----------
    n_nodes : int
    availability : Availability
    seed : int
    """

    def __init__(self, n_nodes: int, *, availability: Availability, seed: int) -> None:
        self._n_nodes = n_nodes
        self._availability = availability
        self._seed = seed

    def candidates(self, nodes: I64, drawn: I64) -> I64:
        """Return the nodes that may replace peers, in the order in which they are tried.

        Parameters
        ----------
        nodes : ndarray of int64, shape (n,)
        drawn : ndarray of int64, shape (n, n_wakes)
            The wakes at which the views were drawn.

        Returns
        -------
        ndarray of int64, shape (n, n_wakes, CANDIDATES)
            Never the node itself; a node may occur twice.
        """
        words = wake_words(CANDIDATES, drawn, nodes, seed=self._seed, purpose=HEAL)
        others = (words.astype(np.uint64) * np.uint64(self._n_nodes - 1) >> np.uint64(32)).astype(np.int64)
        others += others >= nodes[:, None, None]
        return others

    def replace_offline_peers(
        self, node: int, peers: Sequence[int], view: Sequence[int], candidates: Sequence[int], now: float
    ) -> Sequence[int]:
        """Return the peers, with offline ones replaced; fewer if there are not enough online nodes.

        Parameters
        ----------
        node : int
        peers : sequence of int
        view : sequence of int
            Further nodes that cannot be replacements.
        candidates : sequence of int
        now : float
        """
        is_online = self._availability.is_online
        if self._availability.all_online(peers, now):
            return peers
        known = {node, *peers, *view}
        others = itertools.chain(candidates, self._others(candidates[-1], known, now))
        found = []
        for peer in peers:
            if is_online(peer, now):
                found.append(peer)
                continue
            for other in others:
                if other not in known and is_online(other, now):
                    known.add(other)
                    found.append(other)
                    break
        return found

    def _others(self, draw: int, known: set[int], now: float) -> Iterator[int]:
        """Yield all online nodes that are not known, from a drawn place on, after the candidates are used up."""
        online = np.flatnonzero(self._availability.online_at(now)[: self._n_nodes])
        others = [peer for peer in online.tolist() if peer not in known]
        first = draw % max(1, len(others))
        yield from [*others[first:], *others[:first]]

    def replace_offline_receivers(self, receivers: I64, views: I64, drawn: I64, times: F64) -> I64:
        """Return the receivers, with those replaced that are offline when their online sender wakes.

        Parameters
        ----------
        receivers : ndarray of int64, shape (n_nodes, n_wakes, n_receivers)
            Members of the views.
        views : ndarray of int64, shape (n_nodes, n_wakes, size)
        drawn : ndarray of int64, shape (n_nodes, n_wakes)
            The wakes at which the views were drawn.
        times : ndarray of float64, shape (n_nodes, n_wakes)
            Times of the wakes.

        Returns
        -------
        ndarray of int64, shape (n_nodes, n_wakes, n_receivers)
            Rows that cannot be filled end with `NO_NODE`.
        """
        nodes = np.broadcast_to(np.arange(self._n_nodes)[:, None], times.shape)
        away = ~self._online(receivers, np.broadcast_to(times[..., None], receivers.shape))
        node, wake = np.nonzero(away.any(axis=-1) & self._online(nodes, times))
        rows, view, time = receivers[node, wake], views[node, wake], times[node, wake]
        rows[away[node, wake]] = NO_NODE
        candidates = self.candidates(node, drawn[node, wake][:, None])[:, 0]
        short = np.arange(len(node))  # rows with places to fill
        for other in candidates.T:
            some = other[short]
            fits = self._online(some, time[short])
            fits &= (view[short] != some[:, None]).all(axis=1) & (rows[short] != some[:, None]).all(axis=1)
            filled = short[fits]
            rows[filled, np.argmax(rows[filled] == NO_NODE, axis=1)] = some[fits]
            short = short[(rows[short] == NO_NODE).any(axis=1)]
        for place in short.tolist():
            peers = receivers[node[place], wake[place]].tolist()
            known, tried = view[place].tolist(), candidates[place].tolist()
            found = self.replace_offline_peers(int(node[place]), peers, known, tried, float(time[place]))
            rows[place] = NO_NODE
            rows[place, : len(found)] = found
        healed = receivers.copy()
        healed[node, wake] = rows
        return healed

    def _online(self, nodes: I64, times: F64) -> Bools:
        online, _ = self._availability.status_and_next_change(nodes.ravel(), times.ravel())
        return online.reshape(nodes.shape)


VIEW = purpose_id("view")
REFRESH = purpose_id("view-refresh")
CHOICE = purpose_id("fanout")


class RefreshSchedule(ABC):
    """A schedule of the redrawing of views."""

    @abstractmethod
    def are_redrawn(self, first: int, count: int) -> Bools:
        """Return whether each wake's view differs from the wake before, for wakes first .. first + count - 1."""


class PoissonRefresh(RefreshSchedule):
    """Views are redrawn by an exponential clock of their own.

    Only the last refresh before each wake matters, and a Poisson process has no memory: there was one in an interval of
    length L with probability ``1 - exp(-L / mean)``. One draw per wake replaces the clock's events.
    """

    def __init__(self, clock: WakeClock, *, mean: float, seed: int) -> None:
        self._clock = clock
        self._mean = mean
        self._seed = seed

    def are_redrawn(self, first: int, count: int) -> Bools:
        """Return whether at least one refresh fell into the interval before each wake."""
        nodes = np.array(self._clock.node_ids)[:, None]
        draws = uniforms(self._seed, np.arange(first, first + count), nodes, REFRESH)
        return draws < -np.expm1(-self._clock.intervals(first, count) / self._mean)


class PeriodicRefresh(RefreshSchedule):
    """Views are redrawn every `every` wakes."""

    def __init__(self, n_nodes: int, *, every: int) -> None:
        self._n_nodes = n_nodes
        self._every = every

    def are_redrawn(self, first: int, count: int) -> Bools:
        """Return whether the wake number is a multiple of the period."""
        due = np.arange(first, first + count) % self._every == 0
        return np.broadcast_to(due, (self._n_nodes, count))


class RandomViews(Views):
    """Uniform peer sampling: a P-out-regular graph, redrawn node by node.

    Parameters
    ----------
    n_nodes : int
    size : int
        View size P < n_nodes. A view is P distinct other nodes.
    fanout : int
        Number of peers of its view that a node sends to per wake: all, or this number drawn at each wake.
    refresh : RefreshSchedule
    seed : int
    availability : Availability, optional
        If given, views heal: a peer that is offline at the wake is replaced by a random online node.
    clock : WakeClock, optional
        If given, nodes are queried only when it rings: views of many wakes heal in one call.
    """

    def __init__(
        self,
        n_nodes: int,
        *,
        size: int,
        fanout: int,
        refresh: RefreshSchedule,
        seed: int,
        availability: Availability | None = None,
        clock: WakeClock | None = None,
    ) -> None:
        self._nodes = np.arange(n_nodes)
        self._size = size
        self._fanout = min(fanout, size)
        self._refresh = refresh
        self._seed = seed
        self._healing = None
        if availability is not None and not availability.always:
            self._healing = ViewHealer(n_nodes, availability=availability, seed=seed)
        self._clock = clock
        self._last_drawn = np.zeros(n_nodes, np.int64)
        self._last_ring = np.zeros(n_nodes)
        self._streams = NodeStreams(n_nodes, self._receivers)
        self._rows: dict[int, list[int]] = {}  # a node's receivers, view and candidates at its last wake

    def next_receivers(self, node: int, now: float = 0.0) -> Sequence[int]:
        """Return the receivers of the node's next wake."""
        row: list[int] = self._streams.next_draw(node)
        if self._healing is None:
            return row
        if self._clock is not None:
            return row if row[-1] != NO_NODE else [peer for peer in row if peer != NO_NODE]
        self._rows[node] = row
        return self.replace_offline_peers(node, row[: self._fanout], now)

    def replace_offline_peers(self, node: int, peers: Sequence[int], now: float) -> Sequence[int]:
        """Return peers of the node's last wake, with offline ones replaced; fewer if there are not enough."""
        if self._healing is None:
            return peers
        row, end = self._rows[node], self._fanout + self._size
        return self._healing.replace_offline_peers(node, peers, row[self._fanout : end], row[end:], now)

    def _receivers(self, first: int, count: int) -> I64:
        wakes = np.arange(first, first + count)
        drawn = np.where(self._refresh.are_redrawn(first, count), wakes, -1)
        drawn[:, 0] = np.maximum(drawn[:, 0], self._last_drawn)
        drawn = np.maximum.accumulate(drawn, axis=1)
        self._last_drawn = drawn[:, -1]
        words = wake_words(self._size, drawn, self._nodes, seed=self._seed, purpose=VIEW)
        peers = distinct_below(words, len(self._nodes) - 1)
        peers += peers >= self._nodes[:, None, None]
        receivers = choose_receivers(peers, wakes, self._nodes, fanout=self._fanout, seed=self._seed)
        if self._healing is None:
            return receivers
        if self._clock is None:
            others = self._healing.candidates(self._nodes, drawn)
            return np.concatenate([receivers, peers, others], axis=-1)
        times = self._clock.intervals(first, count)
        times[:, 0] += self._last_ring
        times = np.add.accumulate(times, axis=1)  # bit-identical: the engine adds in this order
        self._last_ring = times[:, -1]
        return self._healing.replace_offline_receivers(receivers, peers, drawn, times)


def choose_receivers(peers: I64, wakes: I64, nodes: I64, *, fanout: int, seed: int) -> I64:
    """Return `fanout` of the peers at each wake, uniform without repetition; all of them if there are no more.

    Parameters
    ----------
    peers : ndarray of int64, shape (n_nodes, n_wakes, n_peers)
    """
    n_peers = peers.shape[-1]
    if n_peers <= fanout:
        return peers
    words = wake_words(fanout, np.broadcast_to(wakes, peers.shape[:2]), nodes, seed=seed, purpose=CHOICE)
    return np.take_along_axis(peers, distinct_below(words, n_peers), axis=-1)


class NeighborOptions(Options):
    """The peers of a node are given from outside: by a graph, or by a trace of contacts."""

    size: ClassVar[None] = None
    """None, because nodes may have different numbers of peers."""
    given_by: ClassVar[tuple[str, str]]
    """The key that gives the peers, and the reason why nothing else can."""

    @property
    def follows_data(self) -> bool:
        """Whether peers depend on the users' items."""
        return False

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_random_views(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        given, reason = cls.given_by
        for key in ("size", "refresh", "sampling"):
            if raw.get(key) is not None:
                raise ValueError(
                    f"found {given} and {key}, but {reason}; remove {key} (or set it to null), or remove {given}"
                )
        return {key: value for key, value in raw.items() if key not in ("size", "refresh", "sampling")}


class StaticViewOptions(NeighborOptions):
    """The peers of a node are its neighbours in a graph."""

    given_by = ("graph", "in a fixed graph a node keeps its neighbours")
    graph: Graph

    @property
    def follows_data(self) -> bool:
        """Whether nodes are linked by taste or place."""
        return links_follow_data(self.graph)

    @property
    def is_fixed_graph(self) -> bool:
        """Whether the graph is the same for the whole run."""
        return not isinstance(self.graph, GraphSequence)

    @model_validator(mode="before")
    @classmethod
    def _known_kind(cls, raw: Any) -> Any:
        graph = raw.get("graph") if isinstance(raw, dict) else None
        if isinstance(graph, dict) and not KINDS.keys() & graph.keys():
            raise ValueError(
                f"found a graph with {', '.join(map(str, graph)) or 'no keys'}; expected one of "
                f"{', '.join(KINDS)}"
            )
        return raw


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
        self._streams = WordStreams(len(neighbors[0]), fanout, seed=seed, purpose=CHOICE)

    @property
    def fixed_neighbors(self) -> list[list[int]] | None:
        """The out-neighbours of every node, if the graph is the same for the whole run."""
        return self._neighbors[0] if len(self._neighbors) == 1 else None

    @property
    def fixed_receivers(self) -> list[list[int]] | None:
        """The receivers of every node, if they are the same at every wake."""
        fixed = self.fixed_neighbors
        return fixed if fixed and max(map(len, fixed)) <= self._fanout else None

    def next_receivers(self, node: int, now: float = 0.0) -> Sequence[int]:
        """Return the receivers of the node's next wake."""
        words = self._streams.next_draw(node)
        return pick_distinct(self._neighbors[bisect_right(self._starts, now) - 1][node], self._fanout, words)


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
        starts, drawn = [0.0], [load_placed_graph(graph, setting.n_nodes, setting.poisoners, **inputs)]
    in_each = [graphs.out_neighbors(found) for found in drawn]
    return GraphViews(starts, in_each, fanout=setting.fanout, seed=setting.seed)
