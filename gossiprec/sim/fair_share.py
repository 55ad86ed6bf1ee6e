"""Bandwidth shared fairly at both ends of every transfer."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any

import numpy as np

from gossiprec.arrays import F64, I64, Bools

FIRST_PLACES = 64


class FairShare:
    """Transfers under way, and those that are still to start.

    Parameters
    ----------
    up, down : ndarray of float64, shape (n_nodes,)
        Bytes that each node sends and receives per unit of time; inf: no limit.
    size : ndarray of float64, shape (n_nodes,)
        Bytes of what each node sends.
    compiled : bool
        Compile the loop, which pays from some ten thousand transfers on.
    """

    def __init__(self, up: F64, down: F64, size: F64, *, compiled: bool) -> None:
        from gossiprec.sim import fair_share_loop

        self._capacity = np.stack([up, down], axis=1)
        self._size = size
        self._nodes = np.zeros((len(up), 4), np.int64)
        self._nodes[:, [fair_share_loop.HEAD_UP, fair_share_loop.HEAD_DOWN]] = fair_share_loop.NONE
        self._counters = np.array([fair_share_loop.NONE, 0])
        self._transfers = np.zeros((0, 7), np.int64)
        self._amounts = np.zeros((0, 6))
        self._later = np.zeros((0, 6))
        self._starts: list[tuple[float, ...]] = []
        self._loop: Any = fair_share_loop.share_bandwidth
        self._grow(FIRST_PLACES)
        if compiled:
            from gossiprec.jit import compiled as machine_code

            self._loop = machine_code(fair_share_loop.share_bandwidth)
            self.run(-math.inf)

    def _grow(self, places: int) -> None:
        """Make room for so many transfers at a time, a power of two."""
        from gossiprec.sim import fair_share_loop as loop

        old, new = len(self._amounts), places - len(self._amounts)
        fresh = np.zeros((new, 7), np.int64)
        fresh[:, loop.NEXT_UP] = np.append(np.arange(old + 1, places), self._counters[loop.FREE])
        self._counters[loop.FREE] = old
        self._transfers = np.concatenate([self._transfers, fresh])
        self._amounts = np.concatenate([self._amounts, np.full((new, 6), math.inf)])
        self._tree = np.concatenate([np.zeros(places, np.int64), np.arange(places)])
        key = self._amounts[:, loop.KEY]
        for node in range(places - 1, 0, -1):
            one, other = self._tree[2 * node], self._tree[2 * node + 1]
            self._tree[node] = one if key[one] <= key[other] else other

    def unhindered(self, sender: Any, receiver: Any) -> Any:
        """Return how long a transfer takes that has both ends to itself."""
        return self._size[sender] / np.minimum(self._capacity[sender, 0], self._capacity[receiver, 1])

    def begin(self, time: float, ticket: int, sender: int, receiver: int, cut: float) -> None:
        """Let a transfer start at a time; it breaks off at time `cut`, when its sender goes."""
        heappush(self._starts, (time, ticket, sender, receiver, float(self._size[sender]), cut))

    @property
    def next_time(self) -> float:
        """When a transfer next starts or ends; inf: never."""
        ends = float(self._amounts[self._tree[1], -1])
        return min(ends, self._starts[0][0]) if self._starts else ends

    def step(self) -> list[tuple[int, bool]]:
        """Carry transfers on to :attr:`next_time`; return the tickets that end there, and whether they are whole."""
        limit, starts = self.next_time, []
        while self._starts and self._starts[0][0] <= limit:
            starts.append(heappop(self._starts))
        tickets, _, whole = self.run(limit, np.array(starts) if starts else None)
        return sorted(zip(tickets.tolist(), whole.tolist(), strict=True))

    def run(self, limit: float, starts: F64 | None = None) -> tuple[I64, F64, Bools]:
        """Carry transfers on up to and including a time.

        Parameters
        ----------
        limit : float
        starts : ndarray of float64, shape (n, 6), optional
            Transfers that start no later than `limit`, by time: what :meth:`begin` takes, and the bytes before the cut.

        Returns
        -------
        ticket, time, whole : ndarray
            Transfers that end, when, and whether they are whole or broken off.
        """
        from gossiprec.sim import fair_share_loop as loop

        starts = np.zeros((0, 6)) if starts is None else starts
        most = len(starts) + len(self._amounts)
        tickets, times, whole = np.empty(most, np.int64), np.empty(most), np.empty(most, np.bool_)
        self._counters[loop.FOUND] = first = 0
        while True:
            first = self._loop(
                starts, first, limit, self._capacity, self._transfers, self._amounts, self._nodes, self._tree,
                self._counters, tickets, times, whole,
            )  # fmt: skip
            if first == len(starts):
                break
            self._grow(2 * len(self._amounts))
        found = self._counters[loop.FOUND]
        return tickets[:found], times[:found], whole[:found]

    def carry(
        self, time: F64, ticket: I64, sender: I64, receiver: I64, cut: F64, limit: float
    ) -> tuple[I64, F64, Bools]:
        """Take many transfers, which may start later than `limit`, and carry all on up to it; see :meth:`run`."""
        rows = np.stack([time, ticket, sender, receiver, self._size[sender], cut], axis=1)
        rows = np.concatenate([self._later, rows])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        now = np.searchsorted(rows[:, 0], limit, side="right")
        self._later = rows[now:]
        return self.run(limit, rows[:now])
