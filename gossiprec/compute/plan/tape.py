"""The tape of events that the control plane passes to the data plane, as plain integers.

One row is one event. The control plane appends; it never sees a tensor. What an event *does* to models is defined once
per run by :class:`Behaviour`, so the tape takes only three integers per wake.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, Bools


class TapeEvent(IntEnum):
    """Kinds of tape rows."""

    WAKE = 0
    """A node woke; it sent `count` messages."""
    DELIVER = 1
    """A message arrived; its receiver sent `count` messages."""
    DROP = 2
    """A message was lost on its way."""
    RESET = 3
    """A node was reset to its first version; its optimizer's state stays."""
    SIGNAL = 4
    """A control message, which carries no model, arrived; its receiver sent `count` messages."""
    LOST_SIGNAL = 5
    """A control message was lost on its way."""


class Op(IntEnum):
    """Operations of a node on models, which a behaviour lists in order."""

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
    """Average, by the senders' weights, the versions that arrived since the node's last push."""
    SCORE = 6
    """Merge the received version by its performance and the own one's on the node's validation items."""
    AVERAGE = 8
    """Average, by weights, the node's own version and all that arrived since its last push."""
    MIX = 7
    """Mix the version of the node's last push with the versions pooled since (:attr:`Behaviour.mixing`)."""


# The same numbers for compiled code, which freezes integers of a module.
WAKE, DELIVER = int(TapeEvent.WAKE), int(TapeEvent.DELIVER)
DROP, RESET = int(TapeEvent.DROP), int(TapeEvent.RESET)
SIGNAL, LOST_SIGNAL = int(TapeEvent.SIGNAL), int(TapeEvent.LOST_SIGNAL)
NOTHING, TRAIN, SEND, BLEND = int(Op.NOTHING), int(Op.TRAIN), int(Op.PUSH), int(Op.BLEND)
ADOPT, POOL, SCORE, MIX = int(Op.ADOPT), int(Op.POOL), int(Op.SCORE), int(Op.MIX)


MERGING = frozenset({Op.BLEND, Op.ADOPT, Op.POOL, Op.SCORE, Op.AVERAGE})
"""Operations that merge a received version."""
WAKING, RECEIVING = 0, 1
"""Numbers of the lists of operations that every behaviour has; those of :attr:`Behaviour.on` come after them."""


@dataclass(frozen=True)
class Behaviour:
    """The operations of the nodes of one role: those on waking, and those on receiving a message.

    Attributes
    ----------
    on_wake, on_receive : tuple of Op
    mixing : float
        For `Op.MIX`: the share, above 0 and to 1, of fully weighted answers in the new version. With weights w and
        factors s (:attr:`TapeSegment.factor`) it is ``mixing * sum(w s) / sum(w)``; the pushed version keeps the rest.
    on : mapping of str to tuple of Op
        Operations on receiving a message of a kind that is not treated by `on_receive`
        (:meth:`gossiprec.network.protocols.Protocol.on_receive`).
    """

    on_wake: tuple[Op, ...]
    on_receive: tuple[Op, ...]
    mixing: float = 1.0
    on: Mapping[str, tuple[Op, ...]] = field(default_factory=dict, hash=False)

    @property
    def on_any_receive(self) -> frozenset[Op]:
        """The operations on receiving messages of all kinds."""
        return frozenset(self.on_receive).union(*self.on.values())


def slot_names(behaviours: Sequence[Behaviour]) -> list[str]:
    """Return the names of the lists of operations in :attr:`Behaviour.on`; the first of them has the number 2."""
    return sorted({name for behaviour in behaviours for name in behaviour.on})


def operations_by_slot(behaviours: Sequence[Behaviour]) -> list[list[tuple[Op, ...]]]:
    """Return the lists of operations of each role by number: waking, receiving, and those of `on` by name."""
    names = slot_names(behaviours)
    return [[b.on_wake, b.on_receive, *[b.on.get(name, b.on_receive) for name in names]] for b in behaviours]


