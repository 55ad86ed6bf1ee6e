"""Clients chosen in proportion to groups, and their pauses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.network.protocols.round_policy import group_quotas, sample_proportionally
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny
from tests.protocols.star_plays import Script, away, coordinator_lines, fedavg, play


def asked(control):
    return [line[1] for line in coordinator_lines(control, play(control, Script(0.0))) if len(line) == 2]


def test_quotas_are_shares_rounded_down():
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, -1])
    assert group_quotas(groups, 9).tolist() == [3, 2, 1]  # 3.6, 2.7, 1.8
    assert group_quotas(np.full(10, -1), 5).tolist() == []


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.integers(-1, 4), min_size=1, max_size=40),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_each_group_has_its_quota_and_all_places_are_taken(groups, share, seed):
    of, draw = np.array(groups, np.int64), np.random.default_rng(seed)
    candidates = np.flatnonzero(draw.random(len(of)) < 0.8)
    count = int(share * len(of))
    chosen = sample_proportionally(candidates, draw.random(len(candidates)), of, count)
    assert len(chosen) == len(set(chosen.tolist())) == min(count, len(candidates))
    assert np.isin(chosen, candidates).all()
    assert (np.diff(chosen) > 0).all()
    for group, quota in enumerate(group_quotas(of, count)):
        there = int((of[candidates] == group).sum())
        assert (of[chosen] == group).sum() >= min(quota, there)


def test_without_groups_the_lowest_lots_are_chosen():
    candidates, lots = np.array([2, 5, 6, 9]), np.array([0.4, 0.1, 0.9, 0.2])
    assert sample_proportionally(candidates, lots, np.full(10, -1), 2).tolist() == [5, 9]


def test_a_group_of_which_nobody_is_there_leaves_its_places_to_others():
    groups = np.array([0, 0, 0, 1, 1, 1])
    assert sample_proportionally(np.array([3, 4, 5]), np.array([0.3, 0.1, 0.2]), groups, 2).tolist() == [4, 5]


def test_groups_are_chosen_from_as_the_protocol_is_told_of_them():
    control = fedavg(12, rounds=30, participation=0.5, choose="proportional")
    groups = np.array([0] * 8 + [1] * 4)
    control.receive_values(np.arange(12), groups, np.zeros(12, np.float32))
    for some in asked(control):
        assert (groups[some] == 1).sum() == 2
    uniform = fedavg(12, rounds=30, participation=0.5, choose="proportional")
    assert {(groups[some] == 1).sum() for some in asked(uniform)} != {2}


def test_who_was_asked_pauses():
    rounds = asked(fedavg(10, rounds=40, participation=0.3, pause=2))
    for before, between, now in zip(rounds, rounds[1:], rounds[2:], strict=False):
        assert len(now) == 3
        assert not set(now) & (set(before) | set(between))


def test_where_too_few_have_paused_those_asked_longest_ago_are_asked_again():
    rounds = asked(fedavg(5, rounds=20, participation=0.6, pause=1))
    for before, now in itertools.pairwise(rounds):
        assert len(now) == 3
        assert set(now) >= set(range(5)) - set(before)


def test_who_is_away_is_not_asked_and_its_group_is_filled_up():
    control = fedavg(
        6, rounds=10, participation=0.5, choose="proportional", ask="online",
        availability=away(7, n0=(0.0, 100.0), n1=(0.0, 100.0)),
    )  # fmt: skip
    control.receive_values(np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.zeros(6, np.float32))
    for some in asked(control):
        assert len(some) == 3
        assert not {0, 1} & set(some)
        assert 2 in some


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slice": 4, "pause": 1}, "found slice and pause"),
        ({"slice": 4, "choose": "proportional"}, "found slice and choose proportional"),
        ({"choose": "evenly"}, "protocol.choose: found 'evenly'"),
        ({"pause": -1}, "protocol.pause: found -1"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        load_scenario(tiny(protocol={"name": "fedavg", "rounds": 2, **options}))
