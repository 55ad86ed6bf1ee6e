"""From a gradient to a message: its size, and when it begins."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.adversaries.poisoners.poisoned_messages import PoisonedMessages
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta

SENT = MessagePayload(None, np.ones((6, 2), np.float32), np.zeros(3, np.float32))
ROWS = np.array([[3.0, 4.0], [0.0, 0.5]], np.float32)


class Fixed:
    """Always has the same gradient."""

    def __init__(self, **broken):
        parts = {"items": np.array([1, 4]), "rows": ROWS, "shared": np.array([1.0, 2.0, 0.0], np.float32)}
        self.change = ModelDelta(**(parts | broken))

    def gradient(self, sent, push):
        return self.change


def push(round_=1):
    return PushContext(0, 9, 0, np.zeros(0, np.int32), round=round_)


def forged(round_=1, start=1, poisoner=None, **how):
    return PoisonedMessages("fixed", poisoner or Fixed(), start, 0.1, **how).forge(SENT, push(round_))


def test_a_message_goes_against_the_gradient_by_the_learning_rate():
    found = forged()
    assert found.items.tolist() == [1, 4]
    np.testing.assert_allclose(found.rows, -0.1 * ROWS, rtol=1e-6)
    np.testing.assert_allclose(found.shared, [-0.1, -0.2, 0.0], rtol=1e-6)
    assert {part.dtype.name for part in (found.rows, found.shared)} == {"float32"}


def test_boost_multiplies_all_of_it():
    np.testing.assert_allclose(forged(boost=20).rows, -2 * ROWS, rtol=1e-6)
    np.testing.assert_allclose(forged(boost=20).shared, [-2, -4, 0], rtol=1e-6)


def test_clip_bounds_the_change_of_each_row_after_boosting():
    found = forged(boost=10, clip=2.0)  # norms were 5 and 0.5
    np.testing.assert_allclose(found.rows, [[-1.2, -1.6], [0, -0.5]], rtol=1e-6)
    np.testing.assert_allclose(found.shared, [-1, -2, 0], rtol=1e-6)


def test_clip_shared_bounds_the_change_of_the_shared_weights_and_no_other():
    found = forged(boost=10, clip_shared=0.5)
    np.testing.assert_allclose(found.shared, np.array([-1, -2, 0]) * 0.5 / 5**0.5, rtol=1e-6)
    np.testing.assert_array_equal(found.rows, forged(boost=10).rows)
    np.testing.assert_array_equal(forged(clip_shared=1.0).shared, forged().shared)


def test_matched_rows_have_the_median_norm_that_is_asked_for():
    found = forged(boost=2, norm=lambda sent, push: 0.55)
    norms = np.linalg.norm(found.rows, axis=1)
    np.testing.assert_allclose(np.median(norms), 2 * 0.55, rtol=1e-6)
    np.testing.assert_allclose(norms[0] / norms[1], 10, rtol=1e-6)
    np.testing.assert_allclose(found.shared / found.rows[0, 0], np.array([1, 2, 0]) / 3, rtol=1e-6)


def test_before_its_start_a_poisoner_changes_nothing():
    early, due = (forged(round_, start=3) for round_ in (2, 3))
    assert len(early.items) == 0
    assert early.rows.shape == (0, 2)
    assert not early.shared.any()
    assert len(due.items) == 2


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"rows": ROWS * np.nan}, "contains NaN or infinite values"),
        ({"shared": np.array([0, np.inf, 0])}, "contains NaN or infinite values"),
        (
            {"rows": ROWS[:1]},
            r"contains .* of shapes \(2,\), \(1, 2\), \(3,\); expected a row of 2 values for each item",
        ),
        ({"rows": ROWS[0]}, r"contains .* of shapes \(2,\), \(2,\), \(3,\)"),
        ({"items": np.array([4, 1])}, r"contains items \[4, 1\]; expected ascending numbers from 0 to 5"),
        ({"items": np.array([1, 6])}, r"contains items \[1, 6\]"),
    ],
)
def test_what_is_no_change_is_refused_by_node_and_round(broken, why):
    with pytest.raises(ScenarioError, match=f"attackers: fixed: the message of node 9 in round 7 {why}"):
        forged(7, poisoner=Fixed(**broken))


def test_a_message_that_overflows_is_refused():
    with pytest.raises(ScenarioError, match=r"NaN or infinite values; lower .* boost"):
        forged(boost=1e39)
