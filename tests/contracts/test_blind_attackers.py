"""An attacker that knows nothing scores at chance on every data set: its interval contains an AUC of 0.5."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ItemScores
from gossiprec.adversaries.attacks.attributes import AttributeScores, LogisticClassifier
from gossiprec.adversaries.attacks.candidates import draw_candidates, membership_of
from gossiprec.emulation.assembly.attacks import AttributeKnowledge
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.scoring.attack_results import AttackResults
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.scenario import load_scenario
from tests.attacks.test_attribute_inference import SHARED
from tests.emulation.tiny_runs import tiny

LISTS = {"name": "file", "form": "lists"}
DATA = {
    "synthetic": {"name": "synthetic"},
    "synthetic-checkins": {"name": "synthetic-checkins"},
    "ml-100k": {"name": "movielens-100k", "path": "ml-100k"},
    "ml-1m": {"name": "movielens-1m", "path": "ml-1m", "limit_users": 400},
    "foursquare": {"name": "foursquare-nyc", "path": "foursquare-nyc", "limit_users": 200},
    "amazon": {**LISTS, "path": "amazon/Office_Products.txt", "limit_users": 400},
    "yelp": {**LISTS, "path": "yelp/train.txt", "limit_users": 400},
    "lastfm": {**LISTS, "path": "lastfm/LastFM.txt.gz", "limit_users": 400},
}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.realdata if "path" in DATA[name] else ()) for name in DATA]
)
def split(request):
    dataset = dict(DATA[request.param])
    if "path" in dataset:
        dataset["path"] = str(SHARED / "data" / dataset["path"])
    if "path" in dataset and not (SHARED / "data").exists():
        pytest.skip("needs shared data")
    return load_data(load_scenario(tiny(dataset={**dataset, "split": {"name": "random"}}, observers=[])))


def findings(split, found):
    rows = AttackResults(Truth(split)).note([("blind", found)], time=1.0, round=1)
    return {row["measure"]: row["value"] for row in rows if row["measure"] != "item_roc"}


@pytest.mark.slow
@pytest.mark.cases(5)
def test_a_blind_attacker_is_at_chance_on_every_data_set(split):
    draw = np.random.default_rng(7)
    pairs = draw_candidates(split.train, split.test, split.n_items, 20, "popularity", 1)
    owners = pairs.row_of_each_value
    scores = draw.normal(size=len(owners))
    found = findings(split, ItemScores(owners, pairs.values, scores, {}, 5, are_candidates=True))
    for unit in ("item", "user"):
        low, high = (found[f"{unit}_auc_{end}"] for end in ("low", "high"))
        assert low - (high - low) / 4 < 0.5 < high + (high - low) / 4  # 99.7 % in place of 95 %
    popularity = np.bincount(split.train.values, minlength=split.n_items)[pairs.values]
    others = popularity - membership_of(split.train, pairs)
    for known in (-others.astype(np.float64), others.astype(np.float64)):
        found = findings(split, ItemScores(owners, pairs.values, known, {}, 5, are_candidates=True))
        assert (found["item_auc"], found["user_auc"]) == (0.5, 0.5)
    ties = findings(split, ItemScores(owners, pairs.values, 0 * scores, {}, 5, are_candidates=True))
    assert (ties["item_auc"], ties["user_auc"]) == (0.5, 0.5)
    for name in ("gender", "age", "occupation") if split.user_features is not None else ():
        known = AttributeKnowledge(split, seed=1)(name, (25.0, 45.0) if name == "age" else (), 0.5)
        victims = np.setdiff1d(np.arange(split.n_users), known.users)
        guesses = draw.dirichlet(np.ones(len(known.classes)), len(victims))
        observers, blind = np.zeros(len(victims), np.int64), LogisticClassifier(1.0)
        found = findings(split, AttributeScores(known, victims, guesses, blind, {}, observers))
        low, high = found["attribute_auc_low"], found["attribute_auc_high"]
        assert low - (high - low) / 4 < 0.5 < high + (high - low) / 4
