"""The order of events of small runs, as committed digests: ids and order, and times to six places; no model values.

A digest changes with whatever changes a run: the draws, the laws, the order of ties. That breaks published
numbers, so it belongs into CHANGELOG.md.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from gossiprec.testing.tapes import make_test_protocol, record_tape

GOSSIP = {"fanout": 2, "wakes": 12, "view": {"size": 3, "refresh": {"law": "exponential", "mean": 0.5}}}
RUNS = {
    "instant gossip": (("rand-gossip", 10, 7, GOSSIP), {}),
    "gossip on a slow and lossy network": (
        ("rand-gossip", 10, 7, GOSSIP),
        {"distribution": "exponential", "latency": 0.4, "loss": 0.2},
    ),
    "fixed clocks and counted refreshes": (
        ("rand-gossip", 10, 7, {"wakes": 12, "wake": {"redraw": False}, "view": {"refresh": {"every": 5}}}),
        {"latency": 0.1},
    ),
    "fedavg with half of the clients": (
        ("fedavg", 10, 7, {"rounds": 12, "participation": 0.5}),
        {"distribution": "exponential", "latency": 0.4},
    ),
}
DIGESTS = {
    "instant gossip": "658d9976c6a2eb1a",
    "gossip on a slow and lossy network": "6f08fcf914bcd4cf",
    "fixed clocks and counted refreshes": "d3e224edb92bfb08",
    "fedavg with half of the clients": "d249bfa9f8bddbaf",
}


def digest(made, network):
    name, n_users, seed, options = made
    segments, _ = record_tape(make_test_protocol(name, n_users, seed, **options), **network)
    whole = hashlib.sha256()
    for segment in segments:
        for column in (segment.kind, segment.node, segment.message, segment.count, segment.receiver):
            whole.update(column.astype("<i4").tobytes())
        whole.update(np.round(segment.time * 1e6).astype("<i8").tobytes())
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("run", RUNS)
def test_events_come_in_the_committed_order(run):
    assert digest(*RUNS[run]) == DIGESTS[run]


def test_the_digest_tells_orders_apart():
    made, network = RUNS["gossip on a slow and lossy network"]
    other_seed = (*made[:2], 8, made[3])

    assert len({digest(made, network), digest(other_seed, network), digest(made, {})}) == 3
