"""The discrete-event engine: clocks ring as SimPy events with callbacks; the transport says what becomes of messages.

All state is plain data: SimPy's queue holds (time, priority, number, event) with events that carry a node id and a
rank; the transport holds messages; counters lie in the clock, the network and the work. There are no generator frames
to lose. What happens at the same time happens in the order in which it was scheduled (its rank): a node's next ring
is scheduled before the messages of its present wake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any, Literal, Protocol

import simpy
from simpy.events import NORMAL

from gossiprec.gc_pause import gc_paused
from gossiprec.sim.availability import Availability
from gossiprec.sim.clock import WakeClock
from gossiprec.sim.compute_time import ComputeTime
from gossiprec.sim.event_batch import EventBatch, EventBatchBuilder
from gossiprec.sim.event_causes import ARRIVED, BUSY, OFFLINE, WAITS
from gossiprec.sim.transport import MessageOutcome, Transport


class ControlProtocol(Protocol):
    """What the engine asks of a protocol."""

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of what `node` sends on its wake."""

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the receivers of what `node` sends on the delivery of `message`."""

    def on_missed_wake(self, node: int, now: float) -> None:
        """Take note that the node's clock rang in vain: it is away, or still busy."""


class Steering(Protocol):
    """What the engine asks of a protocol whose one waking node sets its next wake by what arrives."""

    @property
    def factor(self) -> float:
        """By what to multiply the sender's weight in the merge of the delivery that came last."""

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Note that the receivers named last are sent messages first, first + 1, ...; the network may make copies."""

    def next_wake(self, now: float) -> float | None:
        """Return when the next wake is due, as things stand; None: when the clock rings."""


class Recorder(Protocol):
    """Where the engine writes what happened."""

    n_messages: int

    def wake(self, time: float, node: int, receivers: Sequence[int], ready: float) -> None:
        """Record a wake and what it sends when it is `ready`."""

    def miss(self, time: float, node: int, cause: int) -> None:
        """Record a ring in vain."""

    def deliver(
        self,
        time: float,
        receiver: int,
        message: int,
        receivers: Sequence[int],
        ready: float,
        queued: float,
    ) -> None:
        """Record a delivery and what it makes the receiver send when it is `ready`."""

    def weigh(self, factor: float) -> None:
        """Record what the delivery recorded last weighs."""

    def drop(self, time: float, receiver: int, message: int, cause: int) -> None:
        """Record a lost message."""

    def extend(self, happenings: EventBatch) -> None:
        """Record wakes, deliveries and drops in their order."""


class _Ring(simpy.Event):
    """A clock that rings. Used again once it has rung."""

    def __init__(self, env: simpy.Environment, callback: Callable[[Any], None], node: int, rank: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        self.reaction = [callback]
        self.callbacks = self.reaction
        self.node = node
        self.rank = rank


class _Agenda(simpy.Environment):
    """SimPy's queue with absolute times, whose head can be looked at."""

    def put(self, event: _Ring, time: float) -> None:
        """Schedule an event for a time, to the bit."""
        heappush(self._queue, (time, NORMAL, next(self._eid), event))

    @property
    def head(self) -> tuple[float, int]:
        """Time and rank of the next ring."""
        if not self._queue:
            return math.inf, 0
        time, _, _, event = self._queue[0]
        return time, event.rank  # type: ignore[attr-defined]


Mode = Literal["inline", "stretch", "step"]


