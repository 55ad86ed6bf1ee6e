"""Global epochs: all clients in turn, a slice at a wake."""

from __future__ import annotations

import csv

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny
from tests.protocols.star_plays import Script, away, coordinator_lines, fedavg, play


def slices(n_users, *, rounds=3, network=None, **options):
    control = fedavg(n_users, rounds=rounds, **options)
    return [
        line[1]
        for line in coordinator_lines(control, play(control, network or Script(0.0)))
        if len(line) == 2
    ]


def test_every_epoch_asks_everybody_once_in_another_order():
    asked = slices(11, slice=4)
    assert [len(some) for some in asked] == [4, 4, 3] * 3
    epochs = [asked[low : low + 3] for low in (0, 3, 6)]
    for epoch in epochs:
        assert sorted(one for some in epoch for one in some) == list(range(11))
        assert all(some == sorted(some) for some in epoch)
    assert epochs[0] != epochs[1] != epochs[2]
    assert slices(11, slice=4, seed=1) == asked != slices(11, slice=4, seed=2)


def test_a_slice_of_all_is_a_round_of_all():
    assert slices(5, slice=5) == slices(5)


def test_an_epoch_may_end_with_a_wake_that_asks_nobody():
    asked, closed = slices(11, slice=4), slices(11, slice=4, close_epochs=True)
    assert [closed[k] for k in range(12) if k % 4 < 3] == asked
    assert closed[3::4] == [[], [], []]


@pytest.mark.parametrize("round", [{}, {"deadline": 2.0, "give_up": 9.0}])
def test_a_closing_wake_of_rounds_that_wait_takes_no_time(round):
    times = {}
    for close in (False, True):
        control = fedavg(6, rounds=2, slice=3, round=round, close_epochs=close)
        lines = coordinator_lines(control, play(control, Script(0.25)))
        times[close] = [line[0] for line in lines if len(line) == 2]
    assert times[True] == [*times[False][:2], times[False][2], *times[False][2:], times[True][-1]]
    assert len(times[True]) == 6


def test_who_is_away_is_not_asked_and_takes_nobody_elses_place():
    everybody = slices(11, slice=4)
    there = slices(11, slice=4, ask="online", availability=away(12, n3=(0.5, 99.0), n7=(0.5, 99.0)))
    assert there == [[one for one in some if one not in (3, 7)] for some in everybody]


def test_a_slice_is_waited_for():
    control = fedavg(6, rounds=1, slice=3, round={"give_up": 9.0})
    lines = coordinator_lines(control, play(control, Script(0.25, n0=[2.0], n1=[2.0])))
    times = [line[0] for line in lines if len(line) == 2]
    assert times[0] == 1.0
    assert times[1] == 3.25


@pytest.mark.slow
@pytest.mark.full
def test_reports_come_by_epochs(tmp_path):
    protocol = {"name": "fedavg", "rounds": 3, "slice": 5, "client_model": "none", "merge": "touched-mean"}
    run = simulate(tiny(protocol=protocol, evaluate={"every": 1, "metrics": ["hr@5"]}), out=tmp_path / "run")
    with (run.path / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "hr@5"]
    assert [(int(row["round"]), float(row["time"])) for row in rows] == [(1, 3.0), (2, 6.0), (3, 9.0)]
    assert run.summary["status"] == "complete"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slice": 13}, "protocol.slice: found 13, but there are only 12 clients"),
        ({"slice": 4, "participation": 0.5}, "protocol: found slice and participation"),
        (
            {"slice": 4, "aggregation": {"name": "buffered", "concurrency": 12}},
            "protocol: found slice and buffered aggregation",
        ),
        ({"close_epochs": True}, "protocol: found close_epochs but no slice"),
        (
            {"slice": 4, "close_epochs": True, "merge_last": True},
            "protocol: found close_epochs and merge_last",
        ),
        ({"slice": 0}, "protocol.slice: found 0, must be greater than or equal to 1"),
    ],
)
def test_what_does_not_fit_is_refused(options, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(load_scenario(tiny(protocol={"name": "fedavg", "rounds": 2, **options})), out=tmp_path / "r")
    assert not (tmp_path / "r").exists()
