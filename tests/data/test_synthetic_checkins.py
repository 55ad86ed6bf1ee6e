from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from small_data import dataset

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.cli.data import data as command
from gossiprec.data import load_split
from gossiprec.data.check_ins import SortedCheckIns
from gossiprec.data.reports import move_lengths_km, pairwise_distances_km
from gossiprec.data.split import count_items_per_user, first_interactions

TINY = {"users": 20, "items": 60, "checkins": 400}


def drawn(seed=1, **options):
    return dataset("synthetic-checkins", **options).load(seed)


@pytest.mark.parametrize("options", [{}, TINY, {"users": 50, "items": 20, "checkins": 1000, "areas": 1}])
def test_the_sizes_are_exactly_those_asked_for(options):
    found = drawn(**options)
    sizes = {"users": 120, "items": 600, "checkins": 9600} | options
    assert (found.n_users, found.n_items, len(found.users)) == (
        sizes["users"],
        sizes["items"],
        sizes["checkins"],
    )
    assert count_items_per_user(first_interactions(found)).min() >= 4
    assert found.coordinates.shape == (sizes["items"], 2)


def test_the_same_seed_gives_the_same_check_ins_and_another_seed_others():
    one, two, other = (drawn(seed, **TINY) for seed in (5, 5, 6))
    for name in ("users", "items", "times", "coordinates"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name)) or name == "users"


def test_steps_of_an_outing_are_short_in_time_and_way():
    found = drawn()
    visits = SortedCheckIns.of(found)
    rows = np.flatnonzero(visits.follows)
    km = pairwise_distances_km(
        found.coordinates[visits.items[rows - 1]], found.coordinates[visits.items[rows]]
    )
    soon = visits.gap_minutes[rows] < 360
    assert 0.4 < soon.mean() < 0.8
    assert np.median(km[soon]) < np.median(km[~soon]) / 2


def test_users_of_the_same_home_and_taste_go_to_the_same_places():
    found = load_split("synthetic-checkins", {}, "published", {}, 1).train
    visited = np.zeros((120, 600))
    for user in range(120):
        visited[user, found[user]] = 1
    shared = visited @ visited.T
    np.fill_diagonal(shared, 0)
    by_chance = visited.sum(1)[:, None] * visited.sum(1) / 600
    assert np.median(shared.max(axis=1)) > 3 * by_chance.mean()


@pytest.mark.parametrize("checkins", [159, 1201])
def test_check_ins_that_do_not_fit_are_refused(checkins):
    with pytest.raises(ScenarioError, match=r"160 \(8 each\) to 1200"):
        load_split("synthetic-checkins", TINY | {"checkins": checkins}, "published", {}, 1)


def test_distances_are_great_circles():
    there = np.array([[0.0, 1.0], [0.0, 180.0], [10.0, 20.0]])
    here = np.array([[0.0, 0.0], [0.0, 0.0], [10.0, 20.0]])
    circle = 2 * np.pi * 6371.0088
    assert pairwise_distances_km(here, there) == pytest.approx([circle / 360, circle / 2, 0.0], abs=1e-6)
    assert pairwise_distances_km(here[:0], there[:0]).tolist() == []


@pytest.mark.parametrize("place", [(90.5, 0.0), (0.0, -181.0), (np.nan, 0.0), (0.0, np.inf)])
def test_a_place_off_the_globe_has_no_distance(place):
    with pytest.raises(DataError, match=r"place 1: found latitude .* expected -90 to 90"):
        pairwise_distances_km(np.array([(0.0, 0.0), place]), np.zeros((2, 2)))


def test_antipodes_are_half_a_circle_apart():
    here = np.stack([np.linspace(-89.0, 89.0, 500), np.linspace(-180.0, 0.0, 500)], axis=1)
    half = pytest.approx(np.pi * 6371.0088, rel=1e-7)
    assert pairwise_distances_km(here, here * (-1, 1) + (0, 180)) == half


def test_steps_follow_the_training_moves_with_a_known_previous_place():
    known = load_split("synthetic-checkins", TINY, "published", {}, 1).check_ins
    steps = move_lengths_km(known)
    rows = np.flatnonzero(known.train.previous >= 0)
    assert len(steps) == len(rows) > 0
    first = rows[0]
    one = pairwise_distances_km(
        known.coordinates[known.train.previous[[first]]], known.coordinates[known.train.items.values[[first]]]
    )
    assert steps[0] == one[0]


def stats(*more):
    options = [text for key, value in TINY.items() for text in ("-o", f"{key}={value}")]
    ran = CliRunner().invoke(command, ["stats", *more, *options, "--json"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.output)


def test_the_command_tells_check_ins_times_moves_and_steps():
    told = stats("synthetic-checkins")
    assert (told["users"], told["items"], told["check_ins"], told["share_timed"]) == (20, 60, 400, 1.0)
    assert told["transitions"] == 400 - 20
    assert told["median_gap_minutes"] > 0 < told["median_step_km"]


def test_the_command_tells_the_training_moves_of_a_split():
    told = stats("synthetic-checkins", "--split", "published")
    known = load_split("synthetic-checkins", TINY, "published", {}, 1).check_ins
    assert told["transitions"] == int((known.train.previous >= 0).sum()) < 380
    assert told["median_step_km"] == float(np.median(move_lengths_km(known)))
    assert told["test_with_previous"] == float((known.test.previous >= 0).mean())
