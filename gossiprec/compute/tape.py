"""The tape: what the control plane hands to the data plane, as plain integers.

One row is one event. The control plane appends; it never sees a tensor. What an event *does* to models is said once
per run by :class:`Behaviour`, so the tape stays three integers a wake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


class Event(IntEnum):
    """Kinds of tape rows."""

    WAKE = 0
    """A node woke; it sent `count` messages."""
    DELIVER = 1
    """A message arrived; its receiver sent `count` messages."""
    DROP = 2
    """A message was lost on its way."""


class Op(IntEnum):
    """What a node does with models, in the order a behaviour lists it."""

    NOTHING = 0
    TRAIN = 1
    """Run a local update."""
    PUSH = 2
    """Snapshot the node's version and send it in the event's messages."""
    BLEND = 3
    """Merge the received version by weights: own / (own + sender's)."""
    ADOPT = 4
    """Take the received version; the own user row stays."""
    POOL = 5
    """Average, by the senders' weights, what has arrived since the node's last push."""
    APPRAISE = 6
    """Merge the received version by how well it and the own one do on the node's validation items."""
    MIX = 7
    """Give the version of the node's last push its share of what has been pooled since (:attr:`Behaviour.mixing`)."""


@dataclass(frozen=True)
class Behaviour:
    """What the nodes of one role do on a wake and on a receive.

    Attributes
    ----------
    on_wake, on_receive : tuple of Op
    mixing : float
        For `Op.MIX`: the share, above 0 and to 1, of fully weighted answers in the new version. With weights w and
        factors s (:attr:`Segment.factor`) it is ``mixing * sum(w s) / sum(w)``; the pushed version keeps the rest.
    """

    on_wake: tuple[Op, ...]
    on_receive: tuple[Op, ...]
    mixing: float = 1.0


@dataclass(frozen=True)
class Segment:
    """A stretch of tape.

    Attributes
    ----------
    kind, node, message, count : ndarray of int32, shape (n_events,)
        `node` woke or is the receiver; `message` is the one that arrived or was lost, -1 for a wake; `count` is how
        many messages the node sent in answer.
    time : ndarray of float64, shape (n_events,)
    factor : ndarray of float64, shape (n_events,) or (0,)
        By what the sender's weight is multiplied in the merge of each delivery, from 0 (it is seen, and changes
        nothing) to 1; without elements where all are 1.
    sender, receiver : ndarray of int32, shape (n_messages,)
        The messages sent in this stretch, in order; their ids continue from `first_message`.
    """

    kind: I32
    node: I32
    message: I32
    count: I32
    time: F64
    factor: F64
    sender: I32
    receiver: I32
    first_message: int

    @property
    def sent_at(self) -> F64:
        """Virtual time at which each message was sent, shape (n_messages,)."""
        return np.repeat(self.time, self.count)


def joined(stretches: Sequence[Segment]) -> Segment:
    """Return consecutive stretches of tape as one."""

    def all_of(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(stretch, name) for stretch in stretches])

    def factors(stretch: Segment) -> F64:
        return stretch.factor if len(stretch.factor) else np.ones(len(stretch.kind))

    weighted = any(len(stretch.factor) for stretch in stretches)
    return Segment(
        **{name: all_of(name) for name in ("kind", "node", "message", "count", "time", "sender", "receiver")},
        factor=np.concatenate([factors(stretch) for stretch in stretches]) if weighted else np.zeros(0),
        first_message=stretches[0].first_message,
    )


class Tape:
    """A growing tape, cut into segments as it is consumed."""

    def __init__(self) -> None:
        self.n_messages = 0
        self._first_message = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []  # four of each event; lists grow several times faster than arrays
        self._times: list[float] = []
        self._receivers: list[int] = []
        self._factors: dict[int, float] = {}  # by event; 1 for those that are not there

    def wake(self, time: float, node: int, receivers: Sequence[int]) -> None:
        """Append a wake of `node`, which sends one message to each of `receivers`."""
        count = len(receivers)
        self._rows += (0, node, -1, count)
        self._times.append(time)
        self._receivers += receivers
        self.n_messages += count

    def weigh(self, factor: float) -> None:
        """Multiply the weight of the delivery that was appended last."""
        self._factors[len(self._times) - 1] = factor

    def deliver(self, time: float, receiver: int, message: int, receivers: Sequence[int] = ()) -> None:
        """Append the arrival of `message` at `receiver`, which sends one message to each of `receivers`."""
        self._rows += (1, receiver, message, len(receivers))
        self._times.append(time)
        self._receivers += receivers
        self.n_messages += len(receivers)

    def drop(self, time: float, receiver: int, message: int) -> None:
        """Append the loss of `message` on its way to `receiver`."""
        self._rows += (2, receiver, message, 0)
        self._times.append(time)

    def cut(self) -> Segment:
        """Return everything since the last cut."""
        kind, node, message, count = np.array(self._rows, np.int32).reshape(-1, 4).T.copy()
        factor = np.ones(len(kind) if self._factors else 0)
        factor[list(self._factors)] = list(self._factors.values())
        segment = Segment(
            kind=kind,
            node=node,
            message=message,
            count=count,
            time=np.array(self._times, np.float64),
            factor=factor,
            sender=np.repeat(node, count),
            receiver=np.array(self._receivers, np.int32),
            first_message=self._first_message,
        )
        self._first_message = self.n_messages
        self._clear()
        return segment
