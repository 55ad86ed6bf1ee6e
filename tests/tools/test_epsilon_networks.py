"""The generator of small networks: no claim contradicts a run without a user, and planted faults are found."""

from __future__ import annotations

import pytest

from gossiprec.emulation.run import contact_replay
from tools import plain_epsilon
from tools.epsilon_networks import draw_network, examine_networks, summarise

SEED = 1
LINEAR = 6
"""A linear network in which nodes send what they have merged."""


@pytest.mark.full
def test_no_claim_of_sixty_networks_is_wrong():
    """The first networks are of all kinds; `python -m tools.epsilon_networks` examines more."""
    found = summarise(examine_networks(SEED, range(60), jobs=2))
    assert not found["faults"]
    assert found["checked"] + found["refused"] == 60
    assert found["checked"] >= 36
    assert set(found["by_method"]) == {"linear", "reach", "rounds"}
    assert min(found["by_method"].values()) >= 10
    assert found["compared"] >= 10


def test_the_same_number_gives_the_same_network():
    assert draw_network(SEED, 7) == draw_network(SEED, 7)
    assert draw_network(SEED, 7)["seed"] != draw_network(SEED + 1, 7)["seed"]


def planted(monkeypatch, *, kept):
    """Make the replays ignore a part of each received model, and return the faults of a linear network."""
    deliver = contact_replay._WeightedReplay.deliver

    def forgetful(replay, node, number, operation):
        before = replay._models[node].copy()
        deliver(replay, node, number, operation)
        replay._models[node] = kept * replay._models[node] + (1 - kept) * before

    monkeypatch.setattr(contact_replay._WeightedReplay, "deliver", forgetful)
    return examine_networks(SEED, [LINEAR])[0].faults


@pytest.mark.slow
@pytest.mark.full
def test_a_merge_that_differs_by_a_thousandth_is_found(monkeypatch):
    faults = planted(monkeypatch, kept=0.999)
    assert any("replay: message" in fault for fault in faults)


@pytest.mark.slow
@pytest.mark.full
def test_a_message_that_is_not_counted_is_found(monkeypatch):
    monkeypatch.setattr(contact_replay._ReachReplay, "deliver", lambda *_: None)
    faults = [fault for found in examine_networks(SEED, [0, 2]) for fault in found.faults]
    assert any("with epsilon 0" in fault for fault in faults)


@pytest.mark.slow
@pytest.mark.full
def test_another_order_at_equal_times_is_found(monkeypatch):
    """If messages arrived before the wakes of their time, nodes would send more than their own update."""
    number = next(k for k in range(0, 300, 2) if _has_ties(draw_network(SEED, k)))
    schedule = plain_epsilon.PlainNetwork._schedule

    def arrivals_first(network, time, what, about):
        network._rank += 10**6 if what == "wake" else -(10**6)
        schedule(network, time, what, about)
        network._rank -= 10**6 if what == "wake" else -(10**6)

    monkeypatch.setattr(plain_epsilon.PlainNetwork, "_schedule", arrivals_first)
    assert any("in plain numpy" in fault for fault in examine_networks(SEED, [number])[0].faults)


def _has_ties(scenario):
    protocol, latency = scenario["protocol"], scenario.get("network", {}).get("latency", {})
    is_gossip = protocol["name"] == "rand-gossip" and protocol["wake"]["law"] == "constant"
    return is_gossip and latency.get("law") == "constant" and protocol["wakes"] > 1
