"""Bands around the print, and what becomes of a number that meets them, reaches them or misses."""

from __future__ import annotations

import math

import pytest

from analysis.cda_paper import PUBLISHED
from analysis.cda_paper.measures import (
    CellResult,
    NumberResults,
    ReportCell,
    collect_number_results,
    count_verdicts,
)
from analysis.papers.comparison import PrintedNumber
from analysis.papers.verdict import Verdict, confidence_half_width, judge_agreement, tolerance_band


def number(low, high):
    return PrintedNumber("table4", "movielens-100k", "fedavg gmf", "max_aac", 50.0, band=(low, high))


def by_seed(*values):
    return dict(enumerate(values, start=1))


@pytest.mark.parametrize(
    ("value", "rule", "expected"),
    [
        (57.4, {"points": 3, "share": 0.15}, (48.79, 66.01)),
        (14.6, {"points": 3, "share": 0.15}, (11.6, 17.6)),  # 15 % would be less than 3 points
        (0, {"points": 3, "share": 0.15}, (0, 3)),
        (0.7, {"points": 3, "share": 0.15}, (0, 3.7)),
        (100, {"points": 3, "share": 0.15, "most": 100}, (85, 100)),
        (-2, {"points": 3}, (-5, 1)),
        (0.87, {"points": 0.05, "most": 1}, (0.82, 0.92)),
        (943, {}, (943, 943)),
    ],
)
def test_a_band_is_as_wide_as_its_rule_says(value, rule, expected):
    assert tolerance_band(value, **rule) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (by_seed(), Verdict.NOT_RUN),
        (by_seed(math.nan), Verdict.NOT_RUN),
        (by_seed(44.0), Verdict.WITHIN),
        (by_seed(40.0), Verdict.WITHIN),  # the end belongs to it
        (by_seed(39.9), Verdict.OUTSIDE),  # one seed has no interval
        (by_seed(39.0, 39.4, 39.2), Verdict.OUTSIDE),
        (by_seed(36.0, 42.0, 39.0), Verdict.NEAR),
        (by_seed(58.0, 64.0, 61.0), Verdict.NEAR),
        (by_seed(30.0, 70.0), Verdict.WITHIN),
        (by_seed(0.0, 0.0, 0.0), Verdict.OUTSIDE),
    ],
)
def test_the_mean_decides_and_the_interval_can_only_make_it_near(values, expected):
    assert judge_agreement(number(40.0, 60.0).band, values) is expected


def test_an_exact_number_is_met_by_itself_alone():
    assert judge_agreement(number(1682, 1682).band, by_seed(1682.0, 1682.0)) is Verdict.WITHIN
    assert judge_agreement(number(1682, 1682).band, by_seed(1683.0)) is Verdict.OUTSIDE
    assert judge_agreement(number(0.0, 0.0).band, by_seed(0.0)) is Verdict.WITHIN


def test_rounding_in_the_last_digit_of_a_float_is_no_miss():
    assert judge_agreement(number(0.0, 0.1 + 0.2).band, by_seed(0.3)) is Verdict.WITHIN
    assert judge_agreement(number(0.0, 0.3).band, by_seed(0.1 + 0.2)) is Verdict.WITHIN


def test_a_number_without_a_band_is_not_judged_whatever_was_measured():
    told = PrintedNumber("text", "6.1", "x", "y", ">=90", unjudged="the text gives a range")
    assert judge_agreement(told.band, by_seed(95.0)) is judge_agreement(told.band, {}) is Verdict.UNJUDGED


def test_the_interval_is_students():
    """Three seeds, standard deviation 1: t(0.975, 2) = 4.3027, over the root of 3."""
    assert confidence_half_width(by_seed(9.0, 10.0, 11.0)) == pytest.approx(
        (10 - 2.4841, 10 + 2.4841), abs=1e-4
    )
    assert all(math.isnan(end) for end in (*confidence_half_width(by_seed(5.0)), *confidence_half_width({})))


def test_every_printed_number_has_a_band_or_a_reason_for_none():
    for told in PUBLISHED.printed_numbers:
        assert (told.band is None) == bool(told.unjudged), told
        assert told.band is None or told.band[0] <= told.value <= told.band[1], told
    unjudged = {told.row for told in PUBLISHED.printed_numbers if told.band is None and told.table != "text"}
    assert unjudged == {"aia", "cda"}  # their times


def test_kinds_of_bands_are_those_of_the_quantities():
    of = {(told.table, told.row, told.column): told.band for told in PUBLISHED.printed_numbers}
    assert of["table10", "entropy mia 0.2", "precision"] == pytest.approx((0.39, 0.49))
    assert of["table10", "cda", "max_aac"] == pytest.approx((48.45, 65.55))
    assert of["table9", "K=10", "random"] == pytest.approx((0.5, 1.5))
    assert of["table4-bounds", "rand-gossip upper bound", "bound"] == pytest.approx((68.85, 93.15))
    assert of["table2", "statistics", "items"] in ((1682, 1682), (38333, 38333))


def test_each_printed_number_is_judged_once_and_second_readings_are_not_counted():
    printed = set(PUBLISHED.printed_numbers)
    found = [group for group in collect_number_results({}) if group.printed in printed]
    assert [group.printed for group in found] == list(PUBLISHED.printed_numbers)
    told = dict(zip(Verdict, count_verdicts(group.first for group in found), strict=True))
    assert sum(told.values()) == 113
    assert told[Verdict.WITHIN] == told[Verdict.NEAR] == told[Verdict.OUTSIDE] == 0


def test_the_nearest_setting_is_the_verdict_and_the_first_stays_beside_it():
    told = number(40.0, 60.0)
    results = tuple(
        CellResult(ReportCell(told, name), values, judge_agreement(told.band, values))
        for name, values in (("a", by_seed(30.0)), ("b", by_seed(50.0)), ("c", by_seed(50.1)), ("d", {}))
    )
    group = NumberResults(told, results)
    assert (group.first.cell.variant, group.nearest.cell.variant, group.first_with_run.cell.variant) == (
        "a",
        "b",
        "a",
    )
    assert NumberResults(told, results[::-1]).first_with_run.cell.variant == "c"


def test_of_equal_verdicts_the_setting_compared_first_stays():
    assert all(group.nearest is group.first for group in collect_number_results({}))
