"""What users contribute: what it costs, what it depends on, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from contributing import Given, alike, drawn_at_random, users_with

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import build_registered
from gossiprec.base.ragged import Ragged
from gossiprec.data import load_split
from gossiprec.federated.pdc_frs import contribution
from gossiprec.federated.pdc_frs.contribution import ExponentialMechanism, _inverse, perturb_items
from gossiprec.rules.similarities import SIMILARITIES

N_ITEMS = 40
TRAIN = users_with([5, 1, 12, 30, 8], N_ITEMS)


def contributed(train=TRAIN, similarity=None, *, epsilon=6.0, seed=1, **more):
    return perturb_items(train, similarity or drawn_at_random(N_ITEMS), epsilon=epsilon, seed=seed, **more)


@pytest.mark.parametrize("epsilon", [0.3, 4.0, 25.0])
def test_no_outcome_tells_two_items_further_apart_than_epsilon(epsilon):
    ((_, _, found),) = ExponentialMechanism(drawn_at_random(30), epsilon=epsilon).blocks(np.arange(30))
    ratios = found[:, None, :] / found[None, :, :]
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-9)
    assert ratios.max() > math.exp(epsilon / 4)  # the budget is used


def test_a_contribution_is_the_set_of_what_each_item_became():
    found = contributed()
    for user in range(len(TRAIN)):
        became = TRAIN.with_values(found.drawn)[user]
        assert found.sets[user].tolist() == sorted(set(became.tolist()))
    assert found.sets.values.dtype == found.drawn.dtype == np.int32
    assert found.kept == np.mean(found.drawn == TRAIN.values)
    table = drawn_at_random(N_ITEMS).table
    assert found.similarity == pytest.approx(table[TRAIN.values, found.drawn].mean())


def test_the_expected_share_kept_is_the_mean_over_training_items():
    similarity = drawn_at_random(N_ITEMS)
    weights = np.exp(similarity.table.astype(float) * 3)
    keep = (weights / weights.sum(axis=1, keepdims=True)).diagonal()
    assert contributed(epsilon=6.0).expected_keep == pytest.approx(keep[TRAIN.values].mean())


def test_what_a_user_contributes_depends_on_nobody_else(monkeypatch):
    whole = contributed()
    for first, last in ((0, 2), (2, 5), (3, 4)):
        rows = [TRAIN[user] if first <= user < last else TRAIN[user][:0] for user in range(len(TRAIN))]
        some = contributed(Ragged.from_parts(rows))
        for user in range(first, last):
            assert some.sets[user].tobytes() == whole.sets[user].tobytes()
    monkeypatch.setattr(contribution, "BLOCK_CELLS", 1)
    assert contributed().drawn.tobytes() == whole.drawn.tobytes()


def test_another_seed_draws_otherwise_and_the_same_seed_alike():
    assert contributed(seed=1).drawn.tobytes() == contributed(seed=1).drawn.tobytes()
    assert contributed(seed=1).drawn.tobytes() != contributed(seed=2).drawn.tobytes()


def test_users_with_the_same_items_draw_independently():
    found = contributed(Ragged.from_parts([np.arange(30, dtype=np.int32)] * 2), epsilon=0.1)
    assert found.drawn[:30].tolist() != found.drawn[30:].tolist()


def test_budgets_of_items_add_up_to_those_of_sets():
    found = contributed(epsilon=2.5)
    assert found.epsilon_set.tolist() == [12.5, 2.5, 30.0, 75.0, 20.0]
    told = found.report()
    assert (told["epsilon_item"], told["epsilon_set_max"], told["epsilon_set_mean"]) == (2.5, 75.0, 28.0)
    assert told["items_mean"] == found.sets.sizes.mean()


@pytest.mark.parametrize("epsilon", [1e4, 1e300])
def test_without_perturbation_the_report_says_that_these_are_the_training_data(epsilon):
    found = contributed(epsilon=epsilon)
    assert found.sets.values.tolist() == TRAIN.values.tolist()
    assert found.kept == found.similarity == 1
    assert (
        found.report()["note"]
        == "100.0% of the contributed items are unchanged: they reveal most of the training data"
    )
    assert "note" not in contributed(epsilon=5.0).report()


def test_with_no_budget_all_items_are_as_likely():
    found = contributed(users_with([N_ITEMS // 2] * 2000, N_ITEMS), epsilon=1e-9)
    counts = np.bincount(found.drawn, minlength=N_ITEMS)
    assert found.expected_keep == pytest.approx(1 / N_ITEMS)
    assert np.abs(counts - 1000).max() < 5 * math.sqrt(1000)  # five deviations of a count of mean 1000


def test_draws_at_the_ends_fall_where_there_is_some_probability():
    assert _inverse(np.array([0.0, 0.25, 0.25, 1.0, 1.0]), np.array([1e-17, 0.25, 0.2, 1.0])).tolist() == [
        1,
        3,
        1,
        3,
    ]


def test_what_has_no_probability_is_never_drawn():
    table = np.eye(N_ITEMS)
    table[:, 1:20] = table[:, 1:20] + 0.999 * (1 - np.eye(N_ITEMS)[:, 1:20])
    train = users_with([20] * 500, N_ITEMS)
    found = contributed(train, Given(table), epsilon=1e4)
    among = (found.drawn == train.values) | ((found.drawn >= 1) & (found.drawn < 20))
    assert among.all()


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    with pytest.raises(
        ScenarioError, match=r"^epsilon: found .*; expected a finite number above 0, such as 5$"
    ):
        contributed(epsilon=epsilon)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, 0.5, math.nan, math.inf])
def test_a_sensitivity_below_the_known_one_is_refused(sensitivity):
    with pytest.raises(
        ScenarioError, match=r"^sensitivity: found .*; expected at least 1, the largest difference of Given$"
    ):
        contributed(sensitivity=sensitivity)


def test_a_similarity_of_unknown_sensitivity_asks_for_one():
    unknown = Given(drawn_at_random(N_ITEMS).table, sensitivity=None)
    with pytest.raises(
        ScenarioError,
        match=r"^sensitivity: found none, and the sensitivity of the similarity Given is unknown",
    ):
        contributed(similarity=unknown)
    assert contributed(similarity=unknown, sensitivity=1.0).drawn.tolist() == contributed().drawn.tolist()
    with pytest.raises(
        ScenarioError, match=r"^sensitivity: found 0.1, but .* differ by 0.\d+, so epsilon would not"
    ):
        contributed(similarity=unknown, sensitivity=0.1)


def test_a_similarity_that_is_no_number_is_refused():
    broken = drawn_at_random(N_ITEMS)
    broken.table[3, 4] = np.nan
    with pytest.raises(ScenarioError, match="differ by nan, so epsilon would not hold"):
        contributed(users_with([39], N_ITEMS), broken)


def test_a_wider_sensitivity_keeps_less():
    assert contributed(sensitivity=2.0).expected_keep < contributed().expected_keep
    doubled = contributed(epsilon=12.0, sensitivity=2.0)
    assert doubled.drawn.tolist() == contributed(epsilon=6.0).drawn.tolist()


def test_alike_items_are_kept_by_the_closed_form():
    kept = contributed(similarity=alike(N_ITEMS), epsilon=8.0).expected_keep
    assert kept == pytest.approx(math.exp(4) / (math.exp(4) + 39 * math.exp(0.8)))


@pytest.mark.realdata
@pytest.mark.full
def test_movielens_1m_is_contributed_by_its_titles_as_expected():
    """Of independent draws with mean p the share has a deviation below sqrt(p / n); five of them."""
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "ml-1m"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    train = load_split("movielens-1m", {"path": folder}, "random", {"test": 0.2, "validation": 0}, 1)
    similarity = build_registered(SIMILARITIES, "titles").fit(train, seed=1)
    found = contributed(train.train, similarity, epsilon=30.0)
    assert len(found.drawn) == 800_193
    assert found.kept == pytest.approx(
        found.expected_keep, abs=5 * math.sqrt(found.expected_keep / len(found.drawn))
    )
    assert 0.6 < found.similarity < 1
