"""When nodes finish their local updates."""

from __future__ import annotations

import numpy as np

from gossiprec.network.sim.clock import ComputeTime, Constant


def test_a_busy_node_begins_with_a_delivery_when_it_has_finished():
    yes = np.ones(1, np.bool_)
    work = ComputeTime(Constant(2.0), per="update", scale=np.ones(1), on_wake=~yes, on_receive=yes, seed=1)
    assert [work.finish_of_delivery(0, now) for now in (1.0, 1.5, 9.0)] == [3.0, 5.0, 11.0]
