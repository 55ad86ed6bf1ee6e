"""Accuracy of the community detection attack and its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.measures.attack_accuracy import (
    accuracies,
    average_attack_accuracy,
    best_decile,
    certain_hits,
    community_fractions_met,
    exposures,
    guess_top_victims,
    overlap_fractions,
    random_bound,
)
from gossiprec.measures.communities import Communities
from tests.chances import chances, expected_accuracy

LEVELS = [np.nan, -np.inf, 0.0, 0.5, 1.0]


def found_in(values, community):
    """Return the accuracies of rankings of communities of these members, without ties."""
    values = np.asarray(values, np.float32)
    truth = community_of(community, values.shape[1])
    return accuracies(values, guess_top_victims(values, truth.k), truth)


def community_of(members, n_users):
    similarity = np.zeros((len(members), n_users))
    for row, some in enumerate(members):
        similarity[row, some] = 1.0
    return Communities.nearest(similarity, len(members[0]))


@st.composite
def worlds(draw):
    """Draw scores, similarities with many ties, and K."""
    n = draw(st.integers(2, 7))
    k = draw(st.integers(1, n - 1))
    scores = draw(hnp.arrays(np.float32, (n, n), elements=st.sampled_from(LEVELS)))
    similarity = draw(hnp.arrays(np.float64, (n, n), elements=st.sampled_from([0.0, 0.0, 0.5, 1.0])))
    np.fill_diagonal(scores, np.nan)
    np.fill_diagonal(similarity, -1.0)
    return scores, similarity, k


def likely(row, k):
    return chances({v: float(x) for v, x in enumerate(row) if not np.isnan(x)}, k)


def memberships(similarity, k):
    rows = [{v: x for v, x in enumerate(row) if v != user} for user, row in enumerate(similarity.tolist())]
    return [chances(row, k) for row in rows]


@pytest.mark.slow
@given(worlds())
def test_every_number_is_its_expectation_over_random_orders(world):
    scores, similarity, k = world
    truth, guesses = Communities.nearest(similarity, k), guess_top_victims(scores, k)
    members, guessed = memberships(similarity, k), [likely(row, k) for row in scores]
    expected = [expected_accuracy(*pair, k) for pair in zip(guessed, members, strict=True)]
    assert accuracies(scores, guesses, truth) == pytest.approx(expected, abs=1e-12)
    met = [dict.fromkeys(one, 1) for one in guessed]
    bounds = [expected_accuracy(*pair, k) for pair in zip(met, members, strict=True)]
    assert community_fractions_met(scores, truth) == pytest.approx(bounds, abs=1e-12)
    certain = {
        (a, v) for a in range(len(scores)) for v, m in members[a].items() if m == guessed[a].get(v, 0) == 1
    }
    assert set(zip(*(part.tolist() for part in certain_hits(scores, guesses, truth)), strict=True)) == certain
    for victim, share in enumerate(exposures(scores, guesses, truth).tolist()):
        asked = sum(one.get(victim, 0) for one in members)
        found = sum(m.get(victim, 0) * g.get(victim, 0) for m, g in zip(members, guessed, strict=True))
        assert share == pytest.approx(float(found / asked) if asked else np.nan, nan_ok=True)


@pytest.mark.slow
@given(worlds())
def test_accuracies_are_shares_below_the_upper_bound(world):
    scores, similarity, k = world
    truth = Communities.nearest(similarity, k)
    found = accuracies(scores, guess_top_victims(scores, k), truth)
    assert (found >= 0).all()
    assert (found <= community_fractions_met(scores, truth) + 1e-12).all()
    assert (found <= 1).all()


@pytest.mark.slow
@given(worlds())
def test_two_communities_overlap_by_their_expected_share(world):
    _, similarity, k = world
    other = np.where(similarity >= 0, 1 - similarity, -1.0)
    pairs = zip(memberships(similarity, k), memberships(other, k), strict=True)
    expected = [expected_accuracy(*pair, k) for pair in pairs]
    truth, found = (Communities.nearest(each, k) for each in (similarity, other))
    assert overlap_fractions(truth, found) == pytest.approx(expected)


def test_the_best_scored_victims_are_found_and_ties_give_no_more_than_a_guess():
    assert found_in([[0.1, 0.9, 0.8, 0.2]], [[0, 1]]).tolist() == [0.5]
    assert found_in([[0.9, 0.9, np.nan]], [[1]]).tolist() == [0.5]
    assert found_in([[0.9, 0.9, np.nan]], [[0]]).tolist() == [0.5]


def test_unmet_victims_are_never_found():
    assert found_in([[np.nan, np.nan, -np.inf]], [[0, 2]]).tolist() == [0.5]
    assert found_in([[np.nan, np.nan, np.nan]], [[0, 2]]).tolist() == [0.0]


def test_victims_whose_score_is_no_number_come_last_and_tie():
    assert found_in([[-np.inf, -np.inf, 0.3, np.nan]], [[0, 2]]).tolist() == [0.75]
    assert found_in([[-np.inf, -np.inf, 0.3, np.nan]], [[1, 3]]).tolist() == [0.25]


def test_accuracy_divides_by_the_community_size_even_when_few_were_met():
    values = [[np.nan, 0.4, np.nan, 0.5], [0.9, 0.6, 0.8, np.nan]]
    assert found_in(values, [[0, 1, 2], [0, 1, 2]]).tolist() == [1 / 3, 1.0]


def test_the_upper_bound_is_the_share_of_the_community_met():
    scores = np.array([[np.nan, 1, 1, np.nan], [1, np.nan, np.nan, np.nan]], np.float32)
    assert community_fractions_met(scores, community_of([[1, 2], [2, 3]], 4)).tolist() == [1.0, 0.0]


def test_best_decile_rounds_the_number_of_adversaries_up():
    accuracies = np.arange(11) / 100
    assert best_decile(accuracies) == pytest.approx((0.09, 0.095))


def test_best_decile_of_one_adversary_is_that_adversary():
    assert best_decile(np.array([0.4])) == (0.4, 0.4)


def test_a_guesser_reaches_the_random_bound():
    # Hypergeometric share: mean K/N, standard error below 0.001 over 2,000 guessers; tolerance four of them.
    draw, n, k = np.random.default_rng(2), 100, 10
    members = np.argsort(draw.random((2_000, n)), axis=1)[:, :k]
    assert average_attack_accuracy(found_in(draw.random((2_000, n)), members)) == pytest.approx(
        random_bound(k, n), abs=0.008
    )


def test_a_victim_is_exposed_by_the_share_of_the_interested_that_found_it():
    scores = np.array([[0, 2, 0, 0, 2], [0, 0, 2, 0, 2], [0, 0, 2, 0, 2]], np.float32)
    community = community_of([[1, 2], [2, 3], [0, 2]], 5)
    found = exposures(scores, guess_top_victims(scores, 2), community)
    assert found.tolist() == pytest.approx([0, 1, 2 / 3, 0, np.nan], nan_ok=True)
