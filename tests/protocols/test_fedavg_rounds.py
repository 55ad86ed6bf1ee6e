"""Plays of rounds that wait, and do not wait for ever."""

from __future__ import annotations

import numpy as np
import pytest

from tests.protocols.star_plays import LOST, Script, away, coordinator_lines, fedavg, play


def rounds(n_users, network, *, availability=None, number=2, participation=1.0, ask="all", **options):
    control = fedavg(
        n_users, availability=availability, rounds=number, participation=participation, ask=ask, round=options
    )
    return coordinator_lines(control, play(control, network))


def columns(segment):
    names = ("kind", "node", "message", "count", "time", "factor", "sender", "receiver")
    return [getattr(segment, name).tolist() for name in names]


def test_on_an_instant_network_rounds_that_wait_are_rounds_by_the_clock():
    def tape(**options):
        control = fedavg(6, rounds=5, participation=0.5, **options)
        return columns(play(control, Script(0.0)))

    assert tape(round={}) == tape()


def test_a_round_waits_for_all_and_then_the_next_begins():
    lines = rounds(3, Script(0.25, n1=[2.0]), give_up=50)  # client 1 answers after two units

    assert lines == [
        (1.0, [0, 1, 2]),
        (1.5, 0, 1.0),
        (1.5, 2, 1.0),
        (3.25, 1, 1.0),
        (3.25, [0, 1, 2]),
        (3.75, 0, 1.0),
        (3.75, 1, 1.0),
        (3.75, 2, 1.0),
    ]


def test_a_round_lasts_at_least_as_long_as_it_says():
    times = [line[0] for line in rounds(2, Script(0.25), at_least=0.75, number=3) if len(line) == 2]
    assert times == [1.0, 1.75, 2.5]

    times = [line[0] for line in rounds(2, Script(0.25), at_least=0.0, number=3) if len(line) == 2]
    assert times == [1.0, 1.5, 2.0]


def test_a_deadline_ends_a_round_and_late_answers_count_in_the_next():
    lines = rounds(3, Script(0.25, n1=[4.0]), deadline=2.0, minimum=0.5, at_least=1.0)

    assert lines == [
        (1.0, [0, 1, 2]),
        (1.5, 0, 1.0),
        (1.5, 2, 1.0),
        (3.0, [0, 1, 2]),
        (3.5, 0, 1.0),
        (3.5, 1, 1.0),
        (3.5, 2, 1.0),
        (5.25, 1, 1.0),  # the run's last round has begun, and ends when nothing is left
    ]


def test_late_answers_can_be_discarded_and_are_still_seen():
    lines = rounds(3, Script(0.25, n1=[3.0]), deadline=2.0, late="discard", number=3)

    assert (4.25, 1, 0.0) in lines  # asked at 1, in the round that ended at 3
    assert [line for line in lines if len(line) == 3 and line[2] != 1.0] == [(4.25, 1, 0.0)]


def test_too_few_answers_keep_a_round_open_past_its_deadline():
    network = Script(0.25, n0=[3.0], n1=[4.0], n2=[5.0])
    lines = rounds(4, network, deadline=1.0, minimum=0.5, give_up=9.0)

    assert [line for line in lines if len(line) == 2] == [(1.0, [0, 1, 2, 3]), (4.25, [0, 1, 2, 3])]


def test_a_round_of_which_all_is_lost_is_given_up():
    control = fedavg(2, rounds=2, round={"give_up": 3.0})
    lines = coordinator_lines(control, play(control, Script(0.25, n2=[LOST, LOST])))

    assert lines == [(1.0, [0, 1]), (4.0, [0, 1]), (4.5, 0, 1.0), (4.5, 1, 1.0)]
    assert control.report() == {"rounds": {"n": 2, "mean_answers": 1.0, "late": 0, "given_up": 2}}


def test_a_lost_client_costs_a_round_no_more_than_its_patience():
    lines = rounds(3, Script(0.25, n1=[LOST]), deadline=2.0, minimum=1.0, give_up=3.0)

    assert [line[0] for line in lines if len(line) == 2] == [1.0, 4.0]


def test_an_answer_of_which_the_network_makes_copies_counts_once():
    """Client 1 gets its job twice, trains twice and answers twice; client 0's answer comes twice."""
    for doubled, extra in [((0,), [(1.5, 0, 0.0)]), ((3,), [(1.5, 0, 0.0), (1.5, 1, 0.0), (1.5, 2, 0.0)])]:
        lines = rounds(3, Script(0.25, doubled=doubled), at_least=0.0, number=1)

        assert sorted(lines[1:]) == sorted([(1.5, 0, 1.0), (1.5, 1, 1.0), (1.5, 2, 1.0), *extra])


def test_what_is_sent_to_a_client_that_is_away_is_given_up():
    lines = rounds(3, Script(0.25), availability=away(4, n1=[0.5, 2.0]), give_up=3.0)

    assert lines[:4] == [(1.0, [0, 1, 2]), (1.5, 0, 1.0), (1.5, 2, 1.0), (4.0, [0, 1, 2])]


def test_clients_that_are_away_need_not_be_asked():
    lines = rounds(4, Script(0.25), availability=away(5, n1=[0.5, 1.5], n3=[1.6, 9.0]), ask="online")

    assert [line[1] for line in lines if len(line) == 2] == [[0, 2, 3], [0, 1, 2]]


def test_a_round_that_finds_nobody_asks_again_at_its_deadline():
    everybody = {"n0": [0.5, 5.0], "n1": [0.5, 5.0]}
    lines = rounds(2, Script(0.25), availability=away(3, **everybody), ask="online", deadline=3.0, number=3)

    assert [line for line in lines if len(line) == 2] == [(1.0, []), (4.0, []), (7.0, [0, 1])]


@pytest.mark.parametrize("participation", [0.25, 0.5])
def test_whoever_is_away_changes_only_who_takes_his_place(participation):
    """Sixteen clients, of which 0 is away in every round but the first."""

    def asked(availability):
        lines = rounds(
            16, Script(0.0), availability=availability, ask="online", participation=participation, number=30
        )
        return [set(line[1]) for line in lines if len(line) == 2]

    present, absent = asked(away(17)), asked(away(17, n0=[1.5]))

    assert {len(some) for some in present + absent} == {int(16 * participation)}
    assert present[0] == absent[0]
    for some, others in zip(present[1:], absent[1:], strict=True):
        assert others >= some - {0}
        assert (some == others) == (0 not in some)
    assert any(0 in some for some in present[1:])


def test_online_clients_are_drawn_uniformly():
    """4 of 16 clients in each of 400 rounds: 100 each, standard deviation 8.7; all within 4 of them."""
    control = fedavg(16, rounds=400, participation=0.25, ask="online", round={})
    asked = [line[1] for line in coordinator_lines(control, play(control, Script(0.0))) if len(line) == 2]

    assert np.abs(np.bincount(np.concatenate(asked), minlength=16) - 100).max() < 4 * np.sqrt(400 * 3 / 16)
