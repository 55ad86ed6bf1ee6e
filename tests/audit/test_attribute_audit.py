"""Attribute inference against the brute-force emulation: features, classifier and rates in plain numpy."""

import copy

import numpy as np
import pytest

from gossiprec.base.rng import generator
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.scenario import load_scenario
from tests.attacks.test_attribute_inference import plain_logistic
from tests.audit import brute_force

N, SEED = 24, 4
ATTACK = {
    "name": "attribute-inference",
    "attribute": "gender",
    "features": ["user", "updates"],
    "penalty": 0.5,
}
WORLDS = {
    "coordinator": ({"name": "fedavg", "rounds": 3}, {"who": "coordinator"}),
    "coalition": (
        {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 10},
        {"who": "coalition", "members": [2, 7, 11, 3, 5, 20]},
    ),
}


class Onlooker:
    """Remembers the latest user row and the latest update of every sender that some nodes hear."""

    def __init__(self, world, nodes):
        self.world, self.nodes, self.seen = world, nodes, set()
        self.user, self.updates, self.previous = {}, {}, {}

    def remember(self, time, sender, receiver, sent_at, model):
        if receiver not in self.nodes or (sender, sent_at) in self.seen:
            return
        self.seen.add((sender, sent_at))
        self.user[sender] = model["user"]
        base = self.previous.get(sender)
        if receiver == N:
            base = max((at, sent["items"]) for (node, at), sent in self.world.sent.items() if node == N)[1]
        if base is not None:
            change = model["items"] - base
            amounts = change @ np.linalg.svd(change)[2][0]
            moved = amounts[np.abs(change).any(axis=1)]
            side = 1 if (moved < 0).sum() > (moved > 0).sum() else -1
            self.updates[sender] = amounts * side / np.linalg.norm(amounts)
        self.previous[sender] = model["items"].copy()

    def look(self, *about):
        pass

    def report(self, now):
        return {}


def rates(rows, genders, known, members):
    """Return balanced accuracy and AUC of a classifier of the known users' rows."""
    told = [user for user in known if user in rows and user not in members]
    others = [user for user in rows if user not in known and user not in members]
    table = [np.array([rows[user] for user in users]).astype(np.float32) for users in (told, others)]
    sure = plain_logistic(table[0].astype(float), genders[told], table[1].astype(float), ATTACK["penalty"])
    truth = genders[others]
    halves = [np.mean((sure[truth == code] > 0.5) == code) for code in (0, 1)]
    above = sure[truth == 1][:, None] - sure[truth == 0]
    return np.mean(halves), np.mean(above > 0)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_attribute_inference_is_that_of_the_brute_force(world, tmp_path):
    path = tmp_path / "people.csv"
    genders = np.random.default_rng(2).integers(0, 2, N)
    path.write_text("user,gender\n" + "".join(f"{user},{'fm'[code]}\n" for user, code in enumerate(genders)))
    protocol, who = WORLDS[world]
    scenario = {
        "name": world, "seed": SEED, "plots": False,
        "dataset": {
            "name": "synthetic", "users": N, "items": 40, "interactions": 300, "communities": 2,
            "split": {"name": "random", "test": 0.1, "validation": 0.1}, "user_features": {"path": str(path)},
        },
        "model": {"name": "gmf", "dim": 4, "init_std": 0.5},
        "training": {"batch_size": 16, "learning_rate": 0.03, "eps": 1e-4},
        "protocol": protocol, "observers": [{**ATTACK, **who}], "evaluate": {"every": 1, "metrics": ["hr@5"]},
    }  # fmt: skip
    run = simulate(scenario, out=tmp_path / "run")
    found = {(each["labels"]["features"], each["measure"]): each["value"] for each in run.summary["findings"]}
    split = load_data(load_scenario(run.scenario))
    train, kept = ([part[user].tolist() for user in range(N)] for part in (split.train, split.validation))
    alone = copy.deepcopy(run.scenario) | {"observers": []}
    brute = brute_force.PROTOCOLS[protocol["name"]](run.path, train, kept, split.n_items, alone)
    onlooker = Onlooker(brute, who.get("members", [N]))
    brute.observers = [onlooker]
    list(brute.play())

    known = np.sort(generator(SEED, "known-attributes").permutation(N)[: N // 2])
    for features in ("user", "updates"):
        balanced, auc = rates(getattr(onlooker, features), genders, known, who.get("members", []))
        assert found[features, "attribute_balanced_accuracy"] == pytest.approx(balanced, abs=1e-9)
        assert found[features, "attribute_auc"] == pytest.approx(auc, abs=1e-9)
