"""Presence: when each node is online."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64, Bools

SLICES = 64
"""Slices of time in which a node's changes are looked for."""


class Availability:
    """Times at which nodes come and go, all known before the run.

    Parameters
    ----------
    starts_online : sequence of bool, shape (n_nodes,)
        Whether each node is online at time 0.
    changes : sequence of array of float64
        For each node the ascending times at which it goes (if it was online) or comes (if it was not), in turn. A
        change at time t is in force at t.
    """

    def __init__(self, starts_online: Sequence[bool], changes: Sequence[F64]) -> None:
        self.starts_online = np.asarray(starts_online, np.bool_)
        self.changes = [np.asarray(times, np.float64) for times in changes]
        self._starts: list[bool] = self.starts_online.tolist()
        self._times: list[list[float]] = [times.tolist() for times in self.changes]
        # Of each node, between two changes: where it was last asked about.
        self._state: list[bool] = list(self._starts)
        self._since = [0.0] * len(self._times)
        self._until = [times[0] if times else math.inf for times in self._times]
        self.always = bool(self.starts_online.all()) and not any(self._times)
        lengths = np.array([len(times) for times in self._times], np.int64)
        self._ends = np.cumsum(lengths)
        self._firsts = self._ends - lengths
        self._nodes = np.repeat(np.arange(len(lengths)), lengths)
        self._all = np.append(np.concatenate([np.zeros(0), *self.changes]), math.inf)
        self._index()

    def _index(self) -> None:
        """Note for each node and slice of time where its changes begin: finding one is then a few steps."""
        last = float(self._all[:-1].max(initial=0.0))
        self._per_time = SLICES / last if last > 0.0 else 0.0
        slices = np.minimum((self._all[:-1] * self._per_time).astype(np.int64), SLICES - 1)
        n_nodes = len(self._ends)
        if (
            self.always
        ):  # zeros that take no memory: a million nodes that never leave are no reason for 512 MB
            self._first_in: I64 = np.broadcast_to(np.int64(0), (n_nodes, SLICES))
            return
        counts = np.bincount(self._nodes * SLICES + slices, minlength=n_nodes * SLICES)
        before = np.cumsum(counts) - counts
        self._first_in = before.reshape(n_nodes, SLICES)

    @classmethod
    def forever(cls, n_nodes: int) -> Availability:
        """Return the presence of nodes that never leave."""
        return cls([True] * n_nodes, [np.zeros(0)] * n_nodes)

    def is_online(self, node: int, time: float) -> bool:
        """Return whether the node is online at a time."""
        if not self._since[node] <= time < self._until[node]:
            self._find(node, time)
        return self._state[node]

    def all_online(self, nodes: Sequence[int], time: float) -> bool:
        """Return whether all of some nodes are online at a time."""
        since, until, state = self._since, self._until, self._state
        for node in nodes:
            if not since[node] <= time < until[node]:
                self._find(node, time)
            if not state[node]:
                return False
        return True

    def next_change(self, node: int, time: float) -> float:
        """Return when the node next goes or comes after a time; inf: never."""
        if not self._since[node] <= time < self._until[node]:
            self._find(node, time)
        return self._until[node]

    def _find(self, node: int, time: float) -> None:
        """Look at the stretch between two changes of a node in which a time lies: the next question is about it too."""
        times = self._times[node]
        place = bisect_right(times, time)
        self._state[node] = self._starts[node] ^ bool(place & 1)
        self._since[node] = times[place - 1] if place else 0.0
        self._until[node] = times[place] if place < len(times) else math.inf

    def look_up(self, nodes: npt.NDArray[np.integer[Any]], times: F64) -> tuple[Bools, F64]:
        """Return whether each node is online at its time, and when it next goes or comes after it (inf: never)."""
        slices = np.minimum(times * self._per_time, SLICES - 1).astype(np.int64)
        place, end = self._first_in[nodes, slices], self._ends[nodes]
        behind = np.flatnonzero((place < end) & (self._all[place] <= times))
        while len(behind):
            place[behind] += 1
            here = place[behind]
            behind = behind[(here < end[behind]) & (self._all[here] <= times[behind])]
        online = self.starts_online[nodes] ^ ((place - self._firsts[nodes]) % 2 == 1)
        return online, np.where(place < end, self._all[place], math.inf)

    def log(self) -> tuple[F64, I64, Bools]:
        """Return all changes in the order of time: time, node, whether it is online from then on.

        At the same time nodes go before others come.
        """
        nodes, times = self._nodes, self._all[:-1]
        turn = np.arange(len(nodes)) - self._firsts[nodes]
        online = self.starts_online[nodes] ^ (turn % 2 == 0)
        order = np.lexsort((nodes, online, times))
        return times[order], nodes[order], online[order]

    def mean_online(self, end: float) -> float:
        """Return the share of the nodes that is online, on average from time 0 to `end`."""
        if self.always or end <= 0.0:
            return float(self.starts_online.mean())
        time, _, online = self.log()
        passed = np.minimum(time, end)
        steps = np.where(online, 1.0, -1.0)
        area = self.starts_online.sum() * end + float((steps * (end - passed)).sum())
        return float(area / (end * len(self.starts_online)))

    def online_at(self, time: float) -> Bools:
        """Return whether each node is online at a time, shape (n_nodes,)."""
        return np.array([self.is_online(node, time) for node in range(len(self._starts))], np.bool_)
