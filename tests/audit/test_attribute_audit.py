"""Attribute inference and reconstruction against the brute-force emulation, in plain numpy."""

import copy
import itertools

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
RING = {
    "name": "rand-gossip", "fanout": 2, "view": {"graph": {"family": "ring", "k": 2}}, "wakes": 6,
}  # fmt: skip
WORLDS = {
    "distance": (RING, {"who": "coalition", "members": [8, 13, 18, 23], "hops": 2}),
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


def at_distance(rows, members, hops):
    """Return the rows of users some hops from the members of a ring; of those not heard, means of nearer ones."""
    distance = [min(min((user - m) % N, (m - user) % N) for m in members) for user in range(N)]
    near = {user: row for user, row in rows.items() if distance[user] == 1}
    if hops == 1:
        return near
    found = {}
    for user in range(N):
        relays = [near[peer] for peer in ((user - 1) % N, (user + 1) % N) if peer in near]
        if distance[user] == hops and relays:
            found[user] = np.mean(relays, axis=0)
    return found


def rates(rows, genders, known, members):
    """Return the accuracy in each class, and the AUC, of a classifier of the known users' rows."""
    told = [user for user in known if user in rows and user not in members]
    others = [user for user in rows if user not in known and user not in members]
    table = [np.array([rows[user] for user in users]).astype(np.float32) for users in (told, others)]
    sure = plain_logistic(table[0].astype(float), genders[told], table[1].astype(float), ATTACK["penalty"])
    truth = genders[others]
    halves = [np.mean((sure[truth == code] > 0.5) == code) for code in (0, 1)]
    above = sure[truth == 1][:, None] - sure[truth == 0]
    return halves, np.mean(above > 0)


def reconstructed(amounts):
    """Return the items above the border, at least 0, that divides the amounts of moved items best (Otsu)."""
    moved = np.flatnonzero(amounts)
    values = np.sort(amounts[moved])
    parted = [
        (k * (len(values) - k) * (values[:k].mean() - values[k:].mean()) ** 2, values[k - 1 : k + 1].mean())
        for k in range(1, len(values))
    ]
    return set(moved[amounts[moved] > max(0.0, max(parted)[1])].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.cases(1)
def test_attributes_and_items_are_those_of_the_brute_force(world, tmp_path):
    path = tmp_path / "people.csv"
    genders = np.random.default_rng(2).integers(0, 2, N)
    path.write_text("user,gender\n" + "".join(f"{user},{'fm'[code]}\n" for user, code in enumerate(genders)))
    protocol, who = WORLDS[world]
    observer = {key: value for key, value in who.items() if key != "hops"}
    scenario = {
        "name": world, "seed": SEED, "plots": False,
        "dataset": {
            "name": "synthetic", "users": N, "items": 40, "interactions": 300, "communities": 2,
            "split": {"name": "random", "test": 0.1, "validation": 0.1}, "user_features": {"path": str(path)},
        },
        "model": {"name": "gmf", "dim": 4, "init_std": 0.5},
        "training": {"batch_size": 16, "learning_rate": 0.03, "eps": 1e-4},
        "protocol": protocol,
        "observers": [{**ATTACK, **who}, {**observer, "name": "reconstruction", "item_scores": False}],
        "evaluate": {"every": 1, "metrics": ["hr@5"], "groups": [{"by": "gender"}]},
    }  # fmt: skip
    run = simulate(scenario, out=tmp_path / "run")
    findings = [
        (
            *(each["labels"].get(name) for name in ("features", "hops", "gender")),
            each["measure"],
            each["value"],
        )
        for each in run.summary["findings"]
        if each["attack"] == "attribute-inference"
    ]
    found = {tuple(each[:4]): each[4] for each in findings}
    assert len(found) == len(findings)
    split = load_data(load_scenario(run.scenario))
    train, kept = ([part[user].tolist() for user in range(N)] for part in (split.train, split.validation))
    alone = copy.deepcopy(run.scenario) | {"observers": []}
    brute = brute_force.PROTOCOLS[protocol["name"]](run.path, train, kept, split.n_items, alone)
    onlooker = Onlooker(brute, who.get("members", [N]))
    brute.observers = [onlooker]
    list(brute.play())

    known = np.sort(generator(SEED, "known-attributes").permutation(N)[: N // 2])
    members = who.get("members", [])
    rates_of_sets = []
    for user in set(onlooker.updates) - set(members):
        guess, true = reconstructed(onlooker.updates[user]), set(train[user])
        hits = len(guess & true)
        rates_of_sets.append((hits / len(guess), hits / len(true), 2 * hits / (len(guess) + len(true))))
    of_sets = {each["measure"]: each["value"] for each in run.summary["findings"]}
    for name, value in zip(("precision", "recall", "f1"), np.mean(rates_of_sets, axis=0), strict=True):
        assert of_sets[f"reconstruction_{name}"] == pytest.approx(value, abs=1e-9)
    for features, hops in itertools.product(("user", "updates"), (1, 2) if "hops" in who else (None,)):
        rows = getattr(onlooker, features)
        halves, auc = rates(at_distance(rows, members, hops) if hops else rows, genders, known, members)
        about = features, hops
        assert found[*about, None, "attribute_auc"] == pytest.approx(auc, abs=1e-9)
        assert found[*about, None, "attribute_balanced_accuracy"] == pytest.approx(np.mean(halves), abs=1e-9)
        for gender, share in zip("fm", halves, strict=True):
            assert found[*about, gender, "group_attribute_accuracy"] == pytest.approx(share, abs=1e-9)
