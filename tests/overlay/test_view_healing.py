"""Views heal: a peer that is away gives its place to one that is there."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.network.overlay.views import PeriodicRefresh, PoissonRefresh, RandomViews
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import WakeClock

N = 40


def views(away, *, size=3, fanout=3, every=1, heals=True):
    """Return the receivers of 30 wakes of every node, the nodes `away` being away from the start."""
    availability = Availability([node not in away for node in range(N)], [np.zeros(0)] * N)
    made = RandomViews(
        N,
        size=size,
        fanout=fanout,
        refresh=PeriodicRefresh(N, every=every),
        seed=1,
        availability=availability if heals else None,
    )
    return [[list(made.next_receivers(node, 0.5)) for _ in range(30)] for node in range(N)]


def test_only_places_of_peers_that_are_away_change():
    away = set(range(0, N, 2))
    for before, after in zip(views(away, heals=False), views(away), strict=True):
        for old, new in zip(before, after, strict=True):
            assert len(new) == len(set(new)) == 3
            assert not away & set(new)
            assert [n for o, n in zip(old, new, strict=True) if o not in away] == [
                o for o in old if o not in away
            ]


def test_nobody_sends_to_itself():
    found = views(set(range(10, N)), size=2, fanout=2)

    assert all(node not in receivers for node, wakes in enumerate(found) for receivers in wakes)


def test_replacements_are_uniform():
    """Half are away: 40 nodes x 30 wakes x 3 places; each of 20 is drawn in 1 / 20, deviation 0.0036: five of them."""
    found = np.array(views(set(range(20)))).ravel()
    share = np.bincount(found, minlength=N)[20:] / len(found)

    assert share == pytest.approx(np.full(20, 0.05), abs=0.018)


def test_a_replacement_stays_while_the_view_lasts():
    assert all(len({tuple(row) for row in wakes[:10]}) == 1 for wakes in views(set(range(20)), every=10))


def test_a_view_holds_fewer_where_not_enough_are_there():
    found = views(set(range(2, N)))

    assert all(row == [1] for row in found[0])
    assert all(sorted(row) == [0, 1] for wakes in found[2:] for row in wakes)


def test_replacements_are_not_among_the_view_that_a_wake_leaves_out():
    away = set(range(0, N, 3))
    whole = views(away, size=6, fanout=6, every=30, heals=False)
    for node, wakes in enumerate(views(away, size=6, fanout=2, every=30)):
        fresh = {peer for row in wakes for peer in row} - set(whole[node][0])
        assert not fresh & away
        assert all(len(set(row)) == 2 for row in wakes)


def test_views_do_not_depend_on_healing_where_nobody_is_away():
    assert views(set()) == views(set(), heals=False)


def sessions(n_nodes, share, seed):
    """Return nodes that come and go, each there for a share of the time."""
    draws = np.random.default_rng(seed)
    stays = draws.exponential(1.0, (n_nodes, 60)) * np.where(np.arange(60) % 2, 1.0 - share, share)
    return Availability([True] * n_nodes, list(stays.cumsum(axis=1)))


@pytest.mark.parametrize(
    ("n_nodes", "share", "size", "fanout", "law"),
    [
        (40, 0.7, 3, 3, "exponential"),
        (40, 0.7, 6, 2, "constant"),  # replacements are not among the rest of the view
        (30, 0.15, 5, 4, "exponential"),  # candidates are used up, and not enough are there
        (9, 0.5, 8, 8, "exponential"),  # everybody is in the view already
    ],
)
def test_many_wakes_heal_as_one_after_the_other_does(n_nodes, share, size, fanout, law):
    """Nodes that are asked when their clocks ring, 40 times each, in the order of time."""
    clock = WakeClock(range(n_nodes), mean=0.5, distribution=law, seed=3)
    kept = WakeClock(range(n_nodes), mean=0.5, distribution=law, seed=3)
    availability = sessions(n_nodes, share, seed=4)
    together, singly = (
        RandomViews(
            n_nodes, size=size, fanout=fanout, refresh=PoissonRefresh(clock, mean=0.5, seed=2), seed=1,
            availability=availability, clock=known,
        )
        for known in (clock, None)
    )  # fmt: skip
    now, rings = [0.0] * n_nodes, []
    for node in range(n_nodes):
        for _ in range(40):
            now[node] += kept.next_interval(node)
            rings.append((now[node], node))
    counts = []
    for time, node in sorted(rings):
        if not availability.is_online(node, time):
            together.on_missed_wake(node, time)
            singly.on_missed_wake(node, time)
            continue
        found = list(together.next_receivers(node, time))
        assert found == list(singly.next_receivers(node, time))
        assert all(availability.is_online(peer, time) for peer in found)
        counts.append(len(found))
    assert len(counts) > 150
    assert max(counts) == min(fanout, 7)  # eight others are hardly ever there at a time
    assert (min(counts) < fanout) == (n_nodes < 40)


def test_a_node_finds_whoever_is_there_once_its_candidates_are_used_up():
    """One in 500 is online besides the node: twelve draws hardly ever name it."""
    availability = Availability([node in (0, 400) for node in range(500)], [np.zeros(0)] * 500)
    clock = WakeClock(range(500), mean=1.0, seed=1)
    made = RandomViews(
        500, size=2, fanout=2, refresh=PeriodicRefresh(500, every=1), seed=1, availability=availability,
        clock=clock,
    )  # fmt: skip

    assert [list(made.next_receivers(0)) for _ in range(20)] == [[400]] * 20
