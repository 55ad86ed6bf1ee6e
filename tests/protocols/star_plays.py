"""Plays of a coordinator and its clients on a network whose every delay is written in the test."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.plan.tape import Tape, TapeEvent
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.engine import Engine, WakePlan
from gossiprec.network.sim.network import LOSS, loss_marker
from gossiprec.network.sim.transport import Transport
from gossiprec.testing.tapes import make_test_protocol

LOST = None


class Script:
    """Delays by sender: those written for it in turn, then the usual one; None: lost. `doubled` senders send twice."""

    copies = True

    def __init__(self, usual=0.0, doubled=(), **delays):
        self._usual, self._doubled, self.copies = usual, doubled, bool(doubled)
        self._delays = {int(name[1:]): list(times) for name, times in delays.items()}

    def message_delay(self, sender, receiver, leave):
        waiting = self._delays.get(sender)
        delay = waiting.pop(0) if waiting else self._usual
        return loss_marker(LOSS) if delay is LOST else delay

    def with_copies(self, sender, receivers):
        return [*receivers, *receivers] if sender in self._doubled else receivers


def fedavg(n_users, seed=1, availability=None, **options):
    """Return FedAvg whose merges weigh all clients alike."""
    control = make_test_protocol("fedavg", n_users, seed, **{"merge": "mean", **options})
    if availability is not None:
        control.availability = availability
    return control


def away(n_nodes, **spans):
    """Return the presence of nodes that are all online, but for the spans (from, until) written for some."""
    times = {int(name[1:]): np.array(span, float) for name, span in spans.items()}
    return Availability([True] * n_nodes, [times.get(node, np.zeros(0)) for node in range(n_nodes)])


def play(control, network, until=1000.0):
    """Return the tape of the whole run."""
    tape = Tape()
    engine = Engine(
        control=control,
        plan=WakePlan(control.clock, control.wakes, control.availability),
        transport=Transport(network, control.availability),
        recorder=tape,
        mode="step",
        steering=control if control.sets_own_wakes else None,
    )
    engine.run_until(until)
    assert engine.finished
    return tape.cut()


def coordinator_lines(control, segment):
    """Return what the coordinator does: (time, clients asked) of a wake, (time, client, factor) of an answer."""
    sender = segment.sender
    factors = segment.factor if len(segment.factor) else np.ones(len(segment.kind))
    found, first = [], 0
    for kind, node, message, count, time, factor in zip(
        segment.kind, segment.node, segment.message, segment.count, segment.time, factors, strict=True
    ):
        to = segment.receiver[first : first + count].tolist()
        first += count
        if node == control.n_users and kind == TapeEvent.WAKE:
            found.append((round(float(time), 9), to))
        elif node == control.n_users and kind == TapeEvent.DELIVER:
            found.append((round(float(time), 9), int(sender[message]), float(factor)))
    return found
