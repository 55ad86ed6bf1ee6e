"""The control plane, run ahead: everything that will happen, before any model is trained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gossiprec.attacks.base import Meetings
from gossiprec.compute.tape import Event, Op, Segment, Tape
from gossiprec.emulation.conditions import make_network
from gossiprec.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.sim.engine import Control, Engine
from gossiprec.sim.transport import Transport


@dataclass(frozen=True)
class Tick:
    """A stretch of tape that ends in a report.

    Attributes
    ----------
    time : float
        Virtual time of the report.
    round : int
        Mean number of wakes so far of the nodes that wake.
    """

    segment: Segment
    time: float
    round: int


def make_engine(
    scenario: Scenario, protocol: Protocol, *, control: Control, tape: Tape
) -> tuple[Engine, bool]:
    """Return an engine at time 0, and whether deliveries are implied: instant, certain, and answered by nobody."""
    presence = protocol.presence
    network = make_network(scenario, protocol.n_nodes)
    inline = network.instant and presence.always and not protocol.replies
    together = not protocol.replies and not protocol.chooses_by_value
    engine = Engine(
        control=control,
        clock=protocol.clock,
        transport=Transport(network, presence),
        recorder=tape,
        wakes=protocol.wakes,
        presence=presence,
        mode="inline" if inline else "stretch" if together else "step",
    )
    return engine, inline


def play_to_ticks(engine: Engine, tape: Tape, scenario: Scenario, protocol: Protocol) -> Iterator[Tick]:
    """Let everything happen up to each report in turn; yield what is then on the tape."""
    n_waking = len(protocol.clock.node_ids)
    for number in itertools.count(1):
        due = number * scenario.evaluate.every * protocol.clock.mean
        engine.run_until(math.nextafter(due, math.inf))
        segment, over = tape.cut(), engine.finished
        at = max([*segment.time[-1:].tolist(), *segment.misses.time[-1:].tolist()]) if over else due
        yield Tick(segment, at, round(engine.n_wakes / n_waking))
        if over:
            return


def run_ahead(scenario: Scenario, protocol: Protocol) -> tuple[list[Tick], bool]:
    """Run the whole control plane; return its tape cut at the report ticks, and whether deliveries are implied."""
    tape = Tape()
    engine, inline = make_engine(scenario, protocol, control=protocol, tape=tape)
    return list(play_to_ticks(engine, tape, scenario, protocol)), inline


def meetings_in(segments: list[Segment], inline: bool) -> Meetings:
    """Return all deliveries of a run, given its whole tape."""
    sender = np.concatenate([s.sender for s in segments])
    if inline:
        receiver = np.concatenate([s.receiver for s in segments])
        time = np.concatenate([s.sent_at for s in segments])
        return Meetings(np.arange(len(sender), dtype=np.int32), sender, receiver, time, len(sender))
    arrived = [s.kind == Event.DELIVER for s in segments]
    message = np.concatenate([s.message[a] for s, a in zip(segments, arrived, strict=True)])
    receiver = np.concatenate([s.node[a] for s, a in zip(segments, arrived, strict=True)])
    time = np.concatenate([s.time[a] for s, a in zip(segments, arrived, strict=True)])
    return Meetings(message, sender[message], receiver, time, len(sender))


def count_updates(segment: Segment, protocol: Protocol, inline: bool) -> npt.NDArray[np.int64]:
    """Return the number of local updates of every node in a stretch of tape, shape (n_nodes,)."""
    trains = np.array([[Op.TRAIN in b.on_wake, Op.TRAIN in b.on_receive] for b in protocol.behaviours])
    role = protocol.roles[segment.node]
    on_wake = trains[role, 0] & (segment.kind == Event.WAKE)
    on_receive = trains[role, 1] & (segment.kind == Event.DELIVER)
    implied = (
        segment.receiver[trains[protocol.roles[segment.receiver], 1]] if inline else segment.receiver[:0]
    )
    training = np.concatenate([segment.node[on_wake | on_receive], implied])
    return np.bincount(training, minlength=protocol.n_nodes)
