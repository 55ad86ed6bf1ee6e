"""Availability: the times at which each node is online."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.network.sim.clock import Distribution

SLICES = 64
"""Number of slices of time in which a node's changes are indexed."""


class Availability:
    """Times at which nodes go offline and come online, all known before the run.

    Parameters
    ----------
    starts_online : sequence of bool, shape (n_nodes,)
        Whether each node is online at time 0.
    changes : sequence of array of float64
        For each node the ascending times at which it goes offline (if it was online) or comes online (if it was not),
        in turn. A change at time t holds from t on.
    """

    def __init__(self, starts_online: Sequence[bool], changes: Sequence[F64]) -> None:
        self.starts_online = np.asarray(starts_online, np.bool_)
        self.changes = [np.asarray(times, np.float64) for times in changes]
        self._starts: list[bool] = self.starts_online.tolist()
        self._times: list[list[float]] = [times.tolist() for times in self.changes]
        # The latest query of each node: the segment between two changes that it was in.
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
        """Index, for each node and slice of time, its first change, so that a look-up takes only a few steps."""
        last = float(self._all[:-1].max(initial=0.0))
        self._per_time = SLICES / last if last > 0.0 else 0.0
        slices = np.minimum((self._all[:-1] * self._per_time).astype(np.int64), SLICES - 1)
        n_nodes = len(self._ends)
        if self.always:  # zeros without memory: a million nodes that never leave would take 512 MB
            self._first_in: I64 = np.broadcast_to(np.int64(0), (n_nodes, SLICES))
            return
        counts = np.bincount(self._nodes * SLICES + slices, minlength=n_nodes * SLICES)
        before = np.cumsum(counts) - counts
        self._first_in = before.reshape(n_nodes, SLICES)

    @classmethod
    def always_online(cls, n_nodes: int) -> Availability:
        """Return the availability of nodes that are always online."""
        return cls([True] * n_nodes, [np.zeros(0)] * n_nodes)

    def is_online(self, node: int, time: float) -> bool:
        """Return whether the node is online at the given time."""
        if not self._since[node] <= time < self._until[node]:
            self._find(node, time)
        return self._state[node]

    def all_online(self, nodes: Sequence[int], time: float) -> bool:
        """Return whether all of some nodes are online at the given time."""
        since, until, state = self._since, self._until, self._state
        for node in nodes:
            if not since[node] <= time < until[node]:
                self._find(node, time)
            if not state[node]:
                return False
        return True

    def next_change(self, node: int, time: float) -> float:
        """Return the time of the node's next change after a given time; infinite if there is none."""
        if not self._since[node] <= time < self._until[node]:
            self._find(node, time)
        return self._until[node]

    def _find(self, node: int, time: float) -> None:
        """Find the segment between two changes of a node that contains the given time.

        The next query is likely in the same segment.
        """
        times = self._times[node]
        place = bisect_right(times, time)
        self._state[node] = self._starts[node] ^ bool(place & 1)
        self._since[node] = times[place - 1] if place else 0.0
        self._until[node] = times[place] if place < len(times) else math.inf

    def status_and_next_change(self, nodes: npt.NDArray[np.integer[Any]], times: F64) -> tuple[Bools, F64]:
        """Return whether each node is online at its time, and the time of its next change (infinite if none)."""
        slices = np.minimum(times * self._per_time, SLICES - 1).astype(np.int64)
        place, end = self._first_in[nodes, slices], self._ends[nodes]
        behind = np.flatnonzero((place < end) & (self._all[place] <= times))
        while len(behind):
            place[behind] += 1
            here = place[behind]
            behind = behind[(here < end[behind]) & (self._all[here] <= times[behind])]
        online = self.starts_online[nodes] ^ ((place - self._firsts[nodes]) % 2 == 1)
        return online, np.where(place < end, self._all[place], math.inf)

    def all_changes(self) -> tuple[F64, I64, Bools]:
        """Return all changes in order of time: time, node, whether it is online from then on.

        At equal times nodes go offline before others come online.
        """
        nodes, times = self._nodes, self._all[:-1]
        turn = np.arange(len(nodes)) - self._firsts[nodes]
        online = self.starts_online[nodes] ^ (turn % 2 == 0)
        order = np.lexsort((nodes, online, times))
        return times[order], nodes[order], online[order]

    def mean_online(self, end: float) -> float:
        """Return the mean share of nodes that are online from time 0 to `end`."""
        if self.always or end <= 0.0:
            return float(self.starts_online.mean())
        time, _, online = self.all_changes()
        passed = np.minimum(time, end)
        steps = np.where(online, 1.0, -1.0)
        area = self.starts_online.sum() * end + float((steps * (end - passed)).sum())
        return float(area / (end * len(self.starts_online)))

    def online_at(self, time: float) -> Bools:
        """Return whether each node is online at the given time, shape (n_nodes,)."""
        return np.array([self.is_online(node, time) for node in range(len(self._starts))], np.bool_)


