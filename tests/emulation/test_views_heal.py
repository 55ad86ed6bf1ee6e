"""Views that nodes exchange heal in a run: after half have left, nobody sends to them for long."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.emulation import simulate
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

VIEWS = {
    "cyclon": {"sampling": "cyclon", "size": 4, "shuffle": 2},
    "newscast": {"sampling": "newscast", "size": 4},
    "descriptors": {"sampling": "descriptors", "size": 4, "rank": "taste"},
}


def lost_to_those_who_left(view, out):
    """Run 24 nodes for 40 wakes, of which half leave at time 15; return when messages to them were lost."""
    run = simulate(
        tiny(
            dataset={
                "name": "synthetic", "users": 24, "items": 40, "interactions": 300,
                "split": {"name": "leave_last_k", "test": 2, "validation": 0},
            },
            protocol={"name": "rand-gossip", "fanout": 2, "view": view, "wakes": 40},
            churn={"leave": [{"nodes": {"fraction": 0.5}, "at": 15.0}]},
            observers=[],
        ),
        out=out,
    )  # fmt: skip
    return np.asarray(run.events("drop")["time"])


@pytest.mark.parametrize("name", slow_except_first(VIEWS))
def test_exchanged_views_forget_who_has_left(name, tmp_path):
    """Twelve nodes that wake 25 times more lose nothing to the other twelve after ten of them."""
    lost = lost_to_those_who_left(VIEWS[name], tmp_path / "run")

    assert len(lost) > 0
    assert lost.max() < 25.0


@pytest.mark.slow
def test_random_views_without_healing_do_not(tmp_path):
    """Half of what is sent is lost to the end: the same world tells the difference."""
    assert lost_to_those_who_left({"size": 4, "heal": False}, tmp_path / "run").max() > 35.0
