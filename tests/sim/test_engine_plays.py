"""Plays of the engine: a few nodes, the whole trace."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec.compute.plan.tape import TapeEvent
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.engine import DELIVER, DROP, WAKE, Engine, WakePlan
from gossiprec.network.sim.network import LOSS, OFFLINE, RECEIVER_OFFLINE, RUN_ENDED, loss_marker
from gossiprec.network.sim.transport import Transport


class Script:
    """A protocol, clock and network whose every answer is written down in the test."""

    node_ids = range(3)
    copies = False

    def __init__(self, intervals, peers=None, delays=(), answers=None):
        self._intervals = {node: list(times) for node, times in enumerate(intervals)}
        self._peers = peers or {}
        self._delays = list(delays)
        self._answers = answers or {}
        self.missed = []

    def next_interval(self, node):
        return self._intervals[node].pop(0)

    def on_wake(self, node, now):
        return self._peers.get(node, ())

    def on_delivery(self, node, message, now):
        return self._answers.get(node, ())

    def on_missed_wake(self, node, now):
        self.missed.append((now, node))

    def message_delay(self, sender, receiver, leave):
        delay = self._delays.pop(0)
        return loss_marker(LOSS) if delay is None else delay

    def message_delays(self, sender, receiver, leave):
        return np.array(
            [self.message_delay(*message) for message in zip(sender, receiver, leave, strict=True)]
        )


class Trace:
    """Writes down what happens, as words."""

    def __init__(self):
        self.n_messages = 0
        self.lines = []

    def wake(self, time, node, receivers, ready):
        self.lines.append((time, "wake", node, list(receivers)))
        self.n_messages += len(receivers)

    def miss(self, time, node, cause):
        self.lines.append((time, "miss", node, cause))

    def deliver(self, time, receiver, message, receivers, ready, queued):
        self.lines.append((time, "deliver", receiver, message, list(receivers)))
        self.n_messages += len(receivers)

    def drop(self, time, receiver, message, cause):
        self.lines.append((time, "drop", receiver, message, cause))

    def extend(self, seen):
        going = iter(seen.receiver.tolist())
        rows = zip(seen.kind, seen.time, seen.node, seen.message, seen.count, seen.cause, strict=True)
        for kind, time, node, message, count, cause in rows:
            if kind == TapeEvent.WAKE:
                self.wake(time, node, [next(going) for _ in range(count)], time)
            elif kind == TapeEvent.DELIVER:
                self.deliver(time, node, message, (), time, 0.0)
            else:
                self.drop(time, node, message, cause)


def play(script, *, wakes=1, mode="step", until=100.0, availability=None, held=False):
    trace = Trace()
    availability = availability or Availability.always_online(3)
    engine = Engine(
        control=script,
        plan=WakePlan(script, wakes, availability),
        transport=Transport(script, availability, held=held),
        recorder=trace,
        mode=mode,
    )
    script.engine = engine
    engine.run_until(until)
    return SimpleNamespace(lines=trace.lines, engine=engine)


both = pytest.mark.parametrize("mode", ["step", "stretch"])


@both
def test_nodes_wake_in_the_order_of_their_times(mode):
    lines = play(Script([[2.0, 2.0], [3.0, 0.5], [1.0, 9.0]]), wakes=2, mode=mode).lines

    assert lines == [
        (1.0, "wake", 2, []),
        (2.0, "wake", 0, []),
        (3.0, "wake", 1, []),
        (3.5, "wake", 1, []),
        (4.0, "wake", 0, []),
        (10.0, "wake", 2, []),
    ]


@both
def test_a_message_arrives_one_latency_after_it_was_sent(mode):
    lines = play(Script([[1.0], [2.0], [3.0]], peers={0: [1, 2]}, delays=[0.25, 5.0]), mode=mode).lines

    assert lines == [
        (1.0, "wake", 0, [1, 2]),
        (1.25, "deliver", 1, 0, []),
        (2.0, "wake", 1, []),
        (3.0, "wake", 2, []),
        (6.0, "deliver", 2, 1, []),
    ]


@both
def test_later_messages_may_overtake(mode):
    lines = play(Script([[1.0], [9.0], [9.0]], peers={0: [1, 2]}, delays=[5.0, 0.5]), mode=mode).lines

    assert [line for line in lines if line[1] == "deliver"] == [
        (1.5, "deliver", 2, 1, []),
        (6.0, "deliver", 1, 0, []),
    ]


@both
def test_a_lost_message_is_dropped_when_it_is_sent(mode):
    lines = play(Script([[1.0], [9.0], [9.0]], peers={0: [1, 2]}, delays=[None, 0.5]), mode=mode).lines

    assert lines[:3] == [(1.0, "wake", 0, [1, 2]), (1.0, "drop", 1, 0, LOSS), (1.5, "deliver", 2, 1, [])]


@both
def test_ties_run_in_the_order_of_scheduling(mode):
    script = Script([[1.0, 1.0], [1.0, 9.0], [2.0, 9.0]], peers={0: [1], 1: [0]}, delays=[1.0, 0.0, 0.0, 0.0])

    lines = play(script, wakes=2, until=2.5, mode=mode).lines

    assert lines == [
        (1.0, "wake", 0, [1]),  # schedules its next wake, then message 0, both for 2.0
        (1.0, "wake", 1, [0]),
        (1.0, "deliver", 0, 1, []),
        (2.0, "wake", 2, []),  # was scheduled at the start
        (2.0, "wake", 0, [1]),
        (2.0, "deliver", 1, 0, []),
        (2.0, "deliver", 1, 2, []),
    ]


def test_a_delivery_can_make_its_receiver_send():
    script = Script([[1.0], [9.0], [9.0]], peers={0: [1]}, answers={1: [2, 0]}, delays=[0.5, 1.0, 2.0])

    assert play(script).lines[:4] == [
        (1.0, "wake", 0, [1]),
        (1.5, "deliver", 1, 0, [2, 0]),
        (2.5, "deliver", 2, 1, []),
        (3.5, "deliver", 0, 2, []),
    ]


def test_inline_deliveries_are_neither_scheduled_nor_recorded():
    played = play(Script([[1.0], [2.0], [3.0]], peers={0: [1, 2]}), mode="inline")

    assert [line[1] for line in played.lines] == ["wake"] * 3
    assert played.engine.finished


def test_an_engine_goes_on_where_it_stopped():
    def script():
        return Script([[1.0, 1.0], [1.5, 1.0], [2.0, 2.0]], peers={0: [1]}, delays=[0.75, 0.75])

    whole = play(script(), wakes=2).lines
    stopped = play(script(), wakes=2, until=1.6)
    assert len(stopped.lines) == 2
    assert stopped.engine.now == 1.6
    stopped.engine.run_until(1.8)
    stopped.engine.run_until(50.0)

    assert stopped.lines == whole


def test_what_is_due_at_the_moment_of_stopping_waits():
    played = play(Script([[1.0], [2.0], [3.0]]), until=2.0)

    assert [line[:3] for line in played.lines] == [(1.0, "wake", 0)]


@both
def test_it_is_finished_when_the_last_message_has_arrived(mode):
    played = play(Script([[1.0], [2.0], [3.0]], peers={2: [0]}, delays=[4.0]), until=5.0, mode=mode)
    assert played.engine.n_wakes == 3
    assert not played.engine.finished

    played.engine.run_until(8.0)

    assert played.lines[-1] == (7.0, "deliver", 0, 0, [])
    assert played.engine.finished


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        play(Script([[1.0], [2.0], [3.0]]))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_kinds_of_events_are_those_of_the_tape():
    """The tape, the engine and the compiled planner write them as plain numbers."""
    assert [TapeEvent.WAKE, TapeEvent.DELIVER, TapeEvent.DROP] == [0, 1, 2]
    assert [WAKE, DELIVER, DROP] == [0, 1, 2]


def away(node, *times):
    """Node `node` of three goes and comes at the given times."""
    return Availability([True] * 3, [np.array(times if k == node else (), float) for k in range(3)])


@both
def test_the_clock_of_a_node_that_is_away_rings_in_vain_and_goes_on(mode):
    script = Script([[1.0, 1.0, 1.0], [9.0] * 3, [9.0] * 3], peers={0: [1]}, delays=[0.5, 0.5])
    played = play(script, wakes=3, until=5.0, availability=away(0, 1.5, 2.5), mode=mode)

    assert sorted(played.lines) == [
        (1.0, "wake", 0, [1]),
        (1.5, "deliver", 1, 0, []),
        (2.0, "miss", 0, OFFLINE),
        (3.0, "wake", 0, [1]),
        (3.5, "deliver", 1, 1, []),
    ]
    assert script.missed == [(2.0, 0)]
    assert played.engine.n_wakes == 3


@both
def test_what_arrives_at_a_node_that_is_away_is_lost(mode):
    script = Script([[1.0], [2.0], [9.0]], peers={0: [1], 1: [2]}, delays=[0.5, 0.5])

    assert play(script, availability=away(1, 1.5, 1.75), mode=mode).lines[:3] == [
        (1.0, "wake", 0, [1]),
        (1.5, "drop", 1, 0, RECEIVER_OFFLINE),
        (2.0, "wake", 1, [2]),
    ]


@both
def test_what_is_held_is_delivered_on_return_in_the_order_of_sending(mode):
    script = Script([[1.0], [9.0], [1.2]], peers={0: [1], 2: [1]}, delays=[0.5, 0.1])

    assert play(script, availability=away(1, 1.25, 4.0), held=True, mode=mode).lines == [
        (1.0, "wake", 0, [1]),
        (1.2, "wake", 2, [1]),
        (4.0, "deliver", 1, 0, []),
        (4.0, "deliver", 1, 1, []),
        (9.0, "wake", 1, []),
    ]


@both
def test_what_still_waits_when_nothing_else_can_happen_is_given_up(mode):
    script = Script([[1.0], [2.0], [3.0]], peers={0: [1, 2], 2: [0]}, delays=[0.5, 0.5, 0.5])

    played = play(script, availability=away(1, 1.25, 70.0), held=True, mode=mode)

    assert (
        played.lines
        == [
            (1.0, "wake", 0, [1, 2]),
            (1.5, "deliver", 2, 1, []),
            (2.0, "miss", 1, OFFLINE),
            (3.0, "wake", 2, [0]),
            (3.5, "deliver", 0, 2, []),
            (3.5, "drop", 1, 0, RUN_ENDED),
        ]
        or mode == "stretch"
    )
    assert played.lines[-1] == (3.5, "drop", 1, 0, RUN_ENDED)
    assert played.engine.finished


def test_an_alarm_replaces_the_next_ring():
    class Alarmed(Script):
        def on_wake(self, node, now):
            if node == 0 and now == 1.0:
                self.engine.wake_at(0, 1.5)
            if node == 1:
                self.engine.wake_at(0, 8.0)
            return ()

    script = Alarmed([[1.0, 1.0, 1.0], [2.0, 9.0, 9.0], [9.0] * 3])
    lines = play(script, wakes=3, until=10.0).lines

    assert [line[:3] for line in lines] == [
        (1.0, "wake", 0),
        (1.5, "wake", 0),
        (2.0, "wake", 1),
        (8.0, "wake", 0),
        (9.0, "wake", 2),
    ]


def test_an_alarm_in_the_past_is_refused_and_one_after_the_last_wake_does_nothing():
    played = play(Script([[1.0], [2.0], [3.0]]), until=5.0)

    with pytest.raises(ValueError, match="cannot wake at 4"):
        played.engine.wake_at(0, 4.0)
    played.engine.wake_at(0, 7.0)
    played.engine.run_until(9.0)

    assert played.engine.n_wakes == 3