@dataclass(frozen=True)
class MissedWakes:
    """Missed wakes.

    Attributes
    ----------
    time : ndarray of float64, shape (n,)
    node, cause : ndarray of int32, shape (n,)
        The cause as the log numbers it.
    """

    time: F64
    node: I32
    cause: I32


@dataclass(frozen=True)
class TapeSegment:
    """A segment of tape.

    Attributes
    ----------
    kind, node, message, count : ndarray of int32, shape (n_events,)
        `node` woke or is the receiver; `message` is the one that arrived or was lost, -1 if it woke; `count` is the
        number of messages that the node sent in answer.
    time : ndarray of float64, shape (n_events,)
    ready : ndarray of float64, shape (n_events,)
        Time when the node finished its work on the event and sent its messages: `time`, unless computing takes time.
    cause : ndarray of int32, shape (n_events,)
        Why a message was lost, as the log numbers it; -1 for other events.
    queued : ndarray of float64, shape (n_events,)
        Time that a delivered message lost to other messages on shared bandwidth.
    factor : ndarray of float64, shape (n_events,) or (0,)
        Factor of the sender's weight in the merge of each delivery, from 0 (the version is seen, and changes
        nothing) to 1; empty if all are 1.
    sender, receiver : ndarray of int32, shape (n_messages,)
        The messages sent in this segment, in order; their ids continue from `first_message`.
    misses : MissedWakes
    slot : ndarray of int32, shape (n_events,) or (0,)
        Number of the node's list of operations (:func:`operations_by_slot`); 0 if it follows from the kind of event.
    control : ndarray of int32, shape (n_messages,) or (0,)
        Number of the kind of each control message, from 1; 0 for messages that carry a model.
    """

    kind: I32
    node: I32
    message: I32
    count: I32
    time: F64
    ready: F64
    cause: I32
    queued: F64
    factor: F64
    sender: I32
    receiver: I32
    first_message: int
    misses: MissedWakes
    slot: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    control: I32 = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def sent_at(self) -> F64:
        """Virtual time at which each message was sent, shape (n_messages,)."""
        return np.repeat(self.ready, self.count)

    @property
    def slots(self) -> I32:
        """Number of the list of operations of each event, shape (n_events,); -1 if the node has none."""
        by_kind = np.array([WAKING, RECEIVING, -1, -1, RECEIVING, -1], np.int32)[self.kind]
        return np.where(self.slot > 0, self.slot, by_kind) if len(self.slot) else by_kind

    @property
    def carries_model(self) -> Bools:
        """Whether each message carries a model, shape (n_messages,)."""
        return self.control == 0 if len(self.control) else np.ones(len(self.receiver), np.bool_)


_COLUMNS = ("kind", "node", "message", "count", "time", "ready", "cause", "queued")


def concat_segments(segments: Sequence[TapeSegment]) -> TapeSegment:
    """Return consecutive segments of tape as one."""

    def all_of(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(segment, name) for segment in segments])

    def rare(name: str, like: str, fill: float) -> npt.NDArray[Any]:
        """Return a column that is empty in segments in which all values are `fill`."""
        if not any(len(getattr(segment, name)) for segment in segments):
            return getattr(segments[0], name)
        full = [
            np.full(len(getattr(segment, like)), fill, getattr(segment, name).dtype) for segment in segments
        ]
        parts = [getattr(segment, name) for segment in segments]
        return np.concatenate([part if len(part) else all_ for part, all_ in zip(parts, full, strict=True)])

    misses = [segment.misses for segment in segments]
    return TapeSegment(
        **{name: all_of(name) for name in (*_COLUMNS, "sender", "receiver")},
        factor=rare("factor", "kind", 1.0),
        slot=rare("slot", "kind", 0),
        control=rare("control", "receiver", 0),
        first_message=segments[0].first_message,
        misses=MissedWakes(
            *[np.concatenate([getattr(m, name) for m in misses]) for name in ("time", "node", "cause")]
        ),
    )


