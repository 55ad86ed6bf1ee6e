"""Bandwidth that is shared fairly at both ends of every transfer."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.native.jit import jitable
from gossiprec.network.sim.transport import SHARINGS

FIRST_PLACES = 64


@SHARINGS.register("fair-share")
class FairShare:
    """Transfers in progress, and transfers that have not started yet.

    Parameters
    ----------
    up, down : ndarray of float64, shape (n_nodes,)
        Bytes that each node can send and receive per unit of time; infinite if unlimited.
    size : ndarray of float64, shape (n_nodes,)
        Size in bytes of each node's messages.
    compiled : bool
        Whether to compile the loop, which is worthwhile from about ten thousand transfers on.
    """

    def __init__(self, up: F64, down: F64, size: F64, *, compiled: bool) -> None:

        self._capacity = np.stack([up, down], axis=1)
        self._size = size
        self._nodes = np.zeros((len(up), 4), np.int64)
        self._nodes[:, [HEAD_UP, HEAD_DOWN]] = NONE
        self._counters = np.array([NONE, 0])
        self._transfers = np.zeros((0, 7), np.int64)
        self._amounts = np.zeros((0, 6))
        self._later = np.zeros((0, 6))
        self._starts: list[tuple[float, ...]] = []
        self._loop: Any = share_bandwidth
        self._grow(FIRST_PLACES)
        if compiled:
            from gossiprec.native import jit_cached as machine_code

            self._loop = machine_code(share_bandwidth)
            self.advance_until(-math.inf)

    def _grow(self, places: int) -> None:
        """Extend the arrays to `places` concurrent transfers, a power of two."""
        old, new = len(self._amounts), places - len(self._amounts)
        fresh = np.zeros((new, 7), np.int64)
        fresh[:, NEXT_UP] = np.append(np.arange(old + 1, places), self._counters[FREE])
        self._counters[FREE] = old
        self._transfers = np.concatenate([self._transfers, fresh])
        self._amounts = np.concatenate([self._amounts, np.full((new, 6), math.inf)])
        self._tree = np.concatenate([np.zeros(places, np.int64), np.arange(places)])
        key = self._amounts[:, KEY]
        for node in range(places - 1, 0, -1):
            one, other = self._tree[2 * node], self._tree[2 * node + 1]
            self._tree[node] = one if key[one] <= key[other] else other

    def unshared_duration(self, sender: Any, receiver: Any, size: int | None = None) -> Any:
        """Return the time of a transfer that shares neither end; its size is the sender's if it is not given."""
        return (self._size[sender] if size is None else size) / np.minimum(
            self._capacity[sender, 0], self._capacity[receiver, 1]
        )

    def schedule_start(
        self, time: float, ticket: int, sender: int, receiver: int, cut: float, size: int | None = None
    ) -> None:
        """Schedule the start of a transfer; it breaks off at time `cut`, when its sender goes offline."""
        load = float(self._size[sender] if size is None else size)
        heappush(self._starts, (time, ticket, sender, receiver, load, cut))

    @property
    def next_time(self) -> float:
        """Time at which a transfer next starts or ends; infinite if there is none."""
        ends = float(self._amounts[self._tree[1], -1])
        return min(ends, self._starts[0][0]) if self._starts else ends

    def step(self) -> list[tuple[int, bool]]:
        """Advance transfers to :attr:`next_time`; return the tickets that end then, and whether they completed."""
        limit, starts = self.next_time, []
        while self._starts and self._starts[0][0] <= limit:
            starts.append(heappop(self._starts))
        tickets, _, whole = self.advance_until(limit, np.array(starts) if starts else None)
        return sorted(zip(tickets.tolist(), whole.tolist(), strict=True))

    def advance_until(self, limit: float, starts: F64 | None = None) -> tuple[I64, F64, Bools]:
        """Advance transfers up to and including time `limit`.

        Parameters
        ----------
        limit : float
        starts : ndarray of float64, shape (n, 6), optional
            Transfers that start no later than `limit`, by time: the arguments of :meth:`schedule_start`, with the bytes
            before the cut.

        Returns
        -------
        ticket, time, whole : ndarray
            Transfers that end, their times, and whether they completed or broke off.
        """
        starts = np.zeros((0, 6)) if starts is None else starts
        most = len(starts) + len(self._amounts)
        tickets, times, whole = np.empty(most, np.int64), np.empty(most), np.empty(most, np.bool_)
        self._counters[FOUND] = first = 0
        while True:
            flows = FlowTables(
                self._capacity, self._transfers, self._amounts, self._nodes, self._tree, self._counters
            )
            first = self._loop(starts, first, limit, flows, EndedTransfers(tickets, times, whole))
            if first == len(starts):
                break
            self._grow(2 * len(self._amounts))
        found = self._counters[FOUND]
        return tickets[:found], times[:found], whole[:found]

    def add_and_advance(
        self, time: F64, ticket: I64, sender: I64, receiver: I64, cut: F64, limit: float
    ) -> tuple[I64, F64, Bools]:
        """Add transfers, which may start later than `limit`, and advance all up to it; see :meth:`advance_until`."""
        rows = np.stack([time, ticket, sender, receiver, self._size[sender], cut], axis=1)
        rows = np.concatenate([self._later, rows])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        now = np.searchsorted(rows[:, 0], limit, side="right")
        self._later = rows[now:]
        return self.advance_until(limit, rows[:now])


