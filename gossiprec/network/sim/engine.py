"""The discrete-event engine: clocks ring as SimPy events; the transport decides when messages arrive.

All state is plain data: SimPy's queue holds (time, priority, number, event), with events that carry a node id and a
rank; the transport holds messages; counters are in the clock, the network and the work. No state is in generator
frames. Events at the same time happen in the order in which they were scheduled (their rank): a node's next ring is
scheduled before the messages of its present wake.

If deliveries cause no sends, a segment of time is one batch: the clocks run first, then all deliveries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappush
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import simpy
from simpy.events import NORMAL

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.machine import gc_paused
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import ComputeTime, WakeClock
from gossiprec.network.sim.network import ARRIVED, BUSY, OFFLINE, WAITS
from gossiprec.network.sim.transport import MessageOutcome, MessageOutcomes, Transport

WAKE, DELIVER, DROP = range(3)
RECEIVING = 1
SIGNAL, LOST_SIGNAL = 4, 5


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

    def add_finish_time(self, time: float) -> None:
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
        found = transport.send_segment(sent, np.where(ready == time, rank, -1)[wake], until, over)
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


class ControlProtocol(Protocol):
    """The calls that the engine makes to a protocol."""

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of the messages that `node` sends on its wake."""

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the receivers of the messages that `node` sends on the delivery of `message`."""

    def on_missed_wake(self, node: int, now: float) -> None:
        """Note that the node misses this wake, because it is offline or still busy."""


class Steering(Protocol):
    """The calls that the engine makes to a protocol in which one node sets its next wake by what arrives."""

    @property
    def delivery_weight(self) -> float:
        """Factor of the sender's weight in the merge of the latest delivery."""

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Note that the latest receivers are sent messages first, first + 1, ...; the network may copy messages."""

    def next_wake(self, now: float) -> float | None:
        """Return the time of the next wake as currently planned; None if the clock decides."""


class Book(Protocol):
    """The calls that the engine makes to the book of a protocol that sees messages.

    Attributes
    ----------
    slot : int
        Number of the operations of the latest delivery; 0 if they are those of every message.
    heard_control : bool
        Whether the latest delivery was a control message.
    controls : sequence of int
        Number of the kind of each message that was sent last; 0 if it carries a model.
    """

    slot: int
    heard_control: bool
    controls: Sequence[int]

    def post(self, node: int, first: int, sent_at: float, sends: Sequence[Any]) -> Sequence[int]:
        """Note messages first, first + 1, ...; return their receivers."""

    def size_of(self, message: int) -> int | None:
        """Return the size of a control message in transit; None if it carries a model."""

    def lost(self, message: int) -> bool:
        """Note that a message is lost; return whether it was a control message."""


class Recorder(Protocol):
    """The sink to which the engine writes events."""

    n_messages: int

    def wake(self, time: float, node: int, receivers: Sequence[int], ready: float) -> None:
        """Record one wake, and the messages that are sent when the node is `ready`."""

    def miss(self, time: float, node: int, cause: int) -> None:
        """Record a missed wake."""

    def deliver(
        self,
        time: float,
        receiver: int,
        message: int,
        receivers: Sequence[int],
        ready: float,
        queued: float,
        *,
        kind: int = DELIVER,
    ) -> None:
        """Record a delivery, and the messages that the receiver sends when it is `ready`."""

    def mark(self, slot: int, controls: Sequence[int]) -> None:
        """Record the operations of the latest event, and the kinds of the control messages that it sent."""

    def weigh(self, factor: float) -> None:
        """Record the weight factor of the latest delivery."""

    def drop(self, time: float, receiver: int, message: int, cause: int, *, kind: int = DROP) -> None:
        """Record a lost message."""

    def extend(self, happenings: EventBatch) -> None:
        """Record a batch of wakes, deliveries and drops in their order."""


class _Ring(simpy.Event):
    """The ring of a clock; the event is reused after it."""

    def __init__(self, env: simpy.Environment, callback: Callable[[Any], None], node: int, rank: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        self.reaction = [callback]
        self.callbacks = self.reaction
        self.node = node
        self.rank = rank


class _Agenda(simpy.Environment):
    """SimPy's queue with absolute times and access to its head."""

    def put(self, event: _Ring, time: float) -> None:
        """Schedule an event for exactly this time."""
        heappush(self._queue, (time, NORMAL, next(self._eid), event))

    @property
    def head(self) -> tuple[float, int]:
        """Time and rank of the next ring."""
        if not self._queue:
            return math.inf, 0
        time, _, _, event = self._queue[0]
        return time, event.rank  # type: ignore[attr-defined]


Mode = Literal["inline", "stretch", "step"]