class Engine:
    """Runs the control plane.

    Parameters
    ----------
    control : Control
    clock : WakeClock
        Names the nodes that wake, and when.
    transport : Transport
    recorder : Recorder
    wakes : int
        Rings of each node's clock; those that it misses count.
    availability : Availability
    work : Work, optional
        How long nodes compute; no time if it is left out.
    mode : {'inline', 'stretch', 'step'}
        `inline`: deliveries follow from the wakes (instant network, no replies), and are neither scheduled nor
        recorded. `stretch`: deliveries make nobody send, and are found for a stretch of time at once. `step`: one
        after the other. The last two give the same results.
    steering : Steering, optional
        In step mode: sets the wakes of the clock's one node, and weighs deliveries.
    """

    def __init__(
        self,
        *,
        control: ControlProtocol,
        clock: WakeClock,
        transport: Transport,
        recorder: Recorder,
        wakes: int,
        availability: Availability,
        work: ComputeTime | None = None,
        mode: Mode,
        steering: Steering | None = None,
    ) -> None:
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
        self._hindered = work is not None or not availability.always
        self._copied = transport.network.with_copies if transport.network.copies else None
        self._woke = {
            "inline": self._woke_inline, "stretch": self._woke_in_stretch, "step": self._woke_in_step
        }[mode]  # fmt: skip
        self._online = [False] * len(availability.changes)  # at the node's last ring
        self._until = [0.0] * len(availability.changes)  # when that next changes
        self._stretch = EventBatchBuilder()
        self._last_ring = (0.0, 0)
        self._rank = 0
        self._next: dict[int, _Ring | None] = {}
        self._alarm: float | None = None  # where the steered node's next wake has been moved to
        for node in clock.node_ids:
            self._set_alarm(node, clock.next_interval(node))

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self.wakes_due == 0 and self._transport.idle

    def wake_at(self, node: int, time: float) -> None:
        """Let a node's clock ring at a time, instead of when it would ring next.

        On its wake, what it says here replaces the interval of its clock. Without effect once the clock has rung as
        often as it does.

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
        """Let everything happen that is due before `time`."""
        with gc_paused():  # events make none, and its searches take a tenth of the time
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
            outcome = transport.next_before(at, rank)
            if outcome is not None:
                self._arrive(outcome)
            elif at < time:
                self._agenda.step()
            else:
                break
            if not transport.moving and not self.wakes_due:
                for waiting in self._transport.give_up(self.now):
                    self._recorder.drop(waiting.time, waiting.receiver, waiting.message, waiting.cause)

    def _wake(self, event: _Ring) -> None:
        node, rank = event.node, event.rank
        if self._next[node] is not event:
            return  # an alarm has taken its place
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
        """Return why a clock rings in vain, if it does."""
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
            self._stretch.ready(self._work.woke(node, now))

    def _woke_in_step(self, now: float, node: int, rank: int, receivers: Sequence[int]) -> None:
        ready = now if self._work is None else self._work.woke(node, now)
        first = self._recorder.n_messages
        self._recorder.wake(now, node, receivers, ready)
        self._announce(first, receivers)
        self._post(node, first, receivers, ready)

    def _arrive(self, outcome: MessageOutcome) -> None:
        now, _, message, _, node, cause, queued, _ = outcome
        self.now = now
        if cause != ARRIVED:
            if cause != WAITS:
                self._recorder.drop(now, node, message, cause)
            return
        receivers = self._control.on_receive(node, message, now)
        ready = now if self._work is None else self._work.received(node, now)
        if self._copied is not None and receivers:
            receivers = self._copied(node, receivers)
        first = self._recorder.n_messages
        self._recorder.deliver(now, node, message, receivers, ready, queued)
        if self._steering and self._steering.factor != 1.0:
            self._recorder.weigh(self._steering.factor)
        if receivers:
            self._announce(first, receivers)
            self._post(node, first, receivers, ready)
        if self._steering is not None:
            self._steer(self._steering)

    def _announce(self, first: int, receivers: Sequence[int]) -> None:
        """Say which messages go out, to whom it concerns."""
        if self._steering and receivers:
            self._steering.on_sent(first, receivers)

    def _steer(self, steering: Steering) -> None:
        """Move the next wake to where it is due."""
        due = steering.next_wake(self.now)
        if due is not None and due != self._alarm:
            (node,) = self._clock.node_ids
            self._alarm = due
            self.wake_at(node, due)

    def _post(self, sender: int, first: int, receivers: Sequence[int], ready: float) -> None:
        """Hand messages first, first + 1, ... to the transport; what is lost at once is recorded at once."""
        rank, now = self._rank, self.now
        self._rank += len(receivers)
        for message, receiver in enumerate(receivers, first):
            cause = self._transport.send(message, rank, sender, receiver, ready)
            if cause != ARRIVED and ready <= now:
                self._recorder.drop(now, receiver, message, cause)
            elif cause != ARRIVED:
                self._transport.lose(
                    MessageOutcome(ready, rank, message, sender, receiver, cause, queued=0.0, settled=ready)
                )
            rank += 1
