"""Stretches of time played at once and event by event are the same; so are the compiled loop and the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.worlds_of_messages import N, played

gaps = st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.7, 3.0]), max_size=6)
worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 99),
        "wakes": st.integers(1, 8),
        "clock": st.sampled_from(["constant", "exponential"]),
        "latency": st.sampled_from(["none", "constant", "exponential", "node", "pair", "matrix"]),
        "loss": st.sampled_from([0.0, 0.3]),
        "duplication": st.sampled_from([0.0, 0.4]),
        "reordering": st.sampled_from([(0.0, 0.0), (0.3, 1.5)]),
        "in_order": st.booleans(),
        "partition": st.booleans(),
        "changes": st.lists(gaps, min_size=N, max_size=N),
        "held": st.booleans(),
        "up": st.sampled_from([None, 4.0, 20.0]),
        "down": st.sampled_from([2.0, 30.0]),
        "compute": st.sampled_from([None, "constant", "exponential"]),
    }
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(world=worlds)
@pytest.mark.full
def test_a_stretch_at_once_is_the_same_as_event_by_event(world):
    assert played(world, "stretch") == played(world, "step")


@settings(max_examples=60, deadline=None)
@given(world=worlds)
@pytest.mark.full
def test_where_a_run_is_cut_changes_nothing(world):
    def events(every):
        rows, misses = played(world, "stretch", every=every)
        return [row for row in rows if row[0] != "to"], misses

    assert events(0.5) == events(7.0)


@pytest.mark.parametrize("mode", ["step", "stretch"])
def test_compiled_and_plain_sharing_give_the_same_bits(mode):
    world = {
        "seed": 3, "wakes": 40, "clock": "exponential", "latency": "exponential", "loss": 0.1, "duplication": 0.1,
        "reordering": (0.1, 0.5), "in_order": True, "partition": True, "changes": [[3.0, 1.0], [], [2.0, 4.0], [], []],
        "held": True, "up": 8.0, "down": 6.0, "compute": "exponential",
    }  # fmt: skip

    assert played(world, mode, compiled=True) == played(world, mode)
