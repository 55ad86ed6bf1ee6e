"""Reconstruction of items: the border, the truth joined with it, and uploads that name their items."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ItemSets
from gossiprec.adversaries.attacks.reconstruction import likely_items
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.item_sets import check_item_sets, item_set_findings
from tests.emulation.tiny_runs import tiny


def test_the_border_divides_two_groups_and_lets_no_item_below_zero_through():
    amounts = np.array([0.9, 0.0, -0.2, 1.0, -0.1, -0.3, 0.8, 0.0], np.float32)
    assert likely_items(amounts).tolist() == [0, 3, 6]
    assert likely_items(-np.abs(amounts)).tolist() == []
    assert likely_items(np.array([0, 0, 0.5, 0], np.float32)).tolist() == [2]
    assert likely_items(np.zeros(4, np.float32)).tolist() == []


IS_MEMBER = np.zeros((3, 6), np.bool_)
IS_MEMBER[0, :3] = IS_MEMBER[1, 2:4] = IS_MEMBER[2, 2] = True


def sets(*of_victims):
    """Return the item sets of users 0, 1, ..."""
    sizes = np.array([len(items) for items in of_victims])
    items = np.array([item for items in of_victims for item in items], np.int32)
    return ItemSets(
        np.arange(len(of_victims)), np.concatenate([[0], np.cumsum(sizes)]), items, {"observer": "hub"}
    )


def values_of(found):
    return {
        each.measure.removeprefix("reconstruction_"): each.value
        for each in item_set_findings(found, IS_MEMBER)
    }


def test_sets_are_joined_with_the_truth():
    found = values_of(sets([0, 1, 2], [3, 5], []))
    assert found["precision"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found["recall"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found["f1"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found["exact"] == pytest.approx(1 / 3)
    assert found["heard"] == 1


def test_as_many_items_that_most_other_users_have_are_guessed_next_to_it():
    found = values_of(sets([0, 1, 2], [3, 5], []))
    # besides user 0: two users have item 2 and one has item 3; 0, 1, 4 and 5 tie for the third place
    # besides user 1: two users have item 2; 0 and 1 tie for the second place
    assert found["popularity_precision"] == pytest.approx(((1 + 2 / 4) / 3 + 1 / 2 + 0) / 3)
    alone = values_of(sets([2], [2], [2]))
    assert alone["popularity_recall"] == pytest.approx((1 / 3 + 1 / 2 + 1) / 3)


@pytest.mark.parametrize(
    ("victims", "offsets", "items", "message"),
    [
        ([0], [0, 2], [1], "expected 2 ascending offsets, from 0 to the number of items"),
        ([7], [0, 1], [1], "names victim 7; expected 0 to 2"),
        ([0], [0, 1], [9], "names item 9; expected 0 to 5"),
        ([0], [0, 2], [1, 1], "names an item of a victim twice"),
        (
            [2],
            [0, 1],
            [1],
            "victim 2 is a node of the attack itself, which knows its items; expected other users",
        ),
    ],
)
def test_sets_that_cannot_be_joined_are_refused(victims, offsets, items, message):
    found = ItemSets(np.array(victims), np.array(offsets), np.array(items, np.int32), {})
    with pytest.raises(ScenarioError, match=message):
        check_item_sets("observers: x", found, IS_MEMBER.shape, [np.array([2])])


def found_in(tmp_path, **sections):
    attack = {"name": "reconstruction", "who": "coordinator", "precision_at": 4}
    training = {
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "batch_size": "full",
        "local_epochs": 1,
        "negatives": 4,
    }
    scenario = {"protocol": {"name": "fedavg", "rounds": 2}, "observers": [attack], "training": training}
    dataset = {**tiny()["dataset"], "items": 200}
    run = simulate(tiny(**{**scenario, "dataset": dataset, **sections}), out=tmp_path / "run")
    return {
        each["measure"].removeprefix("reconstruction_"): each["value"] for each in run.summary["findings"]
    }


@pytest.mark.parametrize("client_model", ["own", "none"])
def test_one_gradient_of_a_client_names_its_items_exactly(client_model, tmp_path):
    section = {"client_model": client_model} if client_model == "none" else {}
    found = found_in(tmp_path, protocol={"name": "fedavg", "rounds": 2, **section})
    assert (found["precision"], found["recall"], found["exact"]) == (1, 1, 1)
    assert found["item_auc"] == 1
    assert found["popularity_f1"] < 0.7


def test_noise_hides_the_items(tmp_path):
    policies = [{"name": "ldp", "nodes": "all", "bound": 1.0, "scale": 1.0}]
    found = found_in(tmp_path, policies=policies)
    assert found["exact"] == 0
    assert found["item_auc"] < 0.7
