"""Runs with top-k and random-k against plain numpy, written from docs/policies.md: what is sent, kept, and remembered.

The runs are played from their event logs by :mod:`tests.audit.brute_force`, with nodes that train by plain gradient
descent, remember the sum of their local updates to each number since it was last sent, and send part of the numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

import gossiprec
from gossiprec.base.rng import philox_words, purpose_id
from gossiprec.defences import sparsify, top_k
from gossiprec.numerics import partial_rows
from tests.audit import brute_force
from tests.audit.planted import plant
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

N_USERS, N_ITEMS, DIM = 12, 40, 3
N_NUMBERS = DIM + N_ITEMS * DIM + DIM + 1
ORDER = ("user", "items", "weight", "bias")
GOSSIP = {"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 6, "wake": {"law": "exponential"}}
FEDERATION = {"name": "fedavg", "rounds": 5, "participation": 0.7}
PULL = {"name": "push-pull", "exchange": "pull", "receivers": 2, "wakes": 6, "wake": {"law": "exponential"}}
ALONE = {"sessions": [{"nodes": {"fraction": 0.95}, "period": 6, "offline_from": 1, "offline_until": 4}]}
LATE = {"latency": {"law": "exponential", "mean": 0.5}}
CASES = {
    "top-k in gossip": (GOSSIP, {"name": "top-k", "share": 0.22}),
    "top-k in a federation": (FEDERATION, {"name": "top-k", "share": 0.22}),
    "random-k in gossip": (GOSSIP, {"name": "random-k", "k": 30}),
    "random-k in a federation": (FEDERATION, {"name": "random-k", "k": 30}),
    "top-k, trained on receive": ({**GOSSIP, "train_on": "receive"}, {"name": "top-k", "share": 0.22}),
    "top-k, alone at some wakes": (GOSSIP, {"name": "top-k", "share": 0.22}),
    "top-k, sent on request": (PULL, {"name": "top-k", "share": 0.22}),
}


def flat(model):
    return np.concatenate([np.ravel(model[name]) for name in ORDER])


def parts(numbers):
    """Return a model of numbers in order."""
    ends = np.cumsum([DIM, N_ITEMS * DIM, DIM])
    user, items, weight, bias = np.split(numbers, ends)
    return {"user": user, "items": items.reshape(N_ITEMS, DIM), "weight": weight, "bias": bias}


def hashed(column, key):
    """Return 32 random bits of a column: the finaliser of MurmurHash3."""
    word = (column * 0x9E3779B1 + key) % 2**32
    word = (word ^ word >> 16) * 0x85EBCA6B % 2**32
    word = (word ^ word >> 13) * 0xC2B2AE35 % 2**32
    return word ^ word >> 16


class SparseNode(brute_force.Node):
    """A node that trains by plain gradient descent and sends k numbers, with error feedback."""

    def __init__(self, node, policy, *, adopts):
        vars(self).update(vars(node))
        self.policy, self.adopts = policy, adopts
        self.k = policy.get("k") or round(policy["share"] * N_NUMBERS)
        self.unsent, self.pushes = np.zeros(N_NUMBERS), 0

    def step(self, items, labels, start):
        for name, slope in brute_force.gradients(self.model, items, labels).items():
            self.model[name] = self.model[name] - self.scenario["training"]["learning_rate"] * slope

    def train(self):
        self.before = flat(self.model)
        super().train()
        self.unsent += flat(self.model) - self.before

    def chosen(self):
        """Return the places of the numbers to send."""
        if self.policy["name"] == "top-k":
            return np.argsort(-np.abs(self.unsent), kind="stable")[: self.k]
        words = philox_words(self.scenario["seed"], 0, self.pushes, self.number, purpose_id("random-k"))
        key = int(np.ravel(words)[0])
        return sorted(range(N_NUMBERS), key=lambda column: -hashed(column, key))[: self.k]

    def message(self):
        """Return the numbers that are sent; NaN for the others."""
        places, values = self.chosen(), flat(self.model)
        if self.adopts:  # the model is given up, so that what was not sent comes on top of the version
            values[DIM:] = self.before[DIM:] + self.unsent[DIM:]
        sent = np.full(N_NUMBERS, np.nan)
        sent[places] = values[places]
        self.unsent[places] = 0.0
        self.pushes += 1
        return parts(sent)

    def merge(self, received, kept):
        """Merge what was sent; keep the own value of the other numbers."""
        for name in brute_force.TRAVELS:
            own, other = self.model[name], received[name]
            self.model[name] = np.where(np.isnan(other), own, kept * own + (1 - kept) * other)


class Gossip(brute_force.RandGossip):
    def prepare(self):
        self.nodes = [SparseNode(node, self.policy, adopts=False) for node in self.nodes]
        events = [self.log.events(kind) for kind in ("message", "drop")]
        self.pushes = {push for each in events for push in brute_force.rows(each, "sender", "sent_at")}

    def send(self, time, node):
        if (node, time) in self.pushes:  # else the node has no receivers
            super().send(time, node)


class Pull(Gossip):
    """Nodes train at wakes and send their model on request, at the times that the log has."""

    def prepare(self):
        super().prepare()
        self.due = sorted(brute_force.rows(self.log.events("message"), "sent_at", "sender"))

    def send_until(self, time):
        while self.due and self.due[0][0] <= time:
            at, node = self.due.pop(0)
            self.send(at, node)

    def wake(self, time, node):
        self.send_until(time)
        self.nodes[node].train()

    def receive(self, time, *what):
        self.send_until(time)
        super().receive(time, *what)

    def merge(self, sender, receiver, model):
        receiver.merge(model, 0.5)


class Federation(brute_force.FedAvg):
    def prepare(self):
        super().prepare()
        self.nodes = [SparseNode(node, self.policy, adopts=True) for node in self.nodes]

    def average(self):
        """Average each number over the answers that hold it; the version keeps the others."""
        weights = np.array([weight for weight, _ in self.answers], float)
        models = np.array([flat(answer) for _, answer in self.answers])
        there = ~np.isnan(models)
        mass = weights @ there
        mean = np.divide(weights @ np.where(there, models, 0.0), mass, out=flat(self.before), where=mass > 0)
        self.coordinator.model = parts(mean)

    def wake(self, time, node):
        self.before = {name: part.copy() for name, part in self.coordinator.model.items()}
        super().wake(time, node)


WORLDS = {"fedavg": Federation, "rand-gossip": Gossip, "push-pull": Pull}


def agree(case, folder):
    """Return whether all models at the end of a run are those of plain numpy."""
    protocol, policy = CASES[case]
    network = {} if protocol["name"] == "fedavg" else {"network": LATE}
    network |= {"churn": ALONE} if "alone" in case else {}
    scenario = tiny(
        model={"name": "gmf", "dim": DIM, "init_std": 0.5}, protocol=protocol,
        training={"optimizer": "sgd", "learning_rate": 0.3, "batch_size": "full", "local_epochs": 2},
        policies=[{"nodes": "all", **policy}], observers=[], evaluate={"every": 2, "metrics": ["hr@5"]},
        executor={"name": "reference"}, **network,
    )  # fmt: skip
    with gossiprec.prepare(scenario, out=folder) as live:
        run = live.finish()
        found = [live.model(node) for node in range(N_USERS)]
        split = live.prepared.components.split
    kind = WORLDS[protocol["name"]]
    world = type("World", (kind,), {"policy": policy})(
        run.path,
        *([part[user].tolist() for user in range(N_USERS)] for part in (split.train, split.validation)),
        N_ITEMS, {**run.scenario, "policies": [], "observers": []},
    )  # fmt: skip
    for _ in world.play():
        pass
    if "alone" in case:
        wakes = run.events("wake")
        assert len(wakes["time"]) > len(world.pushes) > 20
    due = [flat(node.model) for node in world.nodes]
    names = ("users", "items", "weight", "bias")
    models = [np.concatenate([np.ravel(model[name]) for name in names]) for model in found]
    return bool(np.allclose(models, due, atol=1e-5))


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.cases(2)
def test_every_model_is_that_of_plain_numpy(case, tmp_path):
    assert agree(case, tmp_path / "run")


def forgets(patch):
    """Remember nothing."""
    for name in ("sparsify", "pack_rows"):
        function = getattr(partial_rows, name)

        def forgetful(first, second, memory, *others, function=function):
            memory[:] = 0.0
            function(first, second, memory, *others)

        patch.setattr(partial_rows, name, forgetful)


def remembers_all(patch):
    """Remember numbers also after they were sent."""
    for name in ("sparsify", "pack_rows"):
        function = getattr(partial_rows, name)

        def mindful(first, second, memory, *others, function=function):
            before = memory.copy()
            function(first, second, memory, *others)
            memory[:] = np.where(memory == 0.0, before, memory)

        patch.setattr(partial_rows, name, mindful)


def of_sparsification(name, old, new):
    owner = sparsify.Sparsification if name == "check_behaviour" else sparsify.Sparsify
    return lambda patch: plant(patch, owner, name, old, new)


FAULTS = {
    "nothing is remembered": ("top-k in gossip", forgets),
    "clients remember nothing": ("random-k in a federation", forgets),
    "what was sent is remembered": ("top-k in gossip", remembers_all),
    "clients remember what they sent": ("top-k in a federation", remembers_all),
    "clients do not add what they have not sent": (
        "random-k in a federation",
        of_sparsification("check_behaviour", "Op.ADOPT in behaviour.on_any_receive", "False"),
    ),
    "one number less": ("top-k in gossip", of_sparsification("_count", "round(share", "int(share")),
    "top-k sends random numbers": (
        "top-k in gossip",
        lambda patch: patch.setattr(top_k.TopK, "largest", False),
    ),
    "other random numbers": ("random-k in gossip", lambda patch: patch.setattr(sparsify, "CHOSEN", 1)),
}


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
@pytest.mark.cases(2)
def test_a_planted_fault_is_noticed(fault, monkeypatch, tmp_path):
    case, plant_it = FAULTS[fault]
    plant_it(monkeypatch)
    assert not agree(case, tmp_path / "run")
