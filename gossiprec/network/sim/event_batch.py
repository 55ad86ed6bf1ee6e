"""Batches of events: a segment of time in which the clocks run first, then all deliveries.

This is possible if deliveries cause no sends: what nodes do on their wakes does not depend on what has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.network.sim.network import ARRIVED
from gossiprec.network.sim.transport import MessageOutcomes, Transport

WAKE, DELIVER, DROP = range(3)


@dataclass(frozen=True)
class EventBatch:
    """Events in order, as columns.

    Attributes
    ----------
    kind, node, message, count : ndarray of int32, shape (n_events,)
        As in the event log: wake (0), delivery (1) or drop (2); the node that woke, or the receiver; the
        message, -1 for wakes; the number of messages that the wake sent.
    time, ready : ndarray of float64, shape (n_events,)
        Time of the event, and time at which the messages that it caused leave.
    cause : ndarray of int32, shape (n_events,)
        Cause of a drop; ``ARRIVED`` for other events.
    queued : ndarray of float64, shape (n_events,)
        Queueing time of a delivery.
    receiver : ndarray of int32, shape (n_messages,)
    """

    kind: I32
    node: I32
    message: I32
    count: I32
    time: F64
    ready: F64
    cause: I32
    queued: F64
    receiver: I32


class EventBatchBuilder:
    """The wakes since the last cut."""

    def __init__(self) -> None:
        self._n_messages = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []  # node, rank, rank of its first message, count
        self._times: list[float] = []
        self._ready: list[float] = []
        self._receivers: list[int] = []

    def wake(self, time: float, node: int, rank: int, first_rank: int, receivers: Sequence[int]) -> None:
        """Add one wake and its messages, the first of which has rank `first_rank`."""
        self._rows += (node, rank, first_rank, len(receivers))
        self._times.append(time)
        self._receivers += receivers

    def ready(self, time: float) -> None:
        """Add the time at which the last wake's work is done; call it for every wake or for none."""
        self._ready.append(time)

    def cut(self, transport: Transport, until: float, over: tuple[float, int] | None) -> EventBatch:
        """Return all events since the last cut and before `until`.

        Parameters
        ----------
        over : (float, int) or None
            Time and rank of the last ring of any clock, or None if it has not rung yet.
        """
        node, rank, first_rank, count = np.array(self._rows, np.int64).reshape(-1, 4).T
        time = np.array(self._times)
        ready = np.array(self._ready) if self._ready else time
        receiver = np.array(self._receivers, np.int64)
        wake = np.repeat(np.arange(len(node)), count)
        within = np.arange(len(wake)) - np.repeat(np.cumsum(count) - count, count)
        none = np.zeros(len(wake), np.int64)
        sent = MessageOutcomes(
            time=ready[wake],
            rank=first_rank[wake] + within,
            message=self._n_messages + np.arange(len(wake)),
            sender=node[wake],
            receiver=receiver,
            cause=none,
            queued=np.zeros(len(wake)),
            settled=ready[wake],
        )
        # Losses at sending are known before anything else happens: they take the place of the wake.
        found = transport.carry(sent, np.where(ready == time, rank, -1)[wake], until, over)
        self._n_messages += len(wake)
        self._clear()
        return _merged(node, rank, count, time, ready, found, receiver)


def _merged(
    node: I64, rank: I64, count: I64, time: F64, ready: F64, found: MessageOutcomes, receiver: I64
) -> EventBatch:
    """Return wakes and message outcomes in order; wakes come before outcomes at the same place."""
    when, n_wakes = np.concatenate([time, found.time]), len(node)
    order = np.lexsort((np.concatenate([rank, found.rank]), when))
    wakes, messages = np.zeros(n_wakes, np.int32), np.zeros(len(found), np.int32)

    def column(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> I32:
        return np.concatenate([first, second]).astype(np.int32)[order]

    return EventBatch(
        kind=column(wakes + WAKE, np.where(found.cause == ARRIVED, DELIVER, DROP)),
        node=column(node, found.receiver),
        message=column(wakes - 1, found.message),
        count=column(count, messages),
        time=when[order],
        ready=np.concatenate([ready, found.time])[order],
        cause=column(wakes + ARRIVED, found.cause),
        queued=np.concatenate([wakes, np.where(found.cause == ARRIVED, found.queued, 0.0)])[order],
        receiver=receiver.astype(np.int32),
    )