def split_at_wakes(segment: TapeSegment, node: int, *, apart: bool) -> list[TapeSegment]:
    """Return a segment cut before each wake of a node, and also after it if `apart`.

    Missed wakes stay with the first piece.
    """
    woke = np.flatnonzero((segment.kind == TapeEvent.WAKE) & (segment.node == node))
    edges = np.unique(np.concatenate([[0], woke, woke + 1 if apart else [], [len(segment.kind)]])).astype(int)
    return split_between(segment, edges.tolist())


def split_after(segment: TapeSegment, time: float) -> list[TapeSegment]:
    """Return the events of a segment up to and including a time, and those after it; either may have none.

    Missed wakes stay with the first piece.
    """
    return split_between(
        segment, [0, int(np.searchsorted(segment.time, time, side="right")), len(segment.kind)]
    )


def split_between(segment: TapeSegment, edges: Sequence[int]) -> list[TapeSegment]:
    """Return the pieces of a segment between consecutive events."""
    sent = np.concatenate([[0], np.cumsum(segment.count)])
    nothing = MissedWakes(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32))
    pieces: list[TapeSegment] = []
    for low, high in itertools.pairwise(edges):
        columns = {name: getattr(segment, name)[low:high] for name in (*_COLUMNS, "factor", "slot")}
        messages = slice(int(sent[low]), int(sent[high]))
        pieces.append(
            TapeSegment(
                **columns,
                sender=segment.sender[messages],
                receiver=segment.receiver[messages],
                control=segment.control[messages],
                first_message=segment.first_message + messages.start,
                misses=nothing if pieces else segment.misses,
            )
        )
    return pieces


def insert_resets(segment: TapeSegment, time: F64, node: I32) -> TapeSegment:
    """Return a segment with resets at given times, ascending, each before other events of its time."""
    if not len(time):
        return segment
    at = np.searchsorted(segment.time, time, side="left")
    fill: dict[str, Any] = {
        "kind": TapeEvent.RESET,
        "node": node,
        "message": -1,
        "count": 0,
        "cause": -1,
        "queued": 0.0,
    }
    fill |= {"time": time, "ready": time}
    fill |= {name: value for name, value in (("factor", 1.0), ("slot", 0)) if len(getattr(segment, name))}
    columns: dict[str, Any] = {name: np.insert(getattr(segment, name), at, v) for name, v in fill.items()}
    return replace(segment, **columns)


class EventBatchLike(Protocol):
    """A batch of events in order, as columns of a segment."""

    @property
    def receiver(self) -> I32:
        """Receivers of all messages sent."""


