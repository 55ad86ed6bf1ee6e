"""Two values of a measure are compared in its direction, and rounding errors make neither better."""

import math

import numpy as np
import pytest

from gossiprec.emulation.run_parts.best_validation import BestValidationReport
from gossiprec.emulation.run_parts.early_stop import EarlyStop
from gossiprec.emulation.scoring.remarks import Remarks
from gossiprec.measures.direction import best_place, better_sign, compare_values
from gossiprec.scenario.sections import StopOptions
from gossiprec.study.spec import Bound
from tests.emulation.reports import report

A_BIT_LESS, A_BIT_MORE = np.mean([0.3, 0.2, 0.1]), np.mean([0.1, 0.2, 0.3])
"""Two ways to compute 0.2."""


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("hr@20", 1),
        ("val_recall@5", 1),
        ("recall@20[validated]", 1),
        ("recall@20[gender=F]", 1),
        ("hr@20[popularity]", 0),
        ("er@5", -1),
        ("er@5[17]", -1),
        ("miscalibration@5", -1),
        ("miscalibration@5[validated]", -1),
        ("exposure_gini@5", -1),
        ("coverage@5", 1),
        ("novelty@5", 1),
        ("train_loss", -1),
        ("max_aac", -1),
        ("at_round", 0),
        ("random_bound", 0),
        ("bytes.sent", -1),
        ("item_auc", -1),
        ("item_auc_popularity", 0),
        ("messages", 0),
        ("unknown@5", 0),
    ],
)
def test_measures_have_a_direction(name, sign):
    assert better_sign(name) == sign


def test_a_lower_value_is_better_if_the_measure_says_so():
    assert compare_values("hr@5", 0.5, 0.3) == pytest.approx(0.2)
    assert compare_values("miscalibration@5", 0.5, 0.3) == pytest.approx(-0.2)
    assert compare_values("hr@5", A_BIT_MORE, A_BIT_LESS) == 0
    assert math.isnan(compare_values("messages", 1.0, 2.0))
    assert not compare_values("hr@5", math.nan, 0.1) > 0


def test_the_best_value_is_the_first_of_equal_ones():
    values = [math.nan, 0.4, A_BIT_LESS, A_BIT_MORE, 0.4]
    assert best_place("hr@5", values) == 1
    assert best_place("miscalibration@5", values) == 2
    assert best_place("miscalibration@5", [A_BIT_MORE, A_BIT_LESS]) == 0
    assert best_place("hr@5", [math.nan]) is None
    assert best_place("messages", [1.0, 2.0]) is None


def test_a_note_counts_what_equals_an_order_as_not_better():
    for own, order in ((A_BIT_MORE, A_BIT_LESS), (A_BIT_LESS, A_BIT_MORE)):
        assert own != order
        remarks = Remarks(10, {"hr@5": own}, {"random": {"hr@5": order}}, {})
        assert remarks.metrics_not_above_baselines == {"random": ["hr@5"]}


def test_a_gain_of_exactly_the_least_one_is_not_larger():
    """0.8 - 0.7 is computed as 0.10000000000000009."""
    rule = EarlyStop(StopOptions(measure="val_recall@5", patience=1, min_delta=0.1))
    assert [rule.after_utility(report({"val_recall@5": value})) for value in (0.7, 0.8)] == [False, True]


def test_equal_reports_leave_the_first_one_the_best():
    noted = BestValidationReport("val_recall@5")
    reports = [report({"val_recall@5": v}) for v in (A_BIT_LESS, A_BIT_MORE)]
    for each in reports:
        noted.after_utility(each)
    assert [each.is_best for each in reports] == [True, False]


def test_a_bound_is_met_by_a_mean_that_equals_it():
    assert A_BIT_LESS < A_BIT_MORE
    for value in (A_BIT_LESS, A_BIT_MORE):
        assert Bound(at_least=A_BIT_MORE).violation(value) == 0
        assert Bound(at_most=A_BIT_LESS).violation(value) == 0
    assert Bound(at_least=0.3).violation(0.2) == pytest.approx(1 / 3)
