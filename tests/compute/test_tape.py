from __future__ import annotations

from gossiprec.compute.plan.tape import Tape, TapeEvent


def columns(segment):
    return list(
        zip(
            segment.kind.tolist(),
            segment.node.tolist(),
            segment.message.tolist(),
            segment.count.tolist(),
            segment.time.tolist(),
            strict=True,
        )
    )


def test_a_segment_holds_the_events_in_the_order_they_were_written():
    tape = Tape()
    tape.wake(0.5, 2, [0, 1])
    tape.drop(0.5, 1, 1)
    tape.deliver(0.75, 0, 0, [2])
    segment = tape.cut()

    assert columns(segment) == [
        (TapeEvent.WAKE, 2, -1, 2, 0.5),
        (TapeEvent.DROP, 1, 1, 0, 0.5),
        (TapeEvent.DELIVER, 0, 0, 1, 0.75),
    ]
    assert segment.sender.tolist() == [2, 2, 0]
    assert segment.receiver.tolist() == [0, 1, 2]
    assert segment.sent_at.tolist() == [0.5, 0.5, 0.75]


def test_message_ids_go_on_after_a_cut():
    tape = Tape()
    tape.wake(1.0, 0, [1, 2])
    first = tape.cut()
    tape.wake(2.0, 1, [0])
    second = tape.cut()

    assert (first.first_message, second.first_message, tape.n_messages) == (0, 2, 3)
    assert columns(second) == [(TapeEvent.WAKE, 1, -1, 1, 2.0)]
    assert second.sender.tolist() == [1]


def test_what_is_written_after_a_cut_leaves_the_segment_alone():
    tape = Tape()
    tape.wake(1.0, 0, [1])
    segment = tape.cut()
    tape.wake(2.0, 1, [0])

    assert columns(segment) == [(TapeEvent.WAKE, 0, -1, 1, 1.0)]


def test_an_empty_stretch_is_a_segment_without_events():
    tape = Tape()
    tape.wake(1.0, 0, [1])
    tape.cut()
    segment = tape.cut()

    assert columns(segment) == []
    assert segment.sent_at.shape == (0,)
    assert segment.first_message == 1
