"""Who is online when."""

from __future__ import annotations

import numpy as np

from gossiprec.network.sim.availability import Availability


def test_a_node_goes_and_comes_at_its_times():
    availability = Availability([True, False], [np.array([1.0, 2.0]), np.array([0.5])])

    assert [availability.is_online(0, t) for t in (0.0, 0.99, 1.0, 1.5, 2.0, 9.0)] == [1, 1, 0, 0, 1, 1]
    assert [availability.is_online(1, t) for t in (0.0, 0.5, 9.0)] == [0, 1, 1]
    np.testing.assert_array_equal(availability.online_at(1.2), [False, True])


def test_nodes_that_never_leave_are_always_there():
    assert Availability.always_online(2).always
    assert not Availability([True, True], [np.array([3.0]), np.zeros(0)]).always
    assert not Availability([True, False], [np.zeros(0), np.zeros(0)]).always
