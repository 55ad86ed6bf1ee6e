"""Bits of positives that several items share, as a million nodes have them, change no draw and no model."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.ragged import Ragged
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed, base
from tests.emulation.tiny_runs import carried_out, final_models, tiny

N_ITEMS = 300
SGD = {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": "full", "negatives": 4}
CLIENTS = {"name": "fedavg", "rounds": 3, "client_model": "none", "merge": "mean"}
RUNS = {
    "gossip": {},
    "template": {"model": {"name": "biased-mf", "dim": 8}, "executor": {"name": "fused"}},
    "clients": {"model": {"name": "mf", "dim": 8}, "protocol": CLIENTS, "training": SGD},
    "pairs": {"model": {"name": "mf", "dim": 8, "loss": "bpr"}, "protocol": CLIENTS, "training": SGD},
    "central": {
        "model": {"name": "mf", "dim": 8},
        "protocol": {"name": "central", "epochs": 2},
        "observers": [],
    },
}


@pytest.fixture
def shared_bits(monkeypatch):
    """Let each node have 16 bits."""
    monkeypatch.setattr(base, "MOST_MEMBER_BYTES", 0)
    monkeypatch.setattr(base, "HASHED_WIDTH", 2)


@pytest.mark.parametrize("kind", [PointwiseFeed, PairwiseFeed])
@pytest.mark.parametrize("tries_at_once", [True, False])
@pytest.mark.full
def test_draws_are_those_of_a_bit_for_each_item(kind, tries_at_once, monkeypatch, shared_bits):
    draw, known = np.random.default_rng(1), {}
    positives = Ragged.from_parts(
        [np.sort(draw.permutation(N_ITEMS)[:n]).astype(np.int32) for n in (1, 0, 280)]
    )
    monkeypatch.setattr(base, "FEW", 1024 if tries_at_once else 0)
    hashed = kind(positives, N_ITEMS)
    with monkeypatch.context() as exactly:
        exactly.setattr(base, "MOST_MEMBER_BYTES", 2**31)
        exact = kind(positives, N_ITEMS)
    assert (hashed.member.shape, exact.member.shape) == ((3, 2), (3, 38))
    for update in range(6):
        for feed in (hashed, exact):
            known[feed is exact] = feed.samples_of_all(update=update, negatives=5, seed=3)
        for name, column in known[True].items():
            np.testing.assert_array_equal(known[False][name], column)


@pytest.mark.parametrize("name", RUNS)
def test_models_are_those_of_a_bit_for_each_item(name, shared_bits, monkeypatch):
    hashed = carried_out(tiny(**RUNS[name]))
    assert hashed.executor.work.feed.member.shape[1] == 2
    monkeypatch.setattr(base, "MOST_MEMBER_BYTES", 2**31)
    exact = carried_out(tiny(**RUNS[name]))
    assert exact.executor.work.feed.member.shape[1] == 5
    assert final_models(hashed).tobytes() == final_models(exact).tobytes()
