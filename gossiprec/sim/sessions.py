"""Sessions: when nodes are online, drawn for the whole run.

Every law returns the sessions of some nodes as (who starts online, the times at which each goes and comes in turn).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64, I64, Bools
from gossiprec.rng import purpose_id, uniforms
from gossiprec.sim.laws import Law

Lives = tuple[Bools, list[F64]]

ONLINE = purpose_id("session-online")
OFFLINE = purpose_id("session-offline")
STATE = purpose_id("session-state")
LENGTH = purpose_id("session-in-progress")
PASSED = purpose_id("session-passed")
NIGHT = purpose_id("session-night")


@dataclass(frozen=True)
class Alternating:
    """A node is online for a time drawn from one law, then offline for a time drawn from another, and so on.

    Attributes
    ----------
    online, offline : Law
    stationary : bool
        Whether nodes have lived long before the run: a node is online at time 0 with the share of its life that it is
        online, and finds itself somewhere in a session. Otherwise all begin a session online at time 0.

    References
    ----------
    D. R. Cox, "Renewal theory", 1962, section 5: a session in progress is found with probability proportional to its
    length, and at a uniform place in it.
    """

    online: Law
    offline: Law
    stationary: bool

    def lives(self, nodes: I64, horizon: float, seed: int) -> Lives:
        """Return the sessions of some nodes up to a time."""
        cycle = self.online.mean + self.offline.mean
        count = 4 + int(1.25 * horizon / cycle)
        while True:
            online, times = self._times(nodes, count, seed)
            if len(nodes) == 0 or times[:, -1].min() > horizon:
                return online, [row[row <= horizon] for row in times]
            count *= 2

    def _times(self, nodes: I64, count: int, seed: int) -> tuple[Bools, F64]:
        """Return who starts online, and so many pairs of changes of every node."""
        number, at = np.arange(count), nodes[:, None]
        there = self.online.draw(seed, number, at, ONLINE)
        away = self.offline.draw(seed, number, at, OFFLINE)
        if not self.stationary:
            sessions = np.stack([there, away], axis=2).reshape(len(nodes), -1)
            return np.ones(len(nodes), np.bool_), np.cumsum(sessions, axis=1)
        share = self.online.mean / (self.online.mean + self.offline.mean)
        online = uniforms(seed, 0, nodes, STATE) < share
        level = uniforms(seed, 0, nodes, LENGTH)
        found = np.where(online, self.online.in_progress(level), self.offline.in_progress(level))
        left = found * uniforms(seed, 0, nodes, PASSED)
        pairs = np.where(
            online[:, None, None], np.stack([away, there], axis=2), np.stack([there, away], axis=2)
        )
        sessions = np.concatenate([left[:, None], pairs.reshape(len(nodes), -1)], axis=1)
        return online, np.cumsum(sessions, axis=1)


@dataclass(frozen=True)
class Periodic:
    """Every period a node is offline from one phase to another, as phones are at night.

    Attributes
    ----------
    period : float
    begin, end : float
        Phases, ``0 <= begin < end <= period``.
    jitter : float
        Each beginning and each end comes earlier or later by up to so much.
    """

    period: float
    begin: float
    end: float
    jitter: float

    def lives(self, nodes: I64, horizon: float, seed: int) -> Lives:
        """Return the sessions of some nodes up to a time."""
        number = np.arange(int(horizon / self.period) + 2)
        shifts = self.jitter * (2.0 * uniforms(seed, np.arange(2 * len(number)), nodes[:, None], NIGHT) - 1.0)
        phases = self.period * number[:, None] + [self.begin, self.end]
        times = phases.reshape(1, -1) + shifts
        passed = (times <= 0.0).sum(axis=1)
        later = [row[first:] for row, first in zip(times, passed.tolist(), strict=True)]
        return passed % 2 == 0, [row[row <= horizon] for row in later]


def within(online: bool, times: F64, begin: float, end: float) -> tuple[bool, F64]:
    """Return the sessions of a node that joins at `begin` and leaves for good at `end`."""
    inner = times[(times > begin) & (times < end)]
    there = bool(online) ^ bool(np.count_nonzero(times <= begin) % 2)
    stays = there ^ bool(len(inner) % 2)
    if begin > 0.0 and there:
        inner = np.append(begin, inner)
    if stays and np.isfinite(end):
        inner = np.append(inner, end)
    return there and begin <= 0.0, inner
