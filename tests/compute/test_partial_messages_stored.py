"""Messages that lack numbers: the pieces of a run, found at once, and packed numbers, read in their columns."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.message_encoder import PushLog
from gossiprec.compute.messages import OutgoingTransforms, PushKeys
from gossiprec.compute.partial_messages import PartialMessages, clip_columns, find_pieces
from gossiprec.compute.plan.tape import Behaviour, Op, Tape
from gossiprec.defences import POLICIES
from gossiprec.models import MODELS

LAYOUT = MODELS["mf"](MODELS["mf"].Options()).layout(6)


def chunks(**options):
    policy = POLICIES["chunks"](POLICIES["chunks"].Options(**options), np.array([0, 2]))
    return policy.transform()


def test_pieces_follow_from_the_push_and_the_place_of_the_receiver_and_copies_are_equal():
    transform, outgoing = chunks(pieces=3), OutgoingTransforms(LAYOUT, 4)
    outgoing.add("chunks", transform, np.array([0, 2]))
    behaviours, roles, tape = [Behaviour((Op.TRAIN, Op.PUSH), (Op.BLEND,))], np.zeros(4, np.int64), Tape()
    tape.wake(1.0, 0, [3, 1, 3, 2])  # the network copies a message
    tape.wake(1.5, 1, [0, 2])
    tape.wake(2.0, 2, [])
    tape.wake(2.5, 2, [1, 0])
    segments = [tape.cut()]
    tape.wake(3.0, 2, [3])
    tape.wake(3.5, 0, [2, 2, 1])
    segments.append(tape.cut())

    found = find_pieces(outgoing, 7, segments, behaviours, roles)
    log, expected = PushLog(outgoing.rewrites_messages, roles, behaviours, None), np.full(12, -1)
    for segment in segments:
        log.read_segment(segment)
        for (node, number), event in log.events.items():
            for message in event.messages:
                place, _ = log.place(message, node, number)
                bits = PushKeys(7, np.array([node]), np.array([number])).of(transform.cut.purpose)
                expected[message] = transform.cut.pieces(bits, np.array([place]))[0]

    assert found.tolist() == expected.tolist()
    assert found[0] == found[2]
    assert (found[[4, 5]] == -1).all()
    assert outgoing.only_cuts.tolist() == [True, False, True, False]


def test_columns_in_a_part_of_a_row_are_those_of_the_piece_in_it():
    outgoing = OutgoingTransforms(LAYOUT, 4)
    outgoing.add("chunks", chunks(pieces=3, cut="interleaved"), np.array([0, 2]))
    behaviours, tape = [Behaviour((Op.PUSH,), (Op.BLEND,))], Tape()
    tape.wake(1.0, 0, [1, 2, 3])
    piece = find_pieces(outgoing, 7, [tape.cut()], behaviours, np.zeros(4, np.int64))
    sent = PartialMessages(LAYOUT, outgoing, np.ones(4, np.bool_), np.zeros(4, np.int64), piece)
    columns = sent.columns(np.arange(3), np.zeros(3, np.int64))

    rows = np.tile(np.arange(LAYOUT.shared.stop, dtype=np.float32), (3, 1))
    sent.expand(list(rows), slice(0, LAYOUT.shared.stop), np.arange(3), np.zeros(3, np.int64))
    assert (np.isfinite(rows).sum(axis=0) == 1).all()
    part = slice(4, 11)
    inside = [list(range(*each)) for each in zip(*clip_columns(columns, part), strict=True)]
    assert inside == [np.flatnonzero(np.isfinite(row[part])).tolist() for row in rows]
    own = sent.columns(np.arange(3), np.zeros(3, np.int64), np.zeros(3, np.int32))
    assert (own[2] == 1).all()  # a node mixes with its own whole version


def test_packed_numbers_are_read_in_their_columns_of_every_part_of_a_row():
    stop, at = LAYOUT.shared.stop, LAYOUT.items.start
    columns, values = np.array([0, at + 1, stop - 1], np.int32), np.array([5, 6, 7], np.float32)
    sent = PartialMessages(
        LAYOUT, OutgoingTransforms(LAYOUT, 2), np.ones(2, np.bool_), np.array([0, 3]), np.zeros(0, np.int32)
    )
    for part in (slice(0, stop), LAYOUT.merged):
        row = np.zeros(stop, np.float32)
        row[at : at + 3], row[at + 3 : at + 6].view(np.int32)[:] = values, columns
        some, expected = row[part], np.full(stop, np.nan, np.float32)
        expected[columns] = values
        sent.expand([some], part, np.zeros(1, np.int32), np.ones(1, np.int32))
        np.testing.assert_array_equal(some, expected[part])
    own = np.zeros(stop, np.float32)
    sent.expand([own], slice(0, stop), np.zeros(1, np.int32), np.ones(1, np.int32), np.ones(1, np.int32))
    assert not own.any()  # a node mixes with its own whole version
