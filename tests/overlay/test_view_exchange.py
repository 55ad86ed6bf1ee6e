"""Plays of views that nodes exchange; what all keep to is in tests/contracts."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import CheckIns
from gossiprec.data.training_data import Transitions
from gossiprec.network.overlay import SAMPLINGS, UserProfiles
from gossiprec.network.sim.availability import Availability
from tests.overlay.worlds_of_views import exchange, rounds

VIEWS = {
    "cyclon": {"sampling": "cyclon", "size": 4, "shuffle": 2},
    "newscast": {"sampling": "newscast", "size": 4},
    "descriptors": {"sampling": "descriptors", "size": 4, "rank": "random"},
}


def test_every_registered_sampling_is_played_here():
    assert set(VIEWS) == set(SAMPLINGS)


def started(view, n_nodes, views, **more):
    """Return an overlay whose views are set by hand, as dictionaries of peers and ages or times."""
    made = exchange(view, n_nodes, **more)
    made.views = [dict(own) for own in views]
    return made


def test_cyclon_swaps_with_the_oldest_peer():
    """Node 0 has 1 (oldest) and 2; it gives 1 its own entry and one of its others, and gets two of 1's in return."""
    cyclon = started(
        {"sampling": "cyclon", "size": 2, "shuffle": 2}, 5, [{1: -5.0, 2: 0.0}, {3: 0.0, 4: 0.0}, {}, {}, {}]
    )
    cyclon.next_receivers(0, 1.0)

    assert set(cyclon.views[0]) == {3, 4}  # 1 was removed, 2 given away
    assert set(cyclon.views[1]) == {0, 2}


def test_cyclon_keeps_what_it_did_not_give_away_when_its_view_is_full():
    held = [{1: -5.0, 2: 0.0, 3: 0.0}, {3: 0.0, 4: 0.0, 5: 0.0}, *[{}] * 4]
    cyclon = started({"sampling": "cyclon", "size": 3, "shuffle": 1}, 6, held)
    cyclon.next_receivers(0, 1.0)

    assert {2, 3} <= set(cyclon.views[0])
    assert 0 in cyclon.views[1]
    assert len(cyclon.views[1]) == 3


def test_cyclon_entries_keep_their_age_on_the_way_and_the_nodes_own_is_new():
    """Node 1 has been awake ten times: an entry of age 1 with node 0 has age 1 with node 1, too."""
    cyclon = started(
        {"sampling": "cyclon", "size": 2, "shuffle": 2}, 4, [{1: -5.0, 2: 0.0}, {3: 8.0}, {}, {}]
    )
    cyclon._n_exchanges = [0.0, 10.0, 0.0, 0.0]
    cyclon.next_receivers(0, 1.0)  # node 0's first wake: what it holds grows older by one

    assert cyclon.views[1] == {0: 10.0, 2: 9.0}
    assert cyclon.views[0] == {2: 0.0, 3: -1.0}  # age 2, as node 1 had it; there is room, so that 2 stays


def test_cyclon_removes_the_peers_that_it_finds_offline():
    availability = Availability([True, False, True, True, True], [np.zeros(0)] * 5)
    held = [{1: -5.0, 2: -1.0, 3: 0.0}, *[{4: 0.0}] * 4]
    cyclon = started({"sampling": "cyclon", "size": 3, "shuffle": 1}, 5, held, availability=availability)
    cyclon.next_receivers(0, 1.0)

    assert set(cyclon.views[0]) == {3, 4}  # 1 is away; 2, the oldest then, has swapped
    assert set(cyclon.views[2]) == {4, 0}


def test_newscast_leaves_both_with_the_freshest_of_both():
    newscast = started(
        {"sampling": "newscast", "size": 3}, 6, [{1: 1.0}, {2: 5.0, 3: 2.0, 4: 7.0}, *[{}] * 4]
    )
    newscast.next_receivers(0, 9.0)

    assert newscast.views[0] == {1: 9.0, 4: 7.0, 2: 5.0}
    assert newscast.views[1] == {0: 9.0, 4: 7.0, 2: 5.0}


@pytest.mark.parametrize("seed", range(4))
def test_newscast_keeps_the_fresher_of_two_entries(seed):
    own = {1: 1.0, 2: 6.0, 3: 3.0}
    newscast = started({"sampling": "newscast", "size": 4}, 6, [own, *[{2: 5.0, 3: 8.0}] * 5], seed=seed)
    newscast.next_receivers(0, 9.0)
    (peer,) = (peer for peer, time in newscast.views[0].items() if time == 9.0)  # the one drawn

    for node, other in ((0, peer), (peer, 0)):
        freshest = {1: 1.0, 2: 6.0, 3: 8.0, other: 9.0}
        assert newscast.views[node] == {p: t for p, t in freshest.items() if p != node}


