"""The schedule of a run: its events in tape segments, with reports between.

The engine plays the control plane up to each report, before any model is trained or between local updates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import I64
from gossiprec.compute.plan.tape import Op, Tape, TapeEvent, TapeSegment, insert_resets
from gossiprec.emulation.assembly.network_setup import (
    EngineConditions,
    NodeLoad,
    check_trace_lengths,
    make_engine_conditions,
    trains_on_event,
)
from gossiprec.network.protocols import Protocol
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.engine import ControlProtocol, Engine, WakePlan
from gossiprec.scenario import Scenario


@dataclass(frozen=True)
class ReportTick:
    """A tape segment that ends in a report.

    Attributes
    ----------
    time : float
        Virtual time of the report.
    round : int
        Number of rounds so far: the mean number of wakes of the nodes that wake, or of completed slices.
    last : bool
        Whether this is the last report.
    """

    segment: TapeSegment
    time: float
    round: int
    last: bool


def make_engine(
    conditions: EngineConditions,
    protocol: Protocol,
    *,
    control: ControlProtocol,
    tape: Tape,
    depends_on_values: bool = False,
) -> tuple[Engine, bool]:
    """Return an engine at time 0, and whether all deliveries are implied by their wakes.

    If the schedule depends on values, the engine plays one event at a time.
    """
    inline = conditions.implied and not protocol.replies
    together = not protocol.replies and not depends_on_values
    if conditions.work is not None and conditions.work.hindered_by_deliveries:
        together = False
    engine = Engine(
        control=control,
        plan=WakePlan(protocol.clock, protocol.wakes, protocol.availability),
        transport=conditions.transport,
        recorder=tape,
        work=conditions.work,
        mode="inline" if inline else "stretch" if together else "step",
        steering=protocol if protocol.sets_own_wakes else None,
    )
    return engine, inline


class ModelResets:
    """The times at which nodes come back without their model.

    Parameters
    ----------
    availability : Availability
    lost : bool
        Whether nodes lose their model while they are offline.
    """

    def __init__(self, availability: Availability, *, lost: bool) -> None:
        time, node, online = availability.log()
        came = online & lost
        self._time, self._node = time[came], node[came].astype(np.int32)
        self._done = 0

    def into(self, segment: TapeSegment, until: float) -> TapeSegment:
        """Return a tape segment with the resets up to and including its end."""
        end = int(np.searchsorted(self._time, until, side="right"))
        some = slice(self._done, end)
        self._done = end
        return insert_resets(segment, self._time[some], self._node[some])


def play_to_reports(
    engine: Engine, tape: Tape, scenario: Scenario, protocol: Protocol, returns: ModelResets
) -> Iterator[ReportTick]:
    """Run the engine up to each report in turn, and yield the tape since the report before.

    Once all clocks have stopped and a report interval has no event, the remaining events go into one last report.
    """
    n_waking, each = len(protocol.clock.node_ids), protocol.wakes_per_round
    quiet = False
    for number in scenario.evaluate.rounds():
        due = number * each * protocol.clock.mean
        engine.run_until(math.inf if quiet else math.nextafter(due, math.inf))
        segment, over = tape.cut(), engine.finished
        quiet = not engine.wakes_due and not len(segment.time)
        if quiet and not over:
            continue
        at = (
            max([*segment.time[-1:].tolist(), *segment.misses.time[-1:].tolist()], default=due)
            if over
            else due
        )
        yield ReportTick(returns.into(segment, at), at, round(engine.n_wakes / n_waking / each), over)
        if over:
            return


def run_control_plane(
    scenario: Scenario, protocol: Protocol, conditions: EngineConditions
) -> tuple[list[ReportTick], bool]:
    """Return the tape of the whole run, cut at the report ticks, and whether deliveries are implied."""
    tape = Tape()
    engine, inline = make_engine(conditions, protocol, control=protocol, tape=tape)
    returns = ModelResets(protocol.availability, lost=scenario.churn.model == "reset")
    return list(play_to_reports(engine, tape, scenario, protocol, returns)), inline


class _Nobody:
    """A control under which nodes wake and send no message."""

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        return ()

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        return ()

    def on_missed_wake(self, node: int, now: float) -> None:
        pass


def count_wakes(protocol: Protocol, conditions: EngineConditions) -> I64:
    """Return the number of wakes of every node if messages do not change it, shape (n_nodes,)."""
    tape = Tape()
    engine, _ = make_engine(conditions, protocol, control=_Nobody(), tape=tape, depends_on_values=True)
    engine.run_until(math.inf)
    segment = tape.cut()
    return np.bincount(segment.node[segment.kind == TapeEvent.WAKE], minlength=protocol.n_nodes)


def known_deliveries(segments: list[TapeSegment], inline: bool) -> KnownDeliveries:
    """Return all deliveries of a run, given its whole tape."""
    sender = np.concatenate([s.sender for s in segments])
    if inline:
        receiver = np.concatenate([s.receiver for s in segments])
        time = np.concatenate([s.sent_at for s in segments])
        return KnownDeliveries(np.arange(len(sender), dtype=np.int32), sender, receiver, time, len(sender))
    arrived = [s.kind == TapeEvent.DELIVER for s in segments]
    message = np.concatenate([s.message[a] for s, a in zip(segments, arrived, strict=True)])
    receiver = np.concatenate([s.node[a] for s, a in zip(segments, arrived, strict=True)])
    time = np.concatenate([s.time[a] for s, a in zip(segments, arrived, strict=True)])
    return KnownDeliveries(message, sender[message], receiver, time, len(sender))


def count_updates(segment: TapeSegment, protocol: Protocol, inline: bool) -> I64:
    """Return the number of local updates of every node in a tape segment, shape (n_nodes,)."""
    trains = trains_on_event(protocol.behaviours)
    role = protocol.roles[segment.node]
    on_wake = trains[role, 0] & (segment.kind == TapeEvent.WAKE)
    on_receive = trains[role, 1] & (segment.kind == TapeEvent.DELIVER)
    implied = (
        segment.receiver[trains[protocol.roles[segment.receiver], 1]] if inline else segment.receiver[:0]
    )
    training = np.concatenate([segment.node[on_wake | on_receive], implied])
    return np.bincount(training, minlength=protocol.n_nodes)


CarryOut = Callable[[TapeSegment], None]


class Schedule(ABC):
    """The events of a run, and the counts of them that are known before it.

    Attributes
    ----------
    inline : bool
        Whether deliveries are implied by the wakes.
    n_wakes, n_messages : int
    virtual_time : float
    updates : ndarray of int64, shape (n_nodes,), or None
        Local updates of every node, or None if they depend on the models' values.
    n_updates : int
        An upper bound of the local updates of all nodes together.
    meetings : Meetings
    """

    depends_on_values: ClassVar[bool]
    """Whether peers are chosen by the values of models, which the protocol must then receive."""

    inline: bool
    n_wakes: int
    n_messages: int
    virtual_time: float
    updates: I64 | None
    n_updates: int
    meetings: KnownDeliveries

    @abstractmethod
    def play(
        self, carry_out: CarryOut, *, after: int = 0, recall: CarryOut | None = None
    ) -> Iterator[ReportTick]:
        """Pass every tape segment to `carry_out` in turn, and yield at each report.

        Parameters
        ----------
        carry_out : callable
        after : int
            Number of reports that an earlier process has written; play continues after them.
        recall : callable, if `after` is not 0
            Takes the place of `carry_out` for the segments before that.
        """


class PrecomputedSchedule(Schedule):
    """A schedule in which no choice depends on a model's values, so that it is known before the first update."""

    depends_on_values = False

    def __init__(
        self, scenario: Scenario, protocol: Protocol, load: NodeLoad, conditions: EngineConditions
    ) -> None:
        self.ticks, self.inline = run_control_plane(scenario, protocol, conditions)
        segments = [tick.segment for tick in self.ticks]
        self.updates = np.sum([count_updates(s, protocol, self.inline) for s in segments], axis=0)
        self.n_updates = int(self.updates.sum())
        self.n_wakes = sum(int((s.kind == TapeEvent.WAKE).sum()) + len(s.misses.time) for s in segments)
        self.n_messages = sum(len(s.receiver) for s in segments)
        self.virtual_time = self.ticks[-1].time
        sent = np.sum([np.bincount(s.sender, minlength=protocol.n_nodes) for s in segments], axis=0)
        check_trace_lengths(scenario, messages=int(sent.max()), updates=int(self.updates.max()))
        self.meetings = known_deliveries(segments, self.inline)

    def play(
        self, carry_out: CarryOut, *, after: int = 0, recall: CarryOut | None = None
    ) -> Iterator[ReportTick]:
        """Replay the tape."""
        if recall is not None:
            for tick in self.ticks[:after]:
                recall(tick.segment)
        for tick in self.ticks[after:]:
            carry_out(tick.segment)
            yield tick


