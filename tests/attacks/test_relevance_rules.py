"""The relevance rules, as plain functions and as single and pooled observers apply them, compiled or not."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.base.ragged import Ragged
from gossiprec.numerics.relevance import (
    CUTOFF,
    RELEVANCE,
    count_members,
    mean_raw_score,
    mean_score,
    ndcg,
    standardized,
)
from tests.attacks.glimpses import FORMS, Receptions, show, started, world_of
from tests.slow import slow_except_first

RULES = list(RELEVANCE)
NAN = float("nan")

levels = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 0.5000001, 0.75, 1.0])
score = st.one_of(levels, st.floats(-20, 20, width=32))


def row(*values):
    return np.array([values], np.float32)


def rows(elements, least, most):
    return hnp.arrays(np.float32, st.integers(least, most), elements=elements)


def observed(who, form, rule, targets, references):
    """Return what an observer makes of a victim whose model gives these very logits to its items."""
    n_items, n_targets = len(targets) + len(references), len(targets)
    sets = Ragged.sets_from_pairs(np.r_[np.zeros(n_targets, int), 1], np.r_[:n_targets, 0], 2)
    world = world_of(sets, n_items, form=form)
    received = Receptions.drawn([(1, 0)], world)
    layout, version = world.layout, received.rows[0]
    version[:] = 0.0
    version[[0, layout.shared.start]] = 1.0  # u = h = (1, 0, ..., 0): the logit is the item's first number
    version[layout.items][::8] = np.concatenate([targets, references])
    options = {"relevance": rule, "reference_items": len(references), "community_size": 1}
    attack = CDA(CDAOptions(who=who, **({"members": (0,)} if who == "coalition" else {}), **options), world)
    return show(started(attack, world, received), world, received)[0].scores[0, 1]


every_form = pytest.mark.parametrize(
    "form",
    [functools.partial(observed, who, form) for who in ("single", "coalition") for form in FORMS],
    ids=[f"{who}-{form}" for who in ("single", "pooled") for form in FORMS],
)


def test_mean_score_is_the_mean_probability_of_the_targets_alone():
    # logits 0 and log 3 are probabilities 1/2 and 3/4
    assert mean_score(row(0.0, np.log(3)), row(-2.0, 7.0))[0] == pytest.approx(0.625)


def test_ndcg_is_the_mean_gain_of_each_target_among_the_references():
    found = ndcg(row(0.9, 0.5, 0.1), row(0.6, 0.4, 0.2))
    # ranks 0, 1 and 3: gains 1, 1/log2(3) and 1/log2(5)
    assert found[0] == pytest.approx((1 + 1 / np.log2(3) + 1 / np.log2(5)) / 3)


def test_ndcg_gives_nothing_beyond_its_cutoff():
    references = row(*[0.9] * (CUTOFF - 1), 0.3, 0.1)
    assert ndcg(row(0.5), references)[0] == pytest.approx(1 / np.log2(CUTOFF + 1))
    assert ndcg(row(0.2), references)[0] == 0.0


def test_standardized_counts_deviations_of_the_references():
    # references: mean 0.5, deviation 0.25; targets: mean 0.875
    assert standardized(row(0.75, 1.0), row(0.25, 0.75))[0] == pytest.approx(1.5)


def test_models_are_scored_one_by_one():
    targets, references = row(0.9, 0.8), row(0.3, 0.5)
    both = [np.concatenate(pair) for pair in [(targets, references), (references, targets)]]
    for rule in RELEVANCE.values():
        assert rule(*both).tolist() == [rule(targets, references)[0], rule(references, targets)[0]]


@pytest.mark.parametrize("constant", [0.1, 0.3, 0.5, 0.7, 1.0])
def test_a_model_that_scores_everything_alike_serves_no_one(constant):
    targets, references = row(*[constant] * 3), row(*[constant] * 99)
    assert ndcg(targets, references)[0] == 0.0
    assert standardized(targets, references)[0] == 0.0


@every_form
@pytest.mark.parametrize("constant", [0.1, 0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("n_references", [2, 3, 20, 99])
def test_equal_references_make_a_standardized_score_of_zero_in_every_form(form, constant, n_references):
    targets, references = np.float32([0.9]), np.full(n_references, constant, np.float32)
    assert standardized(targets[None], references[None])[0] == 0.0
    assert form("standardized", targets, references) == 0.0


@every_form
@pytest.mark.parametrize("rule", slow_except_first(RULES))
@settings(deadline=None, derandomize=True, max_examples=60)
@given(targets=rows(score, 1, 6), references=rows(score, 2, 45))
@pytest.mark.cases(1)
def test_an_observer_finds_what_the_rule_says(form, rule, targets, references):
    expected = RELEVANCE[rule](targets[None], references[None])[0]
    np.testing.assert_allclose(form(rule, targets, references), expected, rtol=1e-5, atol=1e-6)


@every_form
@pytest.mark.parametrize("rule", slow_except_first(RULES))
@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    targets=rows(st.one_of(levels, st.just(NAN)), 1, 4),
    references=rows(st.one_of(levels, st.just(NAN)), 2, 30),
)
@pytest.mark.cases(1)
def test_an_observer_finds_what_the_rule_says_where_scores_are_not_numbers(form, rule, targets, references):
    expected = RELEVANCE[rule](targets[None], references[None])[0]
    np.testing.assert_allclose(form(rule, targets, references), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_a_model_that_diverged_is_met_but_comes_last(rule):
    broken = RELEVANCE[rule](row(NAN, NAN), row(*[NAN] * 30))[0]
    worst = RELEVANCE[rule](row(-9.0, -9.0), row(*np.linspace(0.1, 1.0, 30)))[0]
    assert not np.isnan(broken)
    assert broken <= worst


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "rule", [*RELEVANCE.values(), mean_raw_score, functools.partial(count_members, threshold=0.4)]
)
def test_scores_that_are_not_finite_give_no_warning_and_no_nan(rule):
    wild = np.array(
        [[np.inf, -np.inf], [np.inf, 1], [-np.inf, -np.inf], [np.nan, 2], [3e38, 3e38]], np.float32
    )
    assert not np.isnan(rule(wild, wild[::-1])).any()


def test_a_target_that_is_not_a_number_loses_and_a_reference_that_is_not_wins():
    assert ndcg(row(NAN), row(0.1, 0.2))[0] == pytest.approx(1 / np.log2(4))
    assert ndcg(row(0.5), row(NAN, 0.2))[0] == pytest.approx(1 / np.log2(3))


sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)


@pytest.mark.slow
@given(
    rows(sixty_fourths, 1, 6), rows(sixty_fourths, 2, 30), st.sampled_from([0.25, 0.5, 2.0]), sixty_fourths
)
def test_standardized_is_the_same_under_affine_maps(targets, references, scale, shift):
    before = standardized(targets[None], references[None])
    after = standardized(targets[None] * scale + shift, references[None] * scale + shift)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@given(rows(sixty_fourths, 1, 6), rows(sixty_fourths, 2, 30))
def test_ndcg_is_the_same_under_increasing_maps(targets, references):
    def bent(scores):
        return (scores**3 / 2).astype(np.float32)  # distinct 64ths stay distinct

    assert (ndcg(bent(targets[None]), bent(references[None])) == ndcg(targets[None], references[None])).all()