@pytest.mark.parametrize("name", VIEWS)
def test_a_node_that_knows_nobody_is_introduced_to_one_who_is_online(name):
    availability = Availability([True, False, False, True, False], [np.zeros(0)] * 5)
    views = started(VIEWS[name], 5, [{}] * 5, availability=availability)

    assert views.next_receivers(0, 1.0) == [3] or name == "cyclon"
    assert 0 in views.views[3]


@pytest.mark.parametrize("name", VIEWS)
def test_a_node_that_is_alone_sends_to_nobody(name):
    availability = Availability([True, False, False, False, False], [np.zeros(0)] * 5)
    views = exchange(VIEWS[name], 5, availability=availability)

    assert views.next_receivers(0, 1.0) == []
    assert views.views[0] == {}


@pytest.mark.parametrize("name", ["newscast", "descriptors"])
def test_a_peer_found_offline_comes_back_only_on_an_entry_that_is_newer(name):
    """Node 0 finds out that 1 is away, which 2 does not know, and passes on."""
    availability = Availability([True, False, True], [np.zeros(0), np.array([5.0]), np.zeros(0)])
    for seed in range(8):
        views = started(
            {**VIEWS[name], "size": 2},
            3,
            [{1: -1.0, 2: 0.0}, {}, {1: 0.0}],
            availability=availability,
            seed=seed,
        )
        views.next_receivers(0, 1.0)
        if 1 not in views._found_offline[0]:  # Newscast drew 2
            continue
        assert set(views.views[0]) == {2}

        views.views[0], views.views[2] = {2: 1.0}, {1: 0.5}
        views.next_receivers(0, 2.0)
        assert set(views.views[0]) == {2}

        views.views[0], views.views[2] = {2: 1.0}, {1: 6.0}
        views.next_receivers(0, 7.0)
        assert set(views.views[0]) == {1, 2}
        return
    pytest.fail("no seed drew the peer that is away")


def profiles(items, places=None):
    users = np.repeat(np.arange(len(items)), [len(own) for own in items])
    sets = Ragged.sets_from_pairs(users, np.concatenate(items), len(items))
    if places is None:
        return UserProfiles("toy", sets)
    return UserProfiles("toy", sets, check_ins(places, [[user] for user in range(len(items))]))


def check_ins(places, visited):
    """Return what is known of users who visited these places, one after the other."""
    items = Ragged.from_parts([np.array(own, np.int32) for own in visited])
    n_moves = len(items.values)
    moves = Transitions(items, np.full(n_moves, -1, np.int32), np.full(n_moves, np.nan, np.float32))
    return CheckIns(np.asarray(places, float), moves, moves)


def test_descriptors_of_taste_find_the_likest():
    """Chains of overlapping item sets: node u shares most with u - 1 and u + 1."""
    toy = profiles([np.arange(10 * u, 10 * u + 30) for u in range(30)])
    views = exchange({"sampling": "descriptors", "size": 2, "rank": "taste"}, 30, profiles=toy)
    rounds(views, 30)

    assert all(set(views.views[u]) == {u - 1, u + 1} for u in range(1, 29))


def test_descriptors_of_place_find_the_nearest():
    toy = profiles([np.array([u]) for u in range(20)], [(0.0, 3.0 * u) for u in range(20)])
    views = exchange({"sampling": "descriptors", "size": 2, "rank": "place"}, 20, profiles=toy)
    rounds(views, 30)

    assert all(set(views.views[u]) == {u - 1, u + 1} for u in range(1, 19))


def test_home_is_where_a_user_was_most_often_and_ties_go_to_the_lower_id():
    known = check_ins([(0, 0), (1, 1), (2, 2)], [[2, 0, 2], [1, 0]])
    sets = Ragged(np.array([0, 1, 2]), np.array([0, 0], np.int32))

    assert UserProfiles("toy", sets, known).places.tolist() == [[2.0, 2.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("rank", "known", "message"),
    [
        ("taste", None, "found 'taste', but no user profiles are available"),
        ("place", profiles([np.array([1])] * 5), "the items of toy have no places"),
    ],
)
def test_a_likeness_that_the_data_do_not_hold_is_an_error_of_the_scenario(rank, known, message):
    with pytest.raises(ScenarioError, match=message):
        exchange({"sampling": "descriptors", "size": 2, "rank": rank}, 5, profiles=known)
