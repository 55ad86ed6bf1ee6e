"""UCSU in runs against plain numpy, written from docs/aggregators.md: what a merge makes of the messages before it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.rules.aggregators import norm_bound, ucsu
from gossiprec.testing import temporarily_registered
from tests.audit.planted import plant
from tests.audit.test_membership_audit import Recorder
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

DIM, N_ITEMS = 4, 40
CASES = {
    "federation": ("federation", {}),
    "federation, sum": ("federation", {"bound": 0.4, "top": 0.2, "gather": "sum"}),
    "federation, mean": ("federation", {"top": 1.0, "gather": "mean"}),
    "gossip": ("gossip", {"top": 0.3}),
    "gossip, bound": ("gossip", {"bound": 0.5, "top": 0.1}),
}


def scenario(kind, options):
    """Return a federation of updates, or a gossip whose nodes hardly train and begin with models of their own."""
    rule = {"name": "ucsu", **options}
    if kind == "federation":
        protocol = {
            "name": "fedavg",
            "rounds": 5,
            "client_model": "none",
            "merge": {**rule, "over": "touched"},
        }
        return {"protocol": {**protocol, "participation": 0.25}, "policies": []}
    protocol = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8, "start": "own"}
    return {"protocol": protocol, "policies": [{"name": "robust-merge", "nodes": "all", "rule": rule}]}


def played(kind, options):
    """Return the run, and the messages of each merge, with the version before: the item tables as float64."""
    rate = 0.3 if kind == "federation" else 1e-30
    sections = {
        "model": {"name": "mf", "dim": DIM, "init_std": 0.5},
        "training": {
            "optimizer": "sgd",
            "learning_rate": rate,
            "batch_size": "full",
            "local_epochs": 2,
            "negatives": 1,
        },
        "observers": [{"name": "recorder"}],
    }
    with temporarily_registered(ATTACKS, {"recorder": Recorder}):
        run = carried_out(tiny(**sections, **scenario(kind, options)))
    merges = []
    for sender, *parts in run.attacks[0].messages:
        model, base = (part[DIM:].reshape(N_ITEMS, DIM).astype(float) for part in parts)
        if not merges or (merges[-1][0] != base).any():
            merges.append((base, []))
        merges[-1][1].append((sender, model))
    return run, merges


def clipped(changes, bound):
    """Return changes, each scaled down to a norm as a whole; by default the median of their norms."""
    norms = np.array([np.linalg.norm(change) for change in changes])
    bound = np.median(norms) if bound == "median" else bound
    return [change * min(1.0, bound / norm) for change, norm in zip(changes, norms, strict=True)]


def moved_most(changed, sizes, top):
    """Return a change of the part of things that moved most, rounded up; zero elsewhere."""
    order = np.argsort(-sizes.ravel(), kind="stable")
    kept = np.zeros(sizes.size, bool)
    kept[order[: int(np.ceil(round(top * np.count_nonzero(sizes), 9)))]] = True
    return np.where(kept.reshape(sizes.shape), changed, 0.0)


def federated_step(base, messages, bound="median", top=0.5, gather="touched-mean"):
    """Return the change of a coordinator's version: items that move most, by the clipped updates of clients."""
    raw = [model - base for _, model in messages]
    total = np.sum(clipped(raw, bound), axis=0)
    touching = np.sum([(change != 0).any(axis=1) for change in raw], axis=0)[:, None]
    parts = {"sum": 1, "mean": len(raw), "touched-mean": np.maximum(touching, 1)}
    changed = total / parts[gather]
    return moved_most(changed, np.linalg.norm(changed, axis=1, keepdims=True), top)


def gossip_step(own, messages, positives, node, bound="median", top=0.5):
    """Return the change of a node's items: numbers that move most, by the clipped mean with its own model."""
    changes = clipped([model - own for _, model in messages], bound)
    weights = [positives[sender] for sender, _ in messages]
    changed = np.tensordot(weights, changes, 1) / (positives[node] + sum(weights))
    return moved_most(changed, np.abs(changed), top)


def agree(case):
    """Return whether each version is the one before it, moved by the messages in between."""
    kind, options = CASES[case]
    run, merges = played(kind, options)
    found, due = [], []
    for (base, messages), (after, _) in itertools.pairwise(merges):
        found.append(after - base)
        if kind == "federation":
            due.append(federated_step(base, messages, **options))
        else:
            due.append(gossip_step(base, messages, run.components.split.train.sizes, 3, **options))
    assert len(found) >= 3
    assert max(len(messages) for _, messages in merges) > 2
    return bool(np.allclose(found, due, rtol=1e-4, atol=1e-6))


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.cases(4)
def test_every_merge_is_that_of_plain_numpy(case):
    assert agree(case)


FAULTS = {
    "norms of rows only": ("federation", "user_norms", "np.linalg.norm(part)", "np.linalg.norm(part[:4])"),
    "no clipping": ("federation", "scaled_deltas", "factor * change.rows", "change.rows"),
    "half rounded down": ("federation", "largest", "math.ceil(top", "int(top"),
    "the smaller half": ("federation", "largest", "argsort(-sizes", "argsort(sizes"),
    "a fraction of all items": ("federation, sum", "largest", "np.count_nonzero(sizes)", "len(sizes)"),
    "numbers of the smaller changes": ("gossip", "largest", "argsort(-sizes", "argsort(sizes"),
}


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    case, *what = FAULTS[fault]
    plant(monkeypatch, ucsu, *what)
    assert not agree(case)


@pytest.mark.slow
def test_a_node_that_leaves_its_own_model_out_is_noticed(monkeypatch):
    plant(monkeypatch, norm_bound.NormBound, "reduce", "inbox.own_weight", "0.0")
    assert not agree("gossip")
