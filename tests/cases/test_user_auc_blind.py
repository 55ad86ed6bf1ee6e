"""Attackers that see no message: their intervals contain chance."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ItemScores
from gossiprec.adversaries.attacks.candidates import draw_candidates, membership_of
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.scoring.attack_results import AttackResults
from gossiprec.emulation.scoring.item_scores import other_users, scores_of_sets
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

SIZES = {"60x600": (60, 600, 1800), "60x150": (60, 150, 1800), "300x800": (300, 800, 20000)}
"""Users, items and interactions."""


def standardised(scores, victims):
    found = np.array(scores, np.float64)
    for victim in np.unique(victims):
        own = victims == victim
        found[own] = (scores[own] - scores[own].mean()) / scores[own].std()
    return found


BLIND = {
    "fewer other users": lambda others, victims: -others,
    "more other users": lambda others, victims: others,
    "fewer, standardised by victim": lambda others, victims: standardised(-others, victims),
    "more, standardised by victim": standardised,
    "random": lambda others, victims: np.random.default_rng(3).normal(size=len(others)),
}


def data_set(size):
    users, items, interactions = SIZES[size]
    dataset = {"name": "synthetic", "users": users, "items": items, "interactions": interactions}
    split = {"name": "leave_last_k", "test": 3}
    return load_data(load_scenario(tiny(dataset={**dataset, "split": split}, observers=[])))


class Blind:
    """A data set, candidates, and the results of an attacker that scores them without any message."""

    def __init__(self, size, non_members="popularity"):
        self.split = split = data_set(size)
        self.pairs = draw_candidates(split.train, split.test, split.n_items, 50, non_members, 1)
        self.truth = membership_of(split.train, self.pairs)
        self.is_member = np.zeros((split.n_users, split.n_items), np.bool_)
        self.is_member[split.train.row_of_each_value, split.train.values] = True

    def scores(self, score):
        victims, items = self.pairs.row_of_each_value, self.pairs.values
        others = self.is_member.sum(axis=0)[items] - self.is_member[victims, items]
        return ItemScores(
            victims, items, score(others.astype(np.float64), victims), {}, 5, are_candidates=True
        )

    def findings(self, score):
        record = AttackResults(Truth(self.split))
        rows = record.note([("blind", self.scores(score))], time=1.0, round=1)
        return {row["measure"]: row["value"] for row in rows if row["measure"] != "item_roc"}


@pytest.fixture(scope="module", params=slow_except_first(SIZES))
def blind(request):
    return Blind(request.param)


@pytest.mark.parametrize("score", BLIND)
@pytest.mark.cases(7)
def test_an_attacker_that_sees_no_message_is_at_chance(blind, score):
    found = blind.findings(BLIND[score])
    for unit in ("item", "user"):
        assert found[f"{unit}_auc_low"] <= 0.5 <= found[f"{unit}_auc_high"]
        if score != "random":  # as many other users have the training items as the other candidates
            assert (found[f"{unit}_auc"], found[f"{unit}_advantage"]) == (0.5, 0.0)
    assert found["item_auc_popularity"] == 0.5


@pytest.mark.parametrize("score", BLIND)
def test_it_tells_no_victims_own_two_sets_apart(blind, score):
    found = blind.scores(BLIND[score])
    sets, is_own = scores_of_sets(
        found, blind.truth, other_users(found, blind.truth, blind.is_member), seed=1
    )
    won = sets.scores[is_own] - sets.scores[~is_own]
    assert len(won) == blind.split.n_users
    if score != "random":
        assert not won.any()
    else:
        assert np.mean(won > 0) == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / len(won)))


@pytest.mark.parametrize("score", BLIND)
def test_against_uniform_items_the_auc_of_popularity_is_next_to_the_attackers(score):
    found = Blind("60x150", "uniform").findings(BLIND[score])
    measures = list(found)
    assert measures[measures.index("item_auc") + 1] == "item_auc_popularity"
    assert found["item_auc_popularity"] > 0.7
    if score == "more other users":
        assert found["item_auc"] == found["item_auc_popularity"]
    if score != "random":
        assert found["user_auc"] == 0.5