Lives = tuple[Bools, list[F64]]

ONLINE = purpose_id("session-online")
OFFLINE = purpose_id("session-offline")
STATE = purpose_id("session-state")
LENGTH = purpose_id("session-in-progress")
PASSED = purpose_id("session-passed")
NIGHT = purpose_id("session-night")


@dataclass(frozen=True)
class AlternatingAvailability:
    """Alternating online and offline periods, each drawn from its own distribution.

    Attributes
    ----------
    online, offline : Distribution
    stationary : bool
        Whether nodes start in the stationary state: a node is online at time 0 with the probability that it is online
        in the long run, and somewhere in the middle of a session. Otherwise all nodes begin an online session at time
        0.

    References
    ----------
    D. R. Cox, "Renewal theory", 1962, section 5: a session in progress is sampled with probability proportional to
    its length, and at a uniform place in it.
    """

    online: Distribution
    offline: Distribution
    stationary: bool

    def draw_sessions(self, nodes: I64, horizon: float, seed: int) -> Lives:
        """Return the sessions of some nodes up to the horizon."""
        cycle = self.online.mean + self.offline.mean
        count = 4 + int(1.25 * horizon / cycle)
        while True:
            online, times = self._times(nodes, count, seed)
            if len(nodes) == 0 or times[:, -1].min() > horizon:
                return online, [row[row <= horizon] for row in times]
            count *= 2

    def _times(self, nodes: I64, count: int, seed: int) -> tuple[Bools, F64]:
        """Return whether each node starts online, and the times of `count` pairs of changes of every node."""
        number, at = np.arange(count), nodes[:, None]
        there = self.online.draw(seed, number, at, ONLINE)
        away = self.offline.draw(seed, number, at, OFFLINE)
        if not self.stationary:
            sessions = np.stack([there, away], axis=2).reshape(len(nodes), -1)
            return np.ones(len(nodes), np.bool_), np.cumsum(sessions, axis=1)
        share = self.online.mean / (self.online.mean + self.offline.mean)
        online = uniforms(seed, 0, nodes, STATE) < share
        level = uniforms(seed, 0, nodes, LENGTH)
        found = np.where(
            online, self.online.length_biased_quantiles(level), self.offline.length_biased_quantiles(level)
        )
        left = found * uniforms(seed, 0, nodes, PASSED)
        pairs = np.where(
            online[:, None, None], np.stack([away, there], axis=2), np.stack([there, away], axis=2)
        )
        sessions = np.concatenate([left[:, None], pairs.reshape(len(nodes), -1)], axis=1)
        return online, np.cumsum(sessions, axis=1)


@dataclass(frozen=True)
class PeriodicAvailability:
    """A node is offline from one phase to another of every period, like phones at night.

    Attributes
    ----------
    period : float
    begin, end : float
        Phases, ``0 <= begin < end <= period``.
    jitter : float
        Each beginning and each end is shifted by up to this time in either direction.
    """

    period: float
    begin: float
    end: float
    jitter: float

    def draw_sessions(self, nodes: I64, horizon: float, seed: int) -> Lives:
        """Return the sessions of some nodes up to the horizon."""
        number = np.arange(int(horizon / self.period) + 2)
        shifts = self.jitter * (2.0 * uniforms(seed, np.arange(2 * len(number)), nodes[:, None], NIGHT) - 1.0)
        phases = self.period * number[:, None] + [self.begin, self.end]
        times = phases.reshape(1, -1) + shifts
        passed = (times <= 0.0).sum(axis=1)
        later = [row[first:] for row, first in zip(times, passed.tolist(), strict=True)]
        return passed % 2 == 0, [row[row <= horizon] for row in later]


def clip_sessions(online: bool, times: F64, begin: float, end: float) -> tuple[bool, F64]:
    """Return the sessions of a node that joins at `begin` and leaves permanently at `end`."""
    inner = times[(times > begin) & (times < end)]
    there = bool(online) ^ bool(np.count_nonzero(times <= begin) % 2)
    stays = there ^ bool(len(inner) % 2)
    if begin > 0.0 and there:
        inner = np.append(begin, inner)
    if stays and np.isfinite(end):
        inner = np.append(inner, end)
    return there and begin <= 0.0, inner


def repeat_sessions(online: bool, times: F64, span: float, horizon: float) -> tuple[bool, F64]:
    """Return the sessions of a node that are repeated after every span, up to the horizon."""
    times = times[times < span]
    if len(times) % 2:
        times = np.append(times, span)  # back to the first state
    rounds = np.arange(int(horizon / span) + 1) * span
    whole = (rounds[:, None] + times).ravel()
    return online, whole[whole <= horizon]
