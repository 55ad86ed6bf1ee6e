"""Views: whom a node may send to at each of its wakes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from gossiprec.arrays import I64, Bools
from gossiprec.overlay.base import Views
from gossiprec.overlay.healing import NOBODY, Healing
from gossiprec.overlay.picks import words_of
from gossiprec.rng import NodeStreams, distinct_below, purpose_id, uniforms
from gossiprec.sim.availability import Availability
from gossiprec.sim.clock import WakeClock

VIEW = purpose_id("view")
REFRESH = purpose_id("view-refresh")
CHOICE = purpose_id("fanout")


class Refresh(ABC):
    """When views are drawn anew."""

    @abstractmethod
    def drawn(self, first: int, count: int) -> Bools:
        """Say for wakes first .. first + count - 1 whether the view changed since the wake before, shape (n, count)."""


class PoissonRefresh(Refresh):
    """Views are refreshed on an exponential clock of their own.

    Only the last refresh before a wake can be noticed, and a Poisson process has no memory: there was one in an
    interval of length L with probability ``1 - exp(-L / mean)``. One draw per wake replaces the clock's events.
    """

    def __init__(self, clock: WakeClock, *, mean: float, seed: int) -> None:
        self._clock = clock
        self._mean = mean
        self._seed = seed

    def drawn(self, first: int, count: int) -> Bools:
        """Return whether at least one refresh fell into the interval before each wake."""
        nodes = np.array(self._clock.node_ids)[:, None]
        draws = uniforms(self._seed, np.arange(first, first + count), nodes, REFRESH)
        return draws < -np.expm1(-self._clock.intervals(first, count) / self._mean)


class PeriodicRefresh(Refresh):
    """Views are refreshed every so many wakes."""

    def __init__(self, n_nodes: int, *, every: int) -> None:
        self._n_nodes = n_nodes
        self._every = every

    def drawn(self, first: int, count: int) -> Bools:
        """Return whether the wake number is a multiple of the period."""
        due = np.arange(first, first + count) % self._every == 0
        return np.broadcast_to(due, (self._n_nodes, count))


class RandomViews(Views):
    """Uniform peer sampling: a P-out-regular graph, drawn anew node by node.

    Parameters
    ----------
    n_nodes : int
    size : int
        View size P < n_nodes. A view is P distinct other nodes.
    fanout : int
        How many of its view a node sends to at a wake: all, or that many drawn at each wake.
    refresh : Refresh
    seed : int
    availability : Availability, optional
        If given, views heal: a peer that is away at the wake gives its place to a random node that is there.
    clock : WakeClock, optional
        If given, nodes are asked when it rings and at no other time: views of many wakes heal at once.
    """

    def __init__(
        self,
        n_nodes: int,
        *,
        size: int,
        fanout: int,
        refresh: Refresh,
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
            self._healing = Healing(n_nodes, availability=availability, seed=seed)
        self._clock = clock
        self._last_drawn = np.zeros(n_nodes, np.int64)
        self._last_ring = np.zeros(n_nodes)
        self._streams = NodeStreams(n_nodes, self._receivers)
        self._rows: dict[int, list[int]] = {}  # a node's receivers, view and candidates at its last wake

    def next_receivers(self, node: int, now: float = 0.0) -> Sequence[int]:
        """Return whom the node sends to at its next wake."""
        row: list[int] = self._streams.take(node)
        if self._healing is None:
            return row
        if self._clock is not None:
            return row if row[-1] != NOBODY else [peer for peer in row if peer != NOBODY]
        self._rows[node] = row
        return self.healed(node, row[: self._fanout], now)

    def healed(self, node: int, peers: Sequence[int], now: float) -> Sequence[int]:
        """Return peers of the node's last wake with those replaced that are away; fewer, if not enough are there."""
        if self._healing is None:
            return peers
        row, end = self._rows[node], self._fanout + self._size
        return self._healing.healed(node, peers, row[self._fanout : end], row[end:], now)

    def missed(self, node: int, now: float) -> None:
        """Let a wake pass."""
        self._streams.take(node)

    def _receivers(self, first: int, count: int) -> I64:
        wakes = np.arange(first, first + count)
        drawn = np.where(self._refresh.drawn(first, count), wakes, -1)
        drawn[:, 0] = np.maximum(drawn[:, 0], self._last_drawn)
        drawn = np.maximum.accumulate(drawn, axis=1)
        self._last_drawn = drawn[:, -1]
        words = words_of(self._size, drawn, self._nodes, seed=self._seed, purpose=VIEW)
        peers = distinct_below(words, len(self._nodes) - 1)
        peers += peers >= self._nodes[:, None, None]
        receivers = chosen(peers, wakes, self._nodes, fanout=self._fanout, seed=self._seed)
        if self._healing is None:
            return receivers
        if self._clock is None:
            others = self._healing.candidates(self._nodes, drawn)
            return np.concatenate([receivers, peers, others], axis=-1)
        times = self._clock.intervals(first, count)
        times[:, 0] += self._last_ring
        times = np.add.accumulate(times, axis=1)  # to the bit, as the engine adds
        self._last_ring = times[:, -1]
        return self._healing.heal(receivers, peers, drawn, times)


def chosen(peers: I64, wakes: I64, nodes: I64, *, fanout: int, seed: int) -> I64:
    """Return `fanout` of the peers at each wake, uniform without repetition; all of them if there are no more.

    Parameters
    ----------
    peers : ndarray of int64, shape (n_nodes, n_wakes, n_peers)
    """
    n_peers = peers.shape[-1]
    if n_peers <= fanout:
        return peers
    words = words_of(fanout, np.broadcast_to(wakes, peers.shape[:2]), nodes, seed=seed, purpose=CHOICE)
    return np.take_along_axis(peers, distinct_below(words, n_peers), axis=-1)
