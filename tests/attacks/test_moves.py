"""Reconstruction of moves from updates of prme-g: pulls, directions, and the truth joined with them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gossiprec.adversaries.attacks import MOVE_MEASURES, ItemSets
from gossiprec.adversaries.attacks.reconstruction import MOST_ITEMS, MovedItems, estimate_moves
from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.data.training_data import Transitions
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.emulation.scoring.item_sets import check_item_sets, move_set_findings
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import CITY
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.tiny_runs import tiny

WALK = [(3, 1), (1, 4), (4, 0), (6, 5)]
"""Moves: a walk of three, and one move elsewhere."""


def stepped(moves, negatives, n_items=12, dim=16) -> tuple[F32, F32]:
    """Return rows of items, and their change by one step that pulls moves together and pushes negatives away."""
    rows = np.random.default_rng(0).normal(size=(n_items, dim))
    changes = -0.01 * rows * 0.3
    for (before, after), away in zip(moves, negatives, strict=True):
        for other, sign in ((after, 1), (away, -1)):
            changes[other] += 0.01 * sign * (rows[before] - rows[other])
            changes[before] += 0.01 * sign * (rows[other] - rows[before])
    touched = np.unique([*np.ravel(moves), *negatives])
    changes[np.setdiff1d(np.arange(n_items), touched)] = 0
    return rows.astype(np.float32), changes.astype(np.float32)


def test_one_step_of_gradient_descent_reveals_all_moves_and_their_direction():
    before, after = estimate_moves(MovedItems.of(*stepped(WALK, [7, 8, 9, 10])))
    assert sorted(zip(before.tolist(), after.tolist(), strict=True)) == sorted(WALK)


def test_of_an_update_that_moves_many_items_those_that_moved_furthest_are_kept():
    changes = np.zeros((MOST_ITEMS + 3, 2), np.float32)
    changes[:-1, 1] = np.arange(1, MOST_ITEMS + 3)
    moved = MovedItems.of(np.ones_like(changes), changes)
    assert moved.items.tolist() == list(range(2, MOST_ITEMS + 2))
    assert moved.changes[0].tolist() == [0, 3]


def test_an_update_that_moves_at_most_one_item_reveals_no_move():
    for n in (0, 1):
        changes = np.zeros((5, 3), np.float32)
        changes[:n] = 1
        assert estimate_moves(MovedItems.of(np.ones((5, 3), np.float32), changes))[0].tolist() == []


MOVES = Transitions(  # 0: 1 -> 2 -> 3 and 2 -> 2; 1: 1 -> 2; 2: an unknown item before 0
    Ragged.from_parts([np.array(each, np.int32) for each in ([2, 3, 2], [2], [0])]),
    np.array([1, 2, 2, 1, -1], np.int32),
    np.zeros(5, np.float32),
)


def moves_of(*of_victims):
    pairs = [np.array(each, np.int32).reshape(-1, 2) for each in of_victims]
    together, sizes = np.concatenate(pairs), [len(each) for each in pairs]
    offsets = np.cumsum([0, *sizes])
    return ItemSets(np.arange(len(pairs)), offsets, together[:, 1], {}, together[:, 0])


def test_moves_are_joined_with_the_truth_next_to_the_most_popular_moves():
    found = moves_of([(1, 2), (3, 2), (0, 3)], [(1, 2)], [(0, 1)])
    values = {each.measure: each.value for each in move_set_findings(found, MOVES, 4)}
    assert set(values) == set(MOVE_MEASURES)
    assert values["moves_precision"] == pytest.approx((1 / 3 + 1) / 2)  # user 2 has no known move
    assert values["moves_recall"] == pytest.approx((1 / 2 + 1) / 2)
    assert values["moves_f1"] == pytest.approx((2 / 5 + 1) / 2)
    # by other users: 1 -> 2 and two of the 11 moves that no other user makes; one of 1 -> 2 and 2 -> 3
    assert values["moves_popularity_recall"] == pytest.approx(((1 + 2 / 11) / 2 + 1 / 2) / 2)
    assert values["moves_order"] == pytest.approx((1 / 2 + 1) / 2)  # 3 -> 2 is the wrong way
    assert values["moves_heard"] == 1


def test_a_move_of_a_victim_that_is_named_twice_is_refused():
    check_item_sets("observers: x", moves_of([(1, 2), (3, 2)]), (3, 4), [])
    with pytest.raises(ScenarioError, match="twice"):
        check_item_sets("observers: x", moves_of([(1, 2), (1, 2)]), (3, 4), [])
    with pytest.raises(ScenarioError, match="names item 9"):
        check_item_sets("observers: x", moves_of([(9, 2)]), (3, 4), [])


def city(**sections):
    return tiny(
        **{
            "dataset": CITY,
            "model": {"name": "prme-g", "dim": 24},
            "training": {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 16, "negatives": 2},
            "protocol": {"name": "fedavg", "rounds": 4, "participation": 0.3},
            "observers": [
                {"name": "reconstruction", "who": "coordinator", "moves": True, "item_scores": False}
            ],
            "executor": {"name": "fused"},
            "evaluate": {"every": 1, "metrics": ["hr@5"]},
            **sections,
        }
    )


@pytest.mark.slow
def test_a_coordinator_finds_moves_and_their_order_and_a_resumed_run_finds_the_same(tmp_path):
    scenario = city()
    run = simulate(scenario, out=tmp_path / "whole")
    found = {
        row["measure"]: row["value"]
        for row in json.loads((run.path / "summary.json").read_text())["findings"]
    }
    assert found["moves_f1"] > 2 * found["moves_popularity_f1"]
    assert found["moves_order"] > 0.6  # half of the directions are right by chance
    broken = ended_early(tmp_path / "broken", scenario, 3)
    assert outcome(resume(broken.path).path) == outcome(run.path)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"model": {"name": "gmf"}}, "found the model gmf, which learns no moves"),
        (
            {
                "protocol": {"name": "rand-gossip", "wakes": 2},
                "observers": [{"name": "reconstruction", "who": "single", "moves": True}],
            },
            "found who: single; expected coordinator",
        ),
    ],
)
def test_moves_are_refused_if_nothing_is_known_of_them(sections, problem):
    with pytest.raises(ScenarioError, match=problem):
        prepare(load_scenario(city(**sections)))
