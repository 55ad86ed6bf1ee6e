"""Unlearning methods against plain numpy: models, their distances to the counterfactual, and costs; planted faults."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gossiprec
from gossiprec.compute.store.arena import Arena
from gossiprec.emulation import simulate, unlearning
from gossiprec.emulation.unlearning import cfru, fine_tune, fru, retrain
from tests.audit import brute_force
from tests.audit import unlearning as by_hand
from tests.audit.planted import plant
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

N_USERS, N_ITEMS, DIM = 12, 40, 4
REMOVED = [3, 5]
OTHERS = [user for user in range(N_USERS) if user not in REMOVED]
OPTIONS = {
    "cfru": {"keep": 0.3, "alpha": 0.3, "theta": 0.9},
    "fru": {"keep": 0.3, "epochs": 0.6},
    "fine-tune": {"fraction": 0.35},
    "retrain": {},
}


def run(folder, merge):
    """Return a finished federation of five rounds."""
    return simulate(
        tiny(
            model={"name": "mf", "dim": DIM, "init_std": 0.5},
            protocol={
                "name": "fedavg", "rounds": 5, "client_model": "none", "participation": 0.6, "merge": merge,
            },
            training={
                "optimizer": "sgd", "learning_rate": 0.02 if merge == "sum" else 0.5, "batch_size": "full",
                "local_epochs": 3,
            },
            observers=[],
        ), out=folder,
    )  # fmt: skip


def rounds_of(ended):
    """Return the clients that the coordinator asked in each round."""
    message = ended.events("message")
    some = message["sender"] == N_USERS
    times = np.unique(message["sent_at"][some])
    return [sorted(message["receiver"][some & (message["sent_at"] == time)].tolist()) for time in times]


def federation(ended, split, removed=()):
    train = [() if user in removed else tuple(split.train[user].tolist()) for user in range(N_USERS)]
    return by_hand.Federation(ended.scenario, train, N_ITEMS)


def models_of(found):
    """Return the row and the items of each other user, shape (n, numbers)."""
    return np.array([np.concatenate([found.users[user], found.version.ravel()]) for user in OTHERS])


def agree(method, merge, folder):
    """Return whether models, distances and costs of a method are those of plain numpy."""
    ended = run(folder / "run", merge)
    options = OPTIONS[method]
    found = gossiprec.unlearn(ended.path, REMOVED, methods=[{"name": method, **options}], k=5)
    forgotten, line = found.methods[method].forgotten, found.table()[method]
    split, rounds = found.methods["nothing"].forgotten.models.prepared.components.split, rounds_of(ended)
    world = federation(ended, split)
    world.history = list(world.play(rounds))
    nothing = models_of(world)
    exact = models_of(by_hand.retrain(None, federation(ended, split, REMOVED), rounds, REMOVED))
    without = federation(ended, split, REMOVED)
    result = by_hand.METHODS[method](copy.deepcopy(world), without, rounds, REMOVED, **options)
    models = [forgotten.models.model(user) for user in OTHERS]
    flat = np.array([np.concatenate([model["users"].ravel(), model["items"].ravel()]) for model in models])
    due, distances = (
        models_of(result),
        [np.linalg.norm(m - exact, axis=1) for m in (models_of(result), nothing)],
    )
    size = np.linalg.norm(exact, axis=1)
    lines = {
        "distance": distances[0].mean(), "relative": (distances[0] / size).mean(),
        "remaining": distances[0].mean() / distances[1].mean(),
        "stored_bytes": by_hand.stored_bytes(world.history, options["keep"]) if "keep" in options else 0,
        "local_epochs": 0 if method == "cfru" else result.epochs * sum(result.updates),
    }  # fmt: skip
    return bool(
        np.allclose(flat, due, atol=1e-5)
        and all(np.isclose(line[name], value, rtol=1e-3, atol=1e-5) for name, value in lines.items())
    )


CASES = [(method, merge) for merge in by_hand.MERGES for method in OPTIONS]


@pytest.mark.parametrize(("method", "merge"), slow_except_first(CASES))
@pytest.mark.cases(1)
def test_a_method_gives_the_models_and_costs_of_plain_numpy(method, merge, tmp_path):
    assert agree(method, merge, tmp_path)


# Gossip: the run is played from its event log, and so are further wakes, which are drawn as the first ones were.


class FirstWakes:
    """The part of an event log that follows from the first wakes of each node."""

    def __init__(self, log, wakes):
        self.log, self.scenario, taken = log, log.scenario, {}
        for time, node in brute_force.rows(log.events("wake"), "time", "node"):
            taken.setdefault(node, []).append(time)
        self.pushes = {(node, time) for node, times in taken.items() for time in times[:wakes]}

    def events(self, kind):
        found = self.log.events(kind)
        names = {"wake": ("node", "time"), "message": ("sender", "sent_at")}.get(kind)
        if names is None:
            return found
        kept = [push in self.pushes for push in brute_force.rows(found, *names)]
        return {name: column[kept] for name, column in found.items()}


class Gossip(brute_force.RandGossip):
    """A gossip that begins with the models and moments at the end of another."""

    ended, wakes = None, 10**6

    def prepare(self):
        self.log = FirstWakes(self.log, self.wakes)
        for node in self.nodes:
            if not node.own:
                node.train = int  # a user without data learns nothing
            if self.ended:
                old = self.ended.nodes[node.number]
                node.model, node.moments, node.steps = copy.deepcopy((old.model, old.moments, old.steps))


def played(log, split, removed, **begin):
    """Return a gossip after its last message."""
    parts = (
        [[] if user in removed else part[user].tolist() for user in range(N_USERS)]
        for part in (split.train, split.validation)
    )
    world = type("World", (Gossip,), begin)(log.path, *parts, N_ITEMS)
    for _ in world.play():
        pass
    return world


def agree_in_gossip(method, folder):
    """Return whether the models of a method after a gossip are those of plain numpy."""
    protocol = {
        "name": "rand-gossip",
        "fanout": 2,
        "view": {"size": 2},
        "wakes": 5,
        "wake": {"law": "exponential"},
    }
    ended = simulate(
        tiny(
            model={"name": "gmf", "dim": DIM, "init_std": 0.5}, protocol=protocol, observers=[],
            training={"learning_rate": 0.05, "batch_size": "full", "eps": 1e-3},
            network={"latency": {"law": "exponential", "mean": 0.3}},
        ), out=folder / "run",
    )  # fmt: skip
    found = gossiprec.unlearn(ended.path, [3], methods=[{"name": method, **OPTIONS[method]}], k=5)
    split = found.methods["nothing"].forgotten.models.prepared.components.split
    if method == "retrain":
        world = played(ended, split, [3])
    else:
        world = played(ended, split, [3], ended=played(ended, split, []), wakes=2)  # of 0.35 * 5
    models = [found.methods[method].forgotten.models.model(user) for user in range(N_USERS) if user != 3]
    due = [node.model for node in world.nodes if node.number != 3]
    return all(
        np.allclose(model[name].ravel(), other[own].ravel(), atol=1e-4)
        for model, other in zip(models, due, strict=True)
        for name, own in (("users", "user"), ("items", "items"), ("weight", "weight"), ("bias", "bias"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["retrain", "fine-tune"])
@pytest.mark.full
def test_a_method_gives_the_models_of_plain_numpy_in_gossip(method, tmp_path):
    assert agree_in_gossip(method, tmp_path)


@pytest.mark.slow
@pytest.mark.full
def test_forgotten_moments_are_noticed(tmp_path, monkeypatch):
    plant(
        monkeypatch, Arena, "continue_from", '"needed": nodes', '"needed": nodes, "second": 0 * ended.second'
    )
    assert not agree_in_gossip("fine-tune", tmp_path)


FAULTS = {
    "the others' updates stay as they were": (
        "cfru", cfru.CFRU, "note_round", "(1.0 - self.options.alpha * beta)", "1.0"),
    "the forgotten users' updates are added": (
        "cfru", cfru.CFRU, "note_round",
        "(without.astype(np.float64) - with_all)", "(with_all.astype(float) - without)"),
    "theta is left out": ("cfru", cfru.CFRU, "forget", "self.options.theta *", "1.0 *"),
    "items of the smallest changes are stored": (
        "cfru", unlearning, "largest_changes", "argsort(-lengths", "argsort(lengths"),
    "lengths with the forgotten users": (
        "fru", fru.FRU, "note_round", "change(stored.stays)", "change(stored.stays | True)"),
    "the first round is trained": ("fru", fru.FRU, "revise", "answers.key in self._first", "False"),
    "updates have their own lengths": ("fru", fru.FRU, "revise", "scale * change", "change"),
    "whole training": (
        "fru", fru.FRU, "forget",
        "max(1, round(self.options.epochs * training.local_epochs))", "training.local_epochs"),
    "first models": ("fine-tune", fine_tune.FineTune, "forget",
        "live.prepared.executor.store.continue_from(ended.executor.store, ended.planner.current_rows)", "None"),
    "the last answers are not merged": ("fine-tune", fine_tune, "shortened", "not getattr(", "getattr("),
    "a fraction rounded down": ("fine-tune", fine_tune, "shortened", "round(fraction", "int(fraction"),
    "retraining with all data": (
        "retrain", retrain.Retrain, "forget", "request.without", "request.models.prepared.components.scenario"),
}  # fmt: skip


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
@pytest.mark.cases(1)
def test_a_planted_fault_is_noticed(fault, monkeypatch, tmp_path):
    method, *what = FAULTS[fault]
    plant(monkeypatch, *what)
    assert not agree(method, "samples", tmp_path)
