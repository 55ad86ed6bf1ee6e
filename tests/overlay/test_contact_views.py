"""Views of contacts: exactly the peers that are in contact at the wake, also when the trace is repeated."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.network.overlay import OverlayContext
from gossiprec.network.overlay.contacts import Contacts, ContactViews
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.network import SiteLatency

N = 8


def some_contacts(seed):
    """Return contacts that do not overlap for a pair, in any order of lines."""
    draws = np.random.default_rng(seed)
    rows = [
        (begin + draws.uniform(0, 2), begin + draws.uniform(2, 5), i, j)
        for i in range(N)
        for j in range(i)
        for begin in (0.0, 5.0)
        if draws.random() < 0.4
    ]
    begin, end, one, other = map(np.array, zip(*draws.permutation(rows), strict=True))
    return Contacts(begin, end, one.astype(np.int64), other.astype(np.int64))


def in_contact(contacts, node, time):
    """Return the peers of a node at a time, line by line."""
    return sorted(
        int(other if one == node else one)
        for begin, end, one, other in zip(
            contacts.begin, contacts.end, contacts.one, contacts.other, strict=True
        )
        if begin <= time < end and node in (one, other)
    )


@pytest.mark.parametrize("repeat", [False, True])
def test_peers_are_those_in_contact(repeat):
    contacts = some_contacts(1)
    setting = OverlayContext(N, N, 3, Availability.always_online(N))
    views = ContactViews(contacts, setting, repeat=repeat)
    times = np.sort(np.random.default_rng(2).uniform(0, 40, (N, 60)), axis=1)
    met = 0
    for node in range(N):
        for time in times[node].tolist():
            expected = in_contact(contacts, node, time % contacts.span if repeat else time)
            assert sorted(views.next_receivers(node, time)) == expected
            met += len(expected)
    assert met > 100


def test_a_node_sends_to_up_to_fanout_of_its_contacts():
    contacts = some_contacts(1)
    views, all_views = (
        ContactViews(contacts, OverlayContext(N, fanout, 3, Availability.always_online(N)), repeat=False)
        for fanout in (1, N)
    )
    chosen = set()
    for time in np.linspace(0, 10, 200).tolist():
        peers, everyone = views.next_receivers(0, time), all_views.next_receivers(0, time)
        assert len(peers) == min(1, len(everyone))
        assert set(peers) <= set(everyone)
        chosen.update(peers)
    assert len(chosen) > 1


def test_the_most_peers_at_a_time_are_counted():
    contacts = some_contacts(4)
    times = np.concatenate([contacts.begin, contacts.begin + 1e-9])
    most = max(len(in_contact(contacts, node, time)) for node in range(N) for time in times)
    assert contacts.most_peers(N) == most
    touching = Contacts(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([0, 0]), np.array([1, 2]))
    assert touching.most_peers(3) == 1


def test_a_latency_of_sites_is_the_same_one_by_one_and_in_batches():
    draws = np.random.default_rng(0)
    matrix, site = draws.uniform(0, 1, (3, 3)), draws.integers(0, 3, N)
    latency = SiteLatency(matrix, site)
    sender, receiver = np.indices((N, N)).reshape(2, -1)
    together = latency.between_all(sender, receiver)
    assert together.tolist() == [
        latency.between(*pair) for pair in zip(sender.tolist(), receiver.tolist(), strict=True)
    ]
    assert together.tolist() == matrix[site][:, site].ravel().tolist()
