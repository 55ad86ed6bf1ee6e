"""Pers-Gossip chooses: plays of its views."""

import numpy as np
import pytest

from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.pers_gossip import PersGossipOptions


def pers(n_users=12, **options):
    return PROTOCOLS["pers-gossip"](PersGossipOptions(**options), n_users=n_users, seed=1)


def hear(protocol, node, **worth):
    senders = np.array([int(name[1:]) for name in worth])
    protocol.receive_values(np.full(len(worth), node), senders, np.array(list(worth.values()), np.float32))


def test_a_node_that_heard_nothing_sends_to_random_peers():
    rand = PROTOCOLS["rand-gossip"]
    random = rand(rand.Options(view={"size": 3, "refresh": {"every": 1}}), n_users=12, seed=1)

    assert pers(view={"size": 3, "refresh": {"every": 1}}).on_wake(4, 0.0) == random.on_wake(4, 0.0)


def test_one_place_of_three_goes_to_the_best_sender_and_two_to_others():
    protocol = pers(view={"size": 3, "refresh": {"every": 1}})
    for _ in range(50):
        hear(protocol, 4, n1=0.1, n9=0.7, n2=0.3)
        view = protocol.on_wake(4, 0.0)
        assert view[0] == 9
        assert len(set(view)) == 3
        assert 4 not in view


def test_what_was_heard_counts_until_the_next_refresh_only():
    protocol = pers(n_users=500, view={"size": 3, "refresh": {"every": 2}})
    protocol.on_wake(4, 0.0)
    hear(protocol, 4, n9=0.7)
    assert 9 not in protocol.on_wake(4, 0.0)
    assert protocol.on_wake(4, 0.0)[0] == 9
    assert protocol.on_wake(4, 0.0)[0] == 9
    assert 9 not in protocol.on_wake(4, 0.0)


def test_a_sender_is_worth_what_it_was_worth_last_and_ties_go_to_the_lower_id():
    protocol = pers(n_users=500, view={"size": 3, "refresh": {"every": 1}})
    hear(protocol, 4, n9=0.7, n5=0.4)
    hear(protocol, 4, n9=0.2, n7=0.4)
    assert protocol.on_wake(4, 0.0)[0] == 5


@pytest.mark.parametrize(
    ("size", "exploration", "exploited"),
    [(3, 0.4, 1), (3, 0.0, 3), (3, 1.0, 0), (5, 0.4, 3), (10, 0.4, 6), (3, 1 / 3, 2), (1, 0.4, 0)],
)
def test_exploration_is_rounded_up(size, exploration, exploited):
    assert pers(exploration=exploration, view={"size": size}).n_exploited == exploited


def test_with_fewer_senders_than_places_the_rest_is_random():
    protocol = pers(exploration=0.0, view={"size": 3, "refresh": {"every": 1}})
    hear(protocol, 4, n9=0.7)
    view = protocol.on_wake(4, 0.0)
    assert view[0] == 9
    assert len(set(view)) == 3
