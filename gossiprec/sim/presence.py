"""Presence: when each node is online."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


class Presence:
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
        self.always = bool(self.starts_online.all()) and not any(self._times)

    @classmethod
    def forever(cls, n_nodes: int) -> Presence:
        """Return the presence of nodes that never leave."""
        return cls([True] * n_nodes, [np.zeros(0)] * n_nodes)

    def is_online(self, node: int, time: float) -> bool:
        """Return whether the node is online at a time."""
        times = self._times[node]
        return self._starts[node] ^ bool(bisect_right(times, time) & 1) if times else self._starts[node]

    def online_at(self, time: float) -> npt.NDArray[np.bool_]:
        """Return whether each node is online at a time, shape (n_nodes,)."""
        return np.array([self.is_online(node, time) for node in range(len(self._starts))], np.bool_)
