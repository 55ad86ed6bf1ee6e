"""Plays of buffered asynchronous aggregation."""

from __future__ import annotations

import pytest

from tests.protocols.star_plays import LOST, Script, away, coordinator_lines, fedavg, play


def lines_of(control, network):
    return coordinator_lines(control, play(control, network))


def buffered(n_users, *, availability=None, number=3, ask="all", **options):
    return fedavg(
        n_users,
        availability=availability,
        rounds=number,
        ask=ask,
        aggregation={"name": "buffered", **options},
    )


def asked(lines):
    return [line for line in lines if len(line) == 2]


def answers(lines):
    return [line for line in lines if len(line) == 3]


def test_a_version_is_published_after_every_so_many_answers():
    """Three of five clients at work, two answers a version; client 0 takes long."""
    control = buffered(5, buffer=2, concurrency=3, staleness={"law": "polynomial", "exponent": 1.0})
    network = Script(0.25, n0=[6.0], n1=[1.0], n2=[1.5], n3=[2.0] * 3, n4=[2.5])

    assert lines_of(control, network) == [
        (1.0, [0, 3, 4]),
        (3.25, 3, 1.0),
        (3.75, 4, 1.0),
        (3.75, [2, 3]),  # of 1, 2, 3 and 4: client 0 is at work
        (5.5, 2, 1.0),
        (6.0, 3, 1.0),
        (6.0, [1, 3]),
        (7.25, 0, 1 / 3),  # two versions were published since it was asked
        (7.25, 1, 1.0),
        (
            8.25,
            3,
            1.0,
        ),  # the last version has been published: these answers come to the coordinator all the same
    ]


def test_as_many_clients_are_asked_as_have_answered_and_none_that_is_at_work():
    control = buffered(12, buffer=3, concurrency=7, number=200, give_up=100.0)
    lines = lines_of(control, Script(0.5, **{f"n{i}": [0.1 + i**0.5] * 300 for i in range(12)}))
    working = set()
    for line in lines:
        if len(line) == 3:
            working.remove(line[1])
        else:
            assert not working & set(line[1])
            working |= set(line[1])
            assert len(working) == 7
    assert [len(some) for _, some in asked(lines)] == [7] + [3] * 199


def test_an_answer_weighs_less_for_every_version_published_since_its_client_was_asked():
    staleness = {"law": "polynomial", "exponent": 0.5}
    control = buffered(4, buffer=1, concurrency=2, number=4, staleness=staleness)
    lines = lines_of(control, Script(0.0, n0=[0.1] * 9, n1=[0.2] * 9, n2=[9.0] * 9, n3=[0.15] * 9))
    published, seen = 0, {}
    for line in lines:
        if len(line) == 2:
            published += 1
            seen.update(dict.fromkeys(line[1], published))
        else:
            assert line[2] == pytest.approx((1 + published - seen[line[1]]) ** -0.5)
    assert {round(line[2], 3) for line in answers(lines)} > {1.0}


def test_staleness_weighs_late_answers_by_the_clock_too():
    control = fedavg(2, rounds=2, aggregation={"name": "synchronous", "staleness": {"law": "polynomial"}})

    lines = coordinator_lines(control, play(control, Script(0.25, n1=[1.0])))

    assert answers(lines) == [(1.5, 0, 1.0), (2.25, 1, 2**-0.5), (2.5, 0, 1.0), (2.5, 1, 1.0)]


def test_clients_that_do_not_answer_are_replaced():
    """All that the first two clients send is lost: the buffer cannot be filled, and at 1 + 3 others are asked."""
    control = buffered(4, buffer=2, concurrency=2, give_up=3.0, number=2)
    first = asked(lines_of(control, Script(0.25)))[0][1]
    control = buffered(4, buffer=2, concurrency=2, give_up=3.0, number=2)
    lines = lines_of(control, Script(0.25, **{f"n{i}": [LOST] for i in first}))

    assert [line[0] for line in asked(lines)] == [1.0, 4.0]
    assert len(asked(lines)[1][1]) == 2
    assert control.report()["rounds"] == {"n": 2, "mean_answers": 1.0, "late": 0, "given_up": 2}


def test_a_buffer_that_lost_clients_leave_unfilled_is_published_as_it_is():
    """Of three clients two are lost: two answers cannot come any more when the first of them is given up."""
    control = buffered(3, buffer=2, concurrency=3, give_up=3.0, number=2)
    lines = lines_of(control, Script(0.25, n1=[LOST], n2=[LOST]))

    assert lines[:3] == [(1.0, [0, 1, 2]), (1.5, 0, 1.0), (4.0, [0, 1, 2])]


def test_one_lost_client_of_three_delays_nothing():
    control = buffered(4, buffer=2, concurrency=3, give_up=3.0, number=4)
    lines = lines_of(control, Script(0.25, n1=[LOST] * 9))

    assert [line[0] for line in asked(lines)][:2] == [1.0, 1.5]


@pytest.mark.parametrize(("late", "weight"), [("count", 1.0), ("discard", 0.0)])
def test_an_answer_of_a_replaced_client_counts_or_is_discarded(late, weight):
    control = buffered(2, buffer=1, concurrency=1, give_up=2.0, late=late, number=2)
    first = asked(lines_of(control, Script(0.25)))[0][1]
    control = buffered(2, buffer=1, concurrency=1, give_up=2.0, late=late, number=2)
    lines = lines_of(control, Script(0.25, **{f"n{first[0]}": [4.0]}))

    assert [line[0] for line in asked(lines)] == [1.0, 3.0]
    assert (5.25, first[0], weight) in lines


def test_fewer_clients_than_a_buffer_fill_it_when_all_have_answered():
    gone = {f"n{i}": [0.5, 50.0] for i in range(3)}
    control = buffered(4, availability=away(5, **gone), buffer=3, concurrency=4, ask="online", number=3)
    lines = lines_of(control, Script(0.25))

    assert lines[:4] == [(1.0, [3]), (1.5, 3, 1.0), (1.5, [3]), (2.0, 3, 1.0)]


def test_when_nobody_is_there_the_coordinator_tries_again_later():
    gone = {f"n{i}": [0.5, 3.5] for i in range(3)}
    control = buffered(3, availability=away(4, **gone), buffer=1, concurrency=2, ask="online", give_up=2.0)

    assert [(time, len(some)) for time, some in asked(lines_of(control, Script(0.25)))][:3] == [
        (1.0, 0),
        (3.0, 0),
        (5.0, 2),
    ]