class Tape:
    """A growing tape, cut into segments as it is consumed.

    It grows event by event (:meth:`wake`, :meth:`deliver`, :meth:`drop`) or by whole batches of events
    (:meth:`extend`), but not in both ways between two cuts.
    """

    def __init__(self) -> None:
        self.n_messages = 0
        self._first_message = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []  # four of each event; lists grow several times faster than arrays
        self._times: list[float] = []
        self._receivers: list[int] = []
        self._ready: dict[
            int, float
        ] = {}  # these values are kept by place, for the few events that have them
        self._causes: dict[int, int] = {}
        self._queued: dict[int, float] = {}
        self._factors: dict[int, float] = {}
        self._slots: dict[int, int] = {}
        self._controls: dict[int, int] = {}
        self._missed: list[int] = []  # node and cause of each
        self._missed_at: list[float] = []
        self._blocks: list[EventBatchLike] = []

    def wake(self, time: float, node: int, receivers: Sequence[int], ready: float | None = None) -> None:
        """Append one wake of `node`, which sends one message to each of `receivers` when it is `ready`."""
        count = len(receivers)
        if ready is not None and ready != time:
            self._ready[len(self._times)] = ready
        self._rows += (WAKE, node, -1, count)
        self._times.append(time)
        self._receivers += receivers
        self.n_messages += count

    def miss(self, time: float, node: int, cause: int) -> None:
        """Append a missed wake of a node."""
        self._missed += (node, cause)
        self._missed_at.append(time)

    def deliver(
        self,
        time: float,
        receiver: int,
        message: int,
        receivers: Sequence[int] = (),
        ready: float | None = None,
        queued: float = 0.0,
        *,
        kind: int = DELIVER,
    ) -> None:
        """Append the arrival of `message` at `receiver`, which sends one message to each of `receivers`."""
        if ready is not None and ready != time:
            self._ready[len(self._times)] = ready
        if queued:
            self._queued[len(self._times)] = queued
        self._rows += (kind, receiver, message, len(receivers))
        self._times.append(time)
        self._receivers += receivers
        self.n_messages += len(receivers)

    def weigh(self, factor: float) -> None:
        """Multiply the weight of the delivery that was appended last."""
        self._factors[len(self._times) - 1] = factor

    def mark(self, slot: int, controls: Sequence[int]) -> None:
        """Set the operations of the event that was appended last, and the kinds of the control messages it sent."""
        if slot:
            self._slots[len(self._times) - 1] = slot
        for place, control in enumerate(controls, len(self._receivers) - len(controls)):
            if control:
                self._controls[place] = control

    def drop(self, time: float, receiver: int, message: int, cause: int = 0, *, kind: int = DROP) -> None:
        """Append the loss of `message` on its way to `receiver`."""
        self._causes[len(self._times)] = cause
        self._rows += (kind, receiver, message, 0)
        self._times.append(time)

    def extend(self, happenings: EventBatchLike) -> None:
        """Append a batch of events."""
        self._blocks.append(happenings)
        self.n_messages += len(happenings.receiver)

    def cut(self) -> TapeSegment:
        """Return everything since the last cut."""
        columns = self._from_blocks() if self._blocks else self._from_rows()
        node, cause = np.array(self._missed, np.int32).reshape(-1, 2).T.copy()
        segment = TapeSegment(
            **columns,
            factor=_with(np.ones(len(self._times)), self._factors) if self._factors else np.zeros(0),
            sender=np.repeat(columns["node"], columns["count"]),
            first_message=self._first_message,
            misses=MissedWakes(np.array(self._missed_at, np.float64), node, cause),
            slot=_filled(len(self._times), self._slots),
            control=_filled(len(self._receivers), self._controls),
        )
        self._first_message = self.n_messages
        self._clear()
        return segment

    def _from_rows(self) -> dict[str, npt.NDArray[Any]]:
        kind, node, message, count = np.array(self._rows, np.int32).reshape(-1, 4).T.copy()
        time = np.array(self._times, np.float64)
        return {
            "kind": kind, "node": node, "message": message, "count": count, "time": time,
            "ready": _with(time, self._ready),
            "cause": _with(np.full(len(time), -1, np.int32), self._causes),
            "queued": _with(np.zeros(len(time)), self._queued),
            "receiver": np.array(self._receivers, np.int32),
        }  # fmt: skip

    def _from_blocks(self) -> dict[str, npt.NDArray[Any]]:
        assert not self._times, "a tape grows by events or by batches of events between two cuts, not by both"
        if len(self._blocks) == 1:
            return {name: getattr(self._blocks[0], name) for name in (*_COLUMNS, "receiver")}
        return {
            name: np.concatenate([getattr(block, name) for block in self._blocks])
            for name in (*_COLUMNS, "receiver")
        }


def _filled(length: int, values: dict[int, int]) -> I32:
    """Return a column of zeros and some values; it is empty if there are none."""
    return _with(np.zeros(length if values else 0, np.int32), values)


def _with(column: npt.NDArray[Any], values: dict[int, Any]) -> npt.NDArray[Any]:
    """Return the column with the values at some places replaced."""
    if not values:
        return column
    changed = column.copy()
    changed[list(values.keys())] = list(values.values())
    return changed