TICKET, SENDER, RECEIVER, NEXT_UP, PREV_UP, NEXT_DOWN, PREV_DOWN = range(7)
"""Columns of a transfer's integers; the links chain the transfers of a sender, and of a receiver."""
LEFT, RATE, SINCE, END, CUT, KEY = range(6)
"""Columns of a transfer's numbers: bytes left at SINCE, its end, its sender's departure, the earlier of both."""
N_UP, N_DOWN, HEAD_UP, HEAD_DOWN = range(4)
"""Columns of a node's integers."""
FREE, FOUND = range(2)
"""Counters: first free place, number of transfers ended so far."""
NONE = -1


class FlowTables(NamedTuple):
    """The tables of nodes and transfers that the loop reads and changes; `capacity` does not change."""

    capacity: Any
    transfers: Any
    amounts: Any
    nodes: Any
    tree: Any
    counters: Any


class EndedTransfers(NamedTuple):
    """The transfers that end: tickets, times, and whether each completed."""

    tickets: Any
    times: Any
    whole: Any


@jitable
def update_tournament(place, amounts, tree):
    """Update the tournament after the key of a place has changed."""
    node = (len(tree) // 2 + place) // 2
    while node >= 1:
        one, other = tree[2 * node], tree[2 * node + 1]
        winner = one if amounts[one, KEY] <= amounts[other, KEY] else other
        if winner != place and tree[node] == winner:
            return
        tree[node] = winner
        node //= 2


@jitable
def advance_transfer(place, now, capacity, transfers, amounts, nodes, tree):
    """Account for the bytes that a transfer has sent, and set its new rate."""
    sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
    left, since = amounts[place, LEFT], amounts[place, SINCE]
    if now > since:  # no product of no time and an infinite rate
        left = max(0.0, left - amounts[place, RATE] * (now - since))
    rate = min(capacity[sender, 0] / nodes[sender, N_UP], capacity[receiver, 1] / nodes[receiver, N_DOWN])
    amounts[place, LEFT], amounts[place, RATE], amounts[place, SINCE] = left, rate, now
    amounts[place, END] = now + left / rate
    amounts[place, KEY] = min(amounts[place, END], amounts[place, CUT])
    update_tournament(place, amounts, tree)


@jitable
def advance_neighbours(sender, receiver, now, capacity, transfers, amounts, nodes, tree):
    """Advance all transfers that share an end with one that starts or ends."""
    place = nodes[sender, HEAD_UP]
    while place != NONE:
        advance_transfer(place, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_UP]
    place = nodes[receiver, HEAD_DOWN]
    while place != NONE:
        advance_transfer(place, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_DOWN]


@jitable
def link_transfer(place, node, head, succ, pred, transfers, nodes):
    """Insert a transfer at the head of a node's chain."""
    first = nodes[node, head]
    transfers[place, succ], transfers[place, pred] = first, NONE
    if first != NONE:
        transfers[first, pred] = place
    nodes[node, head] = place


@jitable
def unlink_transfer(place, node, head, succ, pred, transfers, nodes):
    """Remove a transfer from a node's chain."""
    after, before = transfers[place, succ], transfers[place, pred]
    if before == NONE:
        nodes[node, head] = after
    else:
        transfers[before, succ] = after
    if after != NONE:
        transfers[after, pred] = before


@jitable
def start_transfer(row, flows):
    """Start a transfer: time, ticket, sender, receiver, bytes, time at which the sender goes offline."""
    capacity, transfers, amounts, nodes, tree, counters = flows
    place = counters[FREE]
    counters[FREE] = transfers[place, NEXT_UP]
    sender, receiver = int(row[2]), int(row[3])
    transfers[place, TICKET] = int(row[1])
    transfers[place, SENDER], transfers[place, RECEIVER] = sender, receiver
    amounts[place, LEFT], amounts[place, RATE], amounts[place, SINCE] = row[4], 0.0, row[0]
    amounts[place, CUT] = row[5]
    nodes[sender, N_UP] += 1
    nodes[receiver, N_DOWN] += 1
    link_transfer(place, sender, HEAD_UP, NEXT_UP, PREV_UP, transfers, nodes)
    link_transfer(place, receiver, HEAD_DOWN, NEXT_DOWN, PREV_DOWN, transfers, nodes)
    advance_neighbours(sender, receiver, row[0], capacity, transfers, amounts, nodes, tree)


@jitable
def end_due_transfers(now, flows, tickets, whole):
    """End all transfers that are due now, then advance their neighbours once."""
    capacity, transfers, amounts, nodes, tree, counters = flows
    ended = 0
    while amounts[tree[1], KEY] == now:
        place = tree[1]
        found = counters[FOUND]
        tickets[found] = transfers[place, TICKET]
        whole[found] = amounts[place, END] <= amounts[place, CUT]
        counters[FOUND] += 1
        sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
        nodes[sender, N_UP] -= 1
        nodes[receiver, N_DOWN] -= 1
        unlink_transfer(place, sender, HEAD_UP, NEXT_UP, PREV_UP, transfers, nodes)
        unlink_transfer(place, receiver, HEAD_DOWN, NEXT_DOWN, PREV_DOWN, transfers, nodes)
        amounts[place, KEY] = math.inf
        update_tournament(place, amounts, tree)
        transfers[place, NEXT_UP] = counters[FREE]
        counters[FREE] = place
        ended += 1
    place = counters[FREE]
    for _ in range(ended):
        sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
        advance_neighbours(sender, receiver, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_UP]


def share_bandwidth(starts, first, limit, flows, ended):
    """Advance transfers up to and including time `limit`; starts number `first` and later are still to come.

    At equal times ends come before starts. The loop returns before a start for which there is no place.

    Returns
    -------
    int
        Number of the first start that is still to come.
    """
    amounts, tree, counters = flows.amounts, flows.tree, flows.counters
    while True:
        now = amounts[tree[1], KEY]
        begin = starts[first, 0] if first < len(starts) else math.inf
        if now <= begin:
            if now > limit or now == math.inf:
                return first
            found = counters[FOUND]
            end_due_transfers(now, flows, ended.tickets, ended.whole)
            ended.times[found : counters[FOUND]] = now
        else:
            if begin > limit or counters[FREE] == NONE:
                return first
            start_transfer(starts[first], flows)
            first += 1
