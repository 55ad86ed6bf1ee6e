"""The control plane run ahead: all events of a run, before any model is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import I64
from gossiprec.compute.plan.tape import Tape, TapeEvent, TapeSegment, insert_resets
from gossiprec.emulation.assembly.network_setup import EngineConditions, trains_on_event
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
        steering=protocol if protocol.steers else None,
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