class WakePlan(NamedTuple):
    """The nodes that wake, and how often.

    Attributes
    ----------
    clock : WakeClock
        Clock of the nodes that wake.
    wakes : int
        Number of rings of each node's clock, including those that it misses.
    availability : Availability
    """

    clock: WakeClock
    wakes: int
    availability: Availability


class Engine:
    """The engine of the control plane.

    Parameters
    ----------
    control : ControlProtocol
    plan : WakePlan
    transport : Transport
    recorder : Recorder
    work : ComputeTime, optional
        Computation times of nodes; no time if omitted.
    mode : {'inline', 'stretch', 'step'}
        `inline`: deliveries follow from the wakes (instant network, no replies), and are neither scheduled nor
        recorded. `stretch`: deliveries cause no sends, and are computed for a whole segment of time. `step`: events
        are processed one by one. The last two give equal results.
    steering : Steering, optional
        In step mode: sets the wakes of the clock's only node, and the weights of deliveries.
    book : Book, optional
        In step mode: the book of a protocol that sees messages.
    """

    def __init__(
        self,
        *,
        control: ControlProtocol,
        plan: WakePlan,
        transport: Transport,
        recorder: Recorder,
        work: ComputeTime | None = None,
        mode: Mode,
        steering: Steering | None = None,
        book: Book | None = None,
    ) -> None:
        clock, wakes, availability = plan
        self._agenda = _Agenda()
        self.wakes_left = dict.fromkeys(clock.node_ids, wakes)
        self.n_wakes = 0
        self.now = 0.0
        self.wakes_due = wakes * len(clock.node_ids)
        self._control = control
        self._clock = clock
        self._transport = transport
        self._recorder = recorder
        self._availability = availability
        self._work = work
        self._mode = mode
        self._steering = steering
        self._book = book
        self._hindered = work is not None or not availability.always
        self._copied = transport.network.with_copies if transport.network.copies else None
        self._woke = {
            "inline": self._woke_inline, "stretch": self._woke_in_stretch, "step": self._woke_in_step
        }[mode]  # fmt: skip
        self._online = [False] * len(availability.changes)  # at the node's last ring
        self._until = [0.0] * len(availability.changes)  # time of the next change
        self._stretch = EventBatchBuilder()
        self._last_ring = (0.0, 0)
        self._rank = 0
        self._next: dict[int, _Ring | None] = {}
        self._alarm: float | None = None  # the changed time of the steered node's next wake
        for node in clock.node_ids:
            self._set_alarm(node, clock.next_interval(node))

    @property
    def finished(self) -> bool:
        """Whether no events are left."""
        return self.wakes_due == 0 and self._transport.is_idle

    def wake_at(self, node: int, time: float) -> None:
        """Schedule a node's next ring at the given time, in place of the clock's.

        Called during the node's wake, it replaces the clock's interval. It has no effect once the clock has rung as
        often as it may.

        Raises
        ------
        ValueError
            If the time has passed.
        """
        if time < self.now:
            raise ValueError(f"node {node} cannot wake at {time}, because the time is {self.now}")
        if self.wakes_left[node]:
            self._set_alarm(node, time)

    def _set_alarm(self, node: int, time: float) -> None:
        event = self._next[node] = _Ring(self._agenda, self._wake, node, self._rank)
        self._rank += 1
        self._agenda.put(event, time)

    def run_until(self, time: float) -> None:
        """Process all events that are due before `time`."""
        with gc_paused():  # events create no cycles, and collections would take a tenth of the time
            if self._mode == "step":
                self._step_until(time)
            else:
                self._agenda.run(until=time)
        if self._mode == "stretch":
            over = None if self.wakes_due else self._last_ring
            self._recorder.extend(self._stretch.cut(self._transport, time, over))
        self.now = time

    def _step_until(self, time: float) -> None:
        transport, end = self._transport, (time, -1)
        while True:
            at, rank = min(self._agenda.head, end)
            outcome = transport.pop_next_before(at, rank)
            if outcome is not None:
                self._arrive(outcome)
            elif at < time:
                self._agenda.step()
            else:
                break
            if not transport.moving and not self.wakes_due:
                for waiting in self._transport.give_up(self.now):
                    self._drop(waiting.time, waiting.receiver, waiting.message, waiting.cause)

    def _wake(self, event: _Ring) -> None:
        node, rank = event.node, event.rank
        if self._next[node] is not event:
            return  # an alarm has replaced it
        now = self.now = self._agenda.now
        self._next[node] = self._alarm = None
        self.n_wakes += 1
        self.wakes_due -= 1
        left = self.wakes_left[node] = self.wakes_left[node] - 1
        cause = self._hindrance(node, now) if self._hindered else None
        if cause is None:
            receivers = self._control.on_wake(node, now)
            if self._copied is not None:
                receivers = self._copied(node, receivers)
        else:
            self._control.on_missed_wake(node, now)
            self._recorder.miss(now, node, cause)
        if left and self._next[node] is None:
            event.callbacks = event.reaction
            event.rank = self._rank
            self._rank += 1
            self._next[node] = event
            self._agenda.put(event, now + self._clock.next_interval(node))
        if cause is None:
            self._woke(now, node, rank, receivers)
            if self._steering is not None:
                self._steer(self._steering)
        if not self.wakes_due:
            self._last_ring = now, rank

    def _hindrance(self, node: int, now: float) -> int | None:
        """Return why a node misses this wake, or None."""
        if now >= self._until[node]:
            self._until[node] = self._availability.next_change(node, now)
            self._online[node] = self._availability.is_online(node, now)
        if not self._online[node]:
            return OFFLINE
        return BUSY if self._work is not None and self._work.busy_until[node] > now else None

    def _woke_inline(self, now: float, node: int, rank: int, receivers: Sequence[int]) -> None:
        self._recorder.wake(now, node, receivers, now)

    def _woke_in_stretch(self, now: float, node: int, rank: int, receivers: Sequence[int]) -> None:
        self._stretch.wake(now, node, rank, self._rank, receivers)
        self._rank += len(receivers)
        if self._work is not None:
            self._stretch.add_finish_time(self._work.finish_of_wake(node, now))

    def _woke_in_step(self, now: float, node: int, rank: int, receivers: Sequence[int]) -> None:
        ready = now if self._work is None else self._work.finish_of_wake(node, now)
        first = self._recorder.n_messages
        if self._book is not None:
            receivers = self._book.post(node, first, ready, receivers)
        self._recorder.wake(now, node, receivers, ready)
        if self._book is not None:
            self._recorder.mark(0, self._book.controls)
        self._announce(first, receivers)
        self._post(node, first, receivers, ready)

    def _arrive(self, outcome: MessageOutcome) -> None:
        now, _, message, _, node, cause, queued, _ = outcome
        self.now = now
        if cause != ARRIVED:
            if cause != WAITS:
                self._drop(now, node, message, cause)
            return
        receivers, book = self._control.on_delivery(node, message, now), self._book
        slot = RECEIVING if book is None else book.slot or RECEIVING
        ready = now if self._work is None else self._work.finish_of_delivery(node, now, slot)
        if self._copied is not None and receivers:
            receivers = self._copied(node, receivers)
        first = self._recorder.n_messages
        if book is None:
            self._recorder.deliver(now, node, message, receivers, ready, queued)
        else:
            receivers = book.post(node, first, ready, receivers)
            kind = SIGNAL if book.heard_control else DELIVER
            self._recorder.deliver(now, node, message, receivers, ready, queued, kind=kind)
            self._recorder.mark(book.slot, book.controls)
        if self._steering and self._steering.delivery_weight != 1.0:
            self._recorder.weigh(self._steering.delivery_weight)
        if receivers:
            self._announce(first, receivers)
            self._post(node, first, receivers, ready)
        if self._steering is not None:
            self._steer(self._steering)

    def _drop(self, time: float, receiver: int, message: int, cause: int) -> None:
        """Record the loss of a message."""
        if self._book is not None and self._book.lost(message):
            self._recorder.drop(time, receiver, message, cause, kind=LOST_SIGNAL)
        else:
            self._recorder.drop(time, receiver, message, cause)

    def _announce(self, first: int, receivers: Sequence[int]) -> None:
        """Tell the steering protocol which messages are sent."""
        if self._steering and receivers:
            self._steering.on_sent(first, receivers)

    def _steer(self, steering: Steering) -> None:
        """Move the next wake to the time that the protocol sets."""
        due = steering.next_wake(self.now)
        if due is not None and due != self._alarm:
            (node,) = self._clock.node_ids
            self._alarm = due
            self.wake_at(node, due)

    def _post(self, sender: int, first: int, receivers: Sequence[int], ready: float) -> None:
        """Pass messages first, first + 1, ... to the transport; record immediate losses."""
        rank, now = self._rank, self.now
        self._rank += len(receivers)
        for message, receiver in enumerate(receivers, first):
            size = None if self._book is None else self._book.size_of(message)
            cause = self._transport.send(message, rank, sender, receiver, ready, size)
            if cause != ARRIVED and ready <= now:
                self._drop(now, receiver, message, cause)
            elif cause != ARRIVED:
                self._transport.schedule_loss(
                    MessageOutcome(ready, rank, message, sender, receiver, cause, queued=0.0, settled=ready)
                )
            rank += 1