class InterleavedSchedule(Schedule):
    """A schedule in which wakes choose peers by received values, so that events are played during computing.

    A node that wakes only needs the values of its own latest deliveries. The tape is therefore carried out (a
    *barrier*) when a node wakes that has received a message since the last barrier. With 943 nodes, that is after about
    twenty wakes, which is wide enough to compute them in parallel.
    """

    depends_on_values = True

    def __init__(
        self, scenario: Scenario, protocol: Protocol, load: NodeLoad, conditions: EngineConditions
    ) -> None:
        self._scenario = scenario
        self._protocol = protocol
        self._tape = Tape()
        self._returns = ModelResets(protocol.availability, lost=scenario.churn.model == "reset")
        self._waiting: set[int] = set()
        self._carry_out: CarryOut | None = None
        self._engine, self.inline = make_engine(
            conditions, protocol, control=self, tape=self._tape, depends_on_values=self.depends_on_values
        )
        wakers = len(protocol.clock.node_ids)
        self.n_wakes = wakers * protocol.wakes
        assert protocol.max_messages_per_wake is not None
        copies = 2 if scenario.network.duplication > 0.0 else 1
        each = protocol.wakes * protocol.max_messages_per_wake * copies
        self.n_messages = wakers * each
        self.virtual_time = protocol.horizon
        trains_on_wake = any(Op.TRAIN in behaviour.on_wake for behaviour in protocol.behaviours)
        self.updates = self._wakes(scenario, load) if trains_on_wake else None
        answers = 2 if protocol.replies else 1  # on which no node trains
        self.n_updates = self.n_messages // answers if self.updates is None else int(self.updates.sum())
        check_trace_lengths(
            scenario,
            messages=each,
            updates=self.n_messages if self.updates is None else int(self.updates.max()),
        )
        none = np.zeros(0, np.int32)
        self.meetings = KnownDeliveries(none, none, none, np.zeros(0), self.n_messages, complete=False)

    def _wakes(self, scenario: Scenario, load: NodeLoad) -> I64:
        """Return the number of wakes of each node."""
        protocol = self._protocol
        if protocol.availability.always and scenario.network.compute is None:
            return np.full(protocol.n_nodes, protocol.wakes)
        return count_wakes(protocol, make_engine_conditions(scenario, protocol, load))

    def play(
        self, carry_out: CarryOut, *, after: int = 0, recall: CarryOut | None = None
    ) -> Iterator[ReportTick]:
        """Play the events; wakes at which no node waits for a value are computed together."""
        ticks = play_to_reports(self._engine, self._tape, self._scenario, self._protocol, self._returns)
        self._carry_out = recall if after else carry_out
        for number, tick in enumerate(ticks, 1):
            assert self._carry_out is not None
            self._carry_out(tick.segment)
            self._waiting.clear()
            if number == after:
                self._carry_out = carry_out
            elif number > after:
                yield tick

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Call the protocol, after a barrier if the node has received messages that are not computed yet."""
        if node in self._waiting:
            assert self._carry_out is not None
            self._carry_out(self._returns.into(self._tape.cut(), now))
            self._waiting.clear()
        receivers = self._protocol.on_wake(node, now)
        if self.inline:
            self._waiting.update(receivers)
        return receivers

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        """Note that the node has a message to score."""
        self._waiting.add(node)
        return self._protocol.on_receive(node, message, now)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Pass the missed wake to the protocol."""
        self._protocol.on_missed_wake(node, now)
