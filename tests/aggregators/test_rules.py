"""What each rule makes of small inboxes; what all keep to is in tests/contracts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.rules.aggregators import AGGREGATORS, Inbox, make_aggregator
from gossiprec.testing import check_aggregator

RULES = list(AGGREGATORS)
WITHIN_HULL = ["mean", "samples", "median", "trimmed-mean", "krum"]
"""Rules that do not begin with the own model."""


def inbox(models, weights=None, own_weight=0.0):
    models = np.array(models, np.float32)
    places = np.arange(len(models))
    return Inbox(
        models, places, np.ones(len(models)) if weights is None else np.array(weights, float), own_weight
    )


def aggregated(name, own, models, **more):
    rule = make_aggregator(name)
    return rule.aggregate(np.array(own, np.float32), inbox(models, **more))


@st.composite
def worlds(draw):
    n, columns = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    own, models = rng.normal(size=columns), rng.normal(size=(n, columns))
    return own, models, rng.uniform(0.5, 9.0, n)


@pytest.mark.parametrize("name", WITHIN_HULL)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(world=worlds())
def test_a_coordinators_model_is_none_of_those_to_choose_among(name, world):
    own, models, weights = world
    found = aggregated(name, own, models, weights=weights)

    assert (found >= models.min(axis=0) - 1e-4).all()
    assert (found <= models.max(axis=0) + 1e-4).all()


def test_means_weigh_models_and_count_the_own_one_if_it_has_a_weight():
    assert aggregated("mean", [9], [[1], [4]], weights=[2, 1]).tolist() == [2]
    assert aggregated("samples", [10], [[1], [4]], weights=[2, 1], own_weight=1).tolist() == [4]


def test_samples_weighs_by_positives_and_all_others_alike():
    n_positives = np.array([3, 7])
    assert make_aggregator("samples").weights(n_positives).tolist() == [3, 7]
    assert {tuple(make_aggregator(name).weights(n_positives)) for name in RULES if name != "samples"} == {
        (1, 1)
    }


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([1, 2, 30], 0.0, 11),
        ([1, 2, 30], 0.1, 2),  # rounded up: one at each end
        ([1, 2, 3, 4, 100], 0.2, 3),
        ([1, 2, 3, 4, 100], 0.21, 3),  # two at each end
        ([1, 2, 4, 100], 0.4, 3),  # two would be all: one at each end
        ([5, 7], 0.4, 6),
        ([5], 0.4, 5),
    ],
)
def test_the_trimmed_mean_drops_a_share_at_each_end(values, share, expected):
    rule = {"name": "trimmed-mean", "share": share}
    assert aggregated(rule, [0], [[value] for value in values]).tolist() == pytest.approx([expected])


def test_a_norm_bound_scales_differences_to_the_own_model_down():
    own, models = [1, 1], [[4, 5], [1, 1.5]]  # differences of norm 5 and 0.5
    bounded = aggregated({"name": "norm-bound", "bound": 1.0}, own, models)
    np.testing.assert_allclose(bounded, [1 + 0.6 / 2, 1 + (0.8 + 0.5) / 2], rtol=1e-6)
    gossip = aggregated({"name": "norm-bound", "bound": 1.0}, own, models, weights=[2, 1], own_weight=1.0)
    np.testing.assert_allclose(gossip, [1 + 2 * 0.6 / 4, 1 + (2 * 0.8 + 0.5) / 4], rtol=1e-6)
    by_inbox = aggregated("norm-bound", own, models)  # the median norm is 2.75
    np.testing.assert_allclose(by_inbox, [1 + 2.75 * 0.6 / 2, 1 + (2.75 * 0.8 + 0.5) / 2], rtol=1e-6)


def test_models_that_are_the_own_one_change_nothing():
    assert aggregated("norm-bound", [2, 3], [[2, 3], [2, 3]]).tolist() == [2, 3]


def test_the_median_of_an_even_number_lies_between_the_middle_two():
    models = [[1, 9], [2, 8], [50, 7], [4, -70]]
    assert aggregated("median", [0, 0], models).tolist() == [3, 7.5]
    assert aggregated("median", [3, 0], models, own_weight=1.0).tolist() == [3, 7]


def test_krum_takes_the_model_closest_to_its_nearest_ones():
    """Five models, one of them hostile: each sums its two nearest; 1.0 has 0.9 and 1.2."""
    models = [[0.0], [0.9], [1.0], [1.2], [40.0]]
    assert aggregated("krum", [9], models).tolist() == pytest.approx([1.0])
    assert aggregated({"name": "krum", "keep": 3}, [9], models).tolist() == pytest.approx([3.1 / 3])
    assert aggregated({"name": "krum", "keep": 99}, [9], models).tolist() == pytest.approx([43.1 / 5])
    assert aggregated({"name": "krum", "byzantine": 50}, [9], [[0], [5], [6]]).tolist() == [
        5
    ]  # too few: one nearest
    assert aggregated("krum", [9], [[2], [4]]).tolist() == [3]
    assert aggregated("krum", [3], [[2], [3.2], [-90]], own_weight=1.0).tolist() == [3]


def test_if_no_model_has_a_norm_the_own_one_stays():
    assert aggregated("norm-bound", [2, 3], [[np.nan, 1], [np.inf, 0]]).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"name": "trimmed-mean", "share": 0.5},
            "trimmed-mean: share: found 0.5, input should be less than 0.5",
        ),
        (
            {"name": "norm-bound", "bond": 1},
            r"has no option 'bond'; did you mean 'bound'\? \(known: bound, over",
        ),
        ({"name": "mean", "share": 1}, r"mean has no option 'share' \(known: none\)"),
        ({"share": 0.1}, "must be a name or {name: ...} with one of .*trimmed-mean"),
    ],
)
def test_bad_options_are_named(rule, message):
    with pytest.raises(ValueError, match=message):
        make_aggregator(rule)


def test_the_rule_of_the_page_works_as_shown():
    page = (Path(__file__).resolve().parents[2] / "docs" / "aggregators.md").read_text()
    code, before = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], dict(AGGREGATORS.members())
    try:
        exec(code.replace("from __future__ import annotations\n", ""), found := {})
        assert aggregated("largest", [4, 1], [[1, 2], [3, 0]], own_weight=1.0).tolist() == [4, 2]
        assert aggregated("largest", [4, 1], [[1, 2], [3, 0]]).tolist() == [3, 2]
        with pytest.raises(
            AssertionError,
            match=r"contract:\n- Withstand one invalid model in seven .*inf.*\n- Withstand as many .*$",
        ):
            check_aggregator(found["Largest"])
    finally:
        AGGREGATORS._members.clear()
        AGGREGATORS._members.update(before)


def test_the_page_tells_of_every_rule():
    page = (Path(__file__).resolve().parents[2] / "docs" / "aggregators.md").read_text()
    assert {name for name in RULES if f"| `{name}` |" in page} == set(RULES)
