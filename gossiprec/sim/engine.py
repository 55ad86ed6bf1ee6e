"""The discrete-event engine: wakes and deliveries as SimPy events with callbacks.

All state is plain data: SimPy's queue holds (time, priority, number, event) with events that carry a node or message
id; counters lie in the clock and network. There are no generator frames to lose.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import simpy
from simpy.events import NORMAL

from gossiprec.sim.clock import WakeClock
from gossiprec.sim.network import Network


class Control(Protocol):
    """What the engine asks of a protocol."""

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of what `node` sends on its wake."""

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the receivers of what `node` sends on the delivery of `message`."""


class Steering(Protocol):
    """What the engine asks of a protocol whose one waking node sets its next wake by what arrives."""

    @property
    def factor(self) -> float:
        """By what to multiply the sender's weight in the merge of the delivery that came last."""

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Note that the receivers named last are sent messages first, first + 1, ..."""

    def next_wake(self, now: float) -> float | None:
        """Return when the next wake is due, as things stand; None: when the clock rings."""


class Recorder(Protocol):
    """Where the engine writes what happened."""

    n_messages: int

    def wake(self, time: float, node: int, receivers: Sequence[int]) -> None:
        """Record a wake and what it sent."""

    def deliver(self, time: float, receiver: int, message: int, receivers: Sequence[int]) -> None:
        """Record a delivery and what it made the receiver send."""

    def weigh(self, factor: float) -> None:
        """Record what the delivery recorded last weighs."""

    def drop(self, time: float, receiver: int, message: int) -> None:
        """Record a lost message."""


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Pause the collector of cyclic garbage: events make none, and its searches take a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Occurrence(simpy.Event):
    """An event of ours: a node wakes, or a message arrives. Used again once it has happened."""

    def __init__(
        self, env: simpy.Environment, callback: Callable[[Any], None], node: int, message: int
    ) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        self.reaction = [callback]
        self.callbacks = self.reaction
        self.node = node
        self.message = message


class Engine:
    """Runs the control plane.

    Parameters
    ----------
    control : Control
    clock : WakeClock
        Names the nodes that wake, and when.
    network : Network
    recorder : Recorder
    wakes : int
        Wakes of each waking node.
    inline : bool
        Deliveries follow from the wakes (instant network, no replies), and are neither scheduled nor recorded.
    steering : Steering, optional
        Sets the wakes of the clock's one node.
    """

    def __init__(
        self,
        *,
        control: Control,
        clock: WakeClock,
        network: Network,
        recorder: Recorder,
        wakes: int,
        inline: bool,
        steering: Steering | None = None,
    ) -> None:
        self.env = simpy.Environment()
        self.wakes_left = dict.fromkeys(clock.node_ids, wakes)
        self.n_wakes = 0
        self._due = wakes * len(clock.node_ids)  # wakes to come and messages on their way
        self._control = control
        self._clock = clock
        self._network = network
        self._recorder = recorder
        self._inline = inline
        self._steering = steering
        self._pending: _Occurrence | None = (
            None  # the steered node's next wake; those that it replaces ring in vain
        )
        self._arrived: list[_Occurrence] = []  # deliveries that have happened, to be used again
        for node in clock.node_ids:
            event = _Occurrence(self.env, self._wake, node, -1)
            self.env.schedule(event, NORMAL, clock.next_interval(node))

    @property
    def now(self) -> float:
        """Virtual time."""
        return float(self.env.now)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self._due == 0

    def run_until(self, time: float) -> None:
        """Let everything happen that is due before `time`."""
        with _no_garbage():
            self.env.run(until=time)

    def _wake(self, event: _Occurrence) -> None:
        if self._pending is not None and event is not self._pending:
            return
        node = event.node
        now = self.env.now
        receivers = self._control.on_wake(node, now)
        first = self._recorder.n_messages
        self._recorder.wake(now, node, receivers)
        self.n_wakes += 1
        self._due -= 1
        left = self.wakes_left[node] = self.wakes_left[node] - 1
        if left:
            event.callbacks = event.reaction
            self.env.schedule(event, NORMAL, self._clock.next_interval(node))
        if not self._inline:
            self._send(node, first, receivers)
        if self._steering:
            self._steer(self._steering, first, receivers)

    def _steer(self, steering: Steering, first: int, receivers: Sequence[int]) -> None:
        """Tell which messages have gone out, and move the next wake to where it is due."""
        if receivers:
            steering.on_sent(first, receivers)
        (node,) = self._clock.node_ids
        due = steering.next_wake(self.env.now) if self.wakes_left[node] else None
        if due is not None:
            self._pending = _Occurrence(self.env, self._wake, node, -1)
            self.env.schedule(self._pending, NORMAL, due - self.env.now)

    def _send(self, sender: int, first: int, receivers: Sequence[int]) -> None:
        """Put messages first, first + 1, ... on the network."""
        for message, receiver in enumerate(receivers, first):
            delay = self._network.delay(sender)
            if delay is None:
                self._recorder.drop(self.env.now, receiver, message)
            else:
                self._due += 1
                self.env.schedule(self._arrival(receiver, message), NORMAL, delay)

    def _arrival(self, receiver: int, message: int) -> _Occurrence:
        if not self._arrived:
            return _Occurrence(self.env, self._deliver, receiver, message)
        event = self._arrived.pop()
        event.callbacks = event.reaction
        event.node = receiver
        event.message = message
        return event

    def _deliver(self, event: _Occurrence) -> None:
        node, now = event.node, self.env.now
        self._due -= 1
        receivers = self._control.on_receive(node, event.message, now)
        first = self._recorder.n_messages
        self._recorder.deliver(now, node, event.message, receivers)
        self._arrived.append(event)
        if receivers:
            self._send(node, first, receivers)
        if self._steering:
            if self._steering.factor != 1.0:
                self._recorder.weigh(self._steering.factor)
            self._steer(self._steering, first, receivers)
