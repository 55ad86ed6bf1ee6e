"""The fraction of others met, predicted and counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.measures.attack_accuracy import first_contact_times, fraction_met_at, predicted_fraction_met

message = st.tuples(st.integers(0, 9).map(float), st.integers(0, 3), st.integers(0, 3))


def test_published_settings_give_the_published_bounds():
    # methods 0.1b: 200 wakes with a view every tenth, and 500 wakes with a view each
    assert predicted_fraction_met([20, 500], n_nodes=943, view_size=3) == pytest.approx(
        [0.062, 0.797], abs=5e-4
    )


@pytest.mark.slow
def test_uniform_views_meet_the_predicted_fraction():
    # 300 nodes draw 40 views of 3: binomial spread of the mean over 90,000 pairs is below 0.0016.
    draw, n = np.random.default_rng(4), 300
    met = np.zeros((n, n), dtype=bool)
    for node in range(n):
        others = np.delete(np.arange(n), node)
        for _ in range(40):
            met[draw.choice(others, 3, replace=False), node] = True
    expected = predicted_fraction_met(40, n_nodes=n, view_size=3)
    assert met.sum() / (n * (n - 1)) == pytest.approx(float(expected), abs=0.007)


def test_only_the_first_message_of_a_pair_is_a_meeting():
    time, receiver = first_contact_times(np.array([3.0, 1.0, 2.0]), np.array([7, 7, 8]), np.array([0, 0, 0]))
    assert time.tolist() == [1.0, 2.0]
    assert receiver.tolist() == [0, 0]


def test_a_meeting_counts_from_its_own_time_on():
    at = np.array([0.0, 1.0, 2.0])
    assert fraction_met_at(np.array([1.0, 2.5]), np.array([0, 0]), at=at, n_nodes=3)[:, 0].tolist() == [
        0,
        0.5,
        0.5,
    ]


@pytest.mark.slow
@given(st.lists(message, max_size=30))
def test_fractions_agree_with_sets_of_senders(messages):
    time, sender, receiver = (
        (np.array(column) for column in zip(*messages, strict=True))
        if messages
        else (
            np.array([]),
            np.array([], dtype=np.int64),
            np.array([], dtype=np.int64),
        )
    )
    at = np.arange(10.0)
    measured = fraction_met_at(*first_contact_times(time, sender, receiver), at=at, n_nodes=4)
    for row, moment in zip(measured, at, strict=True):
        known = [len({s for t, s, r in messages if r == node and t <= moment}) / 3 for node in range(4)]
        assert row.tolist() == known
