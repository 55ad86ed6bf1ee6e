"""Overlays played without models agree with the engine, and with what is foretold."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.network.graphs import measures, random_regular
from gossiprec.network.overlay import first_contact_matrix, fraction_contacted, time_to_meet
from gossiprec.testing.tapes import make_test_protocol, record_tape


def played(control):
    return first_contact_matrix(control._views, control.clock, control.wakes)


@pytest.mark.parametrize(
    "view", [{"size": 3}, {"sampling": "cyclon", "size": 4}, {"graph": {"family": "ring", "k": 4}}]
)
def test_nodes_hear_from_one_another_when_the_engine_says_so(view):
    options = {"fanout": 2, "view": view, "wakes": 6}
    (segment,), _ = record_tape(make_test_protocol("rand-gossip", 15, **options))
    first = np.full((15, 15), np.inf)
    np.minimum.at(first, (segment.receiver, segment.sender), segment.sent_at)

    np.testing.assert_array_equal(played(make_test_protocol("rand-gossip", 15, **options)), first)


def test_times_are_those_at_which_the_share_is_reached():
    first = np.array([[np.inf, 1.0, 4.0], [2.0, np.inf, np.inf], [3.0, np.inf, np.inf]])

    assert fraction_contacted(first) == 4 / 6
    assert [time_to_meet(first, share) for share in (0, 1 / 6, 0.5, 4 / 6, 0.7)] == [0.0, 1.0, 3.0, 4.0, None]


def test_in_a_fixed_graph_nodes_meet_as_soon_as_is_foretold():
    """200 nodes of degree 10, two of ten neighbours a wake: a link is used first after an exponential time of mean 5.

    Half of 2,000 links (2.5 % of all pairs) are used in both directions after 5 ln 2 = 3.47; the empirical median of
    4,000 times has a deviation of 5 / sqrt(4000) = 0.08, and those of one node are drawn without repetition. Five.
    """
    control = make_test_protocol(
        "rand-gossip", 200, fanout=2, view={"graph": {"family": "random-regular", "degree": 10}}, wakes=40
    )
    half = 10 / 199 / 2
    foretold = measures.wakes_to_meet(half, random_regular(200, 10, 1), 2)

    assert foretold == pytest.approx(5 * np.log(2))
    assert time_to_meet(played(control), half) == pytest.approx(foretold, abs=0.4)
