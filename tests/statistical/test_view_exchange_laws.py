"""What views that nodes exchange look like after a while, and how they heal.

Seeds are fixed, so a test passes always or never. The claims are those of the papers; numbers are derived where they
stand, or compared with uniform draws made in the same test.
"""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from gossiprec.base.ragged import Ragged
from gossiprec.network.graphs.similarity import taste_similarity
from gossiprec.network.overlay import UserProfiles
from gossiprec.network.sim.availability import Availability
from tests.overlay.worlds_of_views import exchange, in_degrees, rounds

N = 200
VIEWS = {
    "cyclon": {"sampling": "cyclon", "size": 8, "shuffle": 4},
    "newscast": {"sampling": "newscast", "size": 20},
    "descriptors": {"sampling": "descriptors", "size": 8, "rank": "random"},
}


def graph_of(views):
    return nx.DiGraph((node, peer) for node, own in enumerate(views.views) for peer in own)


def uniform_deviation(size):
    """In-degrees of uniform views are binomial: n - 1 others hold a node with probability size / (n - 1)."""
    return math.sqrt(size * (1 - size / (N - 1)))


def test_cyclon_evens_out_in_degrees():
    """Voulgaris et al., section 5: in-degrees narrow around the view size, far below a random graph's.

    Views begin as uniform draws; what 40 rounds make of them is measured at ten moments two rounds apart.
    """
    views = exchange(VIEWS["cyclon"], N)
    before = in_degrees(views).std()
    rounds(views, 40)
    after = []
    for step in range(10):
        rounds(views, 2, first=40 + 2 * step)
        after.append(in_degrees(views).std())

    assert before == pytest.approx(uniform_deviation(8), rel=0.2)
    assert np.mean(after) < 0.65 * uniform_deviation(8)
    assert all(len(own) == 8 for own in views.views)


def test_newscast_spreads_in_degrees_wider_than_uniform_draws():
    """Jelasity et al. (2007), section 5: in-degrees of Newscast are unbalanced at any moment."""
    views = exchange(VIEWS["newscast"], N)
    rounds(views, 40)

    assert in_degrees(views).std() > 1.3 * uniform_deviation(20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cyclon", "newscast"])
@pytest.mark.full
def test_over_time_every_node_receives_equally_often(name):
    """After 40 rounds, 400 more with a fan-out of 2: each node is expected to receive 800 models.

    Uniform draws would give a deviation of sqrt(800) = 28, or 3.5 %. Draws from views that persist for a few rounds are
    correlated: an entry lives about as many wakes as a view has places, 8 or fewer with Cyclon, so that at most 8
    successive draws fall together and the deviation is below 28 * sqrt(8) = 80, 10 %. A skewed sampler is far beyond
    (the converged descriptors of the last test: 35 %).
    """
    views = exchange(VIEWS[name], N)
    rounds(views, 40)
    received = np.bincount([peer for _, to in rounds(views, 400, first=40) for peer in to], minlength=N)

    assert received.sum() == 2 * 400 * N
    assert received.std() / received.mean() < 0.10


@pytest.mark.parametrize("name", ["cyclon", "newscast"])
@pytest.mark.full
def test_a_node_meets_nearly_as_many_as_with_uniform_draws(name):
    """2 peers a wake for 200 wakes reach 1 - exp(-400 / 199) = 86.6 % of the others with uniform draws; here at least
    nine tenths of that, as some draws repeat those of the last wakes.
    """
    views = exchange(VIEWS[name], N)
    rounds(views, 40)
    met = {(node, peer) for node, to in rounds(views, 200, first=40) for peer in to}

    assert len(met) / (N * (N - 1)) > 0.9 * (1 - math.exp(-400 / (N - 1)))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.cases(2)
def test_views_heal_after_half_of_the_nodes_have_left(name):
    """All odd nodes leave at time 40. A node contacts its oldest or a random peer at each wake: after 30 wakes, four
    times as many as Cyclon's 8 places, no view of a node that stayed holds a node that left, views are full again, and
    the others are still one connected network.
    """
    left = np.arange(N) % 2 == 1
    availability = Availability([True] * N, [np.array([40.0]) if gone else np.zeros(0) for gone in left])
    views = exchange(VIEWS[name], N, availability=availability)
    rounds(views, 40, availability=availability)
    held = [np.mean([left[peer] for peer in views.views[node]]) for node in range(0, N, 2)]
    assert np.mean(held) > 0.4

    rounds(views, 30, availability=availability, first=40)
    stayed = range(0, N, 2)
    assert not any(left[peer] for node in stayed for peer in views.views[node])
    assert np.mean([len(views.views[node]) for node in stayed]) > 0.99 * views.size
    if name != "descriptors":  # which falls into groups of the alike by design
        assert nx.is_weakly_connected(graph_of(views).subgraph(stayed))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.cases(2)
def test_those_who_return_are_known_again(name):
    """Odd nodes are away from 20 to 40; 20 rounds later they are held as often as others, within a fifth."""
    away = [np.array([20.0, 40.0]) if node % 2 else np.zeros(0) for node in range(N)]
    availability = Availability([True] * N, away)
    views = exchange(VIEWS[name], N, availability=availability)
    rounds(views, 60, availability=availability)
    held = in_degrees(views)

    assert held[1::2].sum() == pytest.approx(held[0::2].sum(), rel=0.2)


def test_descriptors_converge_to_the_likest():
    """Users of 30 of 400 items around a favourite drawn on a circle: the likest of the likest are likely alike.

    After 25 rounds views of 8 hold at least 95 % of the 8 likest of 199 others; 25 random nodes would bring 13 %.
    Where many are equally like, ties go to the lower id, and those are right who are as like as the eighth.
    """
    rng = np.random.default_rng(2)
    items = [
        np.unique((favourite + rng.normal(0, 12, 30)).astype(int) % 400)
        for favourite in rng.integers(0, 400, N)
    ]
    users = np.repeat(np.arange(N), [len(own) for own in items])
    profiles = UserProfiles("toy", Ragged.sets_from_pairs(users, np.concatenate(items), N))
    views = exchange({"sampling": "descriptors", "size": 8, "rank": "taste"}, N, profiles=profiles)
    rounds(views, 25)

    likeness = taste_similarity(items)
    np.fill_diagonal(likeness, -1)
    eighth = np.sort(likeness, axis=1)[:, -8]
    right = [
        np.mean([likeness[node, peer] >= eighth[node] for peer in own])
        for node, own in enumerate(views.views)
    ]
    assert np.mean(right) > 0.95
