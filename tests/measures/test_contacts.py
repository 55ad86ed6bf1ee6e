"""The fraction of others met, predicted and counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.figures import node_values
from gossiprec.figures.node_values import first_contact_times, fraction_met_at, predicted_fraction_met


def messages_of(time, sender, receiver):
    return {"time": np.array(time), "sender": np.array(sender), "receiver": np.array(receiver)}


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
    time, receiver, sender = first_contact_times(
        [messages_of([3.0], [7], [0]), messages_of([1.0, 2.0], [7, 8], [0, 0])]
    )
    assert (time.tolist(), receiver.tolist(), sender.tolist()) == ([1.0, 2.0], [0, 0], [7, 8])


def test_a_meeting_counts_from_its_own_time_on():
    at = np.array([0.0, 1.0, 2.0])
    assert fraction_met_at(np.array([1.0, 2.5]), np.array([0, 0]), at=at, n_nodes=3)[:, 0].tolist() == [
        0,
        0.5,
        0.5,
    ]


@pytest.mark.slow
@given(st.lists(st.lists(message, min_size=1, max_size=10), max_size=5), st.sampled_from([1, 4, 2**16]))
def test_fractions_agree_with_sets_of_senders(parts, fold):
    messages, at = [each for part in parts for each in part], np.arange(10.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_values, "FOLD_PAIRS", fold)
        time, receiver, _ = first_contact_times([messages_of(*zip(*part, strict=True)) for part in parts])
    measured = fraction_met_at(time, receiver, at=at, n_nodes=4)
    for row, moment in zip(measured, at, strict=True):
        known = [len({s for t, s, r in messages if r == node and t <= moment}) / 3 for node in range(4)]
        assert row.tolist() == known
