"""Plays of the engine: a few nodes, the whole trace."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from gossiprec.compute.tape import Event
from gossiprec.sim.engine import Engine


class Script:
    """A protocol, clock and network whose every answer is written down in the test."""

    node_ids = range(3)

    def __init__(self, intervals, peers=None, delays=(), answers=None):
        self._intervals = {node: list(times) for node, times in enumerate(intervals)}
        self._peers = peers or {}
        self._delays = list(delays)
        self._answers = answers or {}

    def next_interval(self, node):
        return self._intervals[node].pop(0)

    def on_wake(self, node, now):
        return self._peers.get(node, ())

    def on_receive(self, node, message, now):
        return self._answers.get(node, ())

    def delay(self, sender):
        return self._delays.pop(0)


class Trace:
    """Writes down what happens, as words."""

    def __init__(self):
        self.n_messages = 0
        self.lines = []

    def wake(self, time, node, receivers):
        self.lines.append((time, "wake", node, list(receivers)))
        self.n_messages += len(receivers)

    def deliver(self, time, receiver, message, receivers):
        self.lines.append((time, "deliver", receiver, message, list(receivers)))
        self.n_messages += len(receivers)

    def drop(self, time, receiver, message):
        self.lines.append((time, "drop", receiver, message))


def play(script, *, wakes=1, inline=False, until=100.0):
    trace = Trace()
    engine = Engine(control=script, clock=script, network=script, recorder=trace, wakes=wakes, inline=inline)
    engine.run_until(until)
    return SimpleNamespace(lines=trace.lines, engine=engine)


def test_nodes_wake_in_the_order_of_their_times():
    lines = play(Script([[2.0, 2.0], [3.0, 0.5], [1.0, 9.0]]), wakes=2).lines

    assert lines == [
        (1.0, "wake", 2, []),
        (2.0, "wake", 0, []),
        (3.0, "wake", 1, []),
        (3.5, "wake", 1, []),
        (4.0, "wake", 0, []),
        (10.0, "wake", 2, []),
    ]


def test_a_message_arrives_one_latency_after_it_was_sent():
    lines = play(Script([[1.0], [2.0], [3.0]], peers={0: [1, 2]}, delays=[0.25, 5.0])).lines

    assert lines == [
        (1.0, "wake", 0, [1, 2]),
        (1.25, "deliver", 1, 0, []),
        (2.0, "wake", 1, []),
        (3.0, "wake", 2, []),
        (6.0, "deliver", 2, 1, []),
    ]


def test_later_messages_may_overtake():
    lines = play(Script([[1.0], [9.0], [9.0]], peers={0: [1, 2]}, delays=[5.0, 0.5])).lines

    assert [line for line in lines if line[1] == "deliver"] == [
        (1.5, "deliver", 2, 1, []),
        (6.0, "deliver", 1, 0, []),
    ]


def test_a_lost_message_is_dropped_when_it_is_sent():
    lines = play(Script([[1.0], [9.0], [9.0]], peers={0: [1, 2]}, delays=[None, 0.5])).lines

    assert lines[:3] == [(1.0, "wake", 0, [1, 2]), (1.0, "drop", 1, 0), (1.5, "deliver", 2, 1, [])]


def test_ties_run_in_the_order_of_scheduling():
    script = Script([[1.0, 1.0], [1.0, 9.0], [2.0, 9.0]], peers={0: [1], 1: [0]}, delays=[1.0, 0.0, 0.0, 0.0])

    lines = play(script, wakes=2, until=2.5).lines

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
    played = play(Script([[1.0], [2.0], [3.0]], peers={0: [1, 2]}), inline=True)

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


def test_it_is_finished_when_the_last_message_has_arrived():
    played = play(Script([[1.0], [2.0], [3.0]], peers={2: [0]}, delays=[4.0]), until=5.0)
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
    """The tape and the compiled planner write them as plain numbers."""
    assert [Event.WAKE, Event.DELIVER, Event.DROP] == [0, 1, 2]
