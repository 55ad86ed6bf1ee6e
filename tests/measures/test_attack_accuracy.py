"""Accuracy of the community detection attack and its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.measures.attack import (
    aac,
    accuracy_of_hits,
    best_decile,
    found_by,
    hits_of_scores,
    random_bound,
    upper_bound,
)

scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(2, 7)),
    elements=st.sampled_from([np.nan, -np.inf, 0.0, 0.5, 1.0]),
)


def accuracies(values, community):
    return accuracy_of_hits(hits_of_scores(np.asarray(values), np.asarray(community)))


def found_by_sorting(row, k):
    met = [victim for victim in range(len(row)) if not np.isnan(row[victim])]
    return sorted(met, key=lambda victim: -row[victim])[:k]


def communities(data, rows, n, k):
    """Draw the truth: `k` of `n` ids in each row."""
    ids = st.permutations(range(n)).map(lambda order: order[:k])
    return np.array(data.draw(st.lists(ids, min_size=rows, max_size=rows)))


def test_the_best_scored_victims_are_found_with_ties_by_lower_id():
    values = [[0.1, 0.9, 0.9, 0.2]]
    assert hits_of_scores(np.array(values), np.array([[0, 1]])).tolist() == [[False, True]]
    assert hits_of_scores(np.array([[0.9, 0.9]]), np.array([[1]])).tolist() == [[False]]


def test_unmet_victims_are_never_found():
    assert hits_of_scores(np.array([[np.nan, np.nan, -np.inf]]), np.array([[0, 2]])).tolist() == [
        [False, True]
    ]


@given(st.data())
def test_found_agrees_with_a_sort_of_the_met(data):
    values = data.draw(scores)
    n = values.shape[1]
    k = data.draw(st.integers(1, n - 1))
    community = communities(data, len(values), n, k)
    expected = [
        len(set(found_by_sorting(row, k)) & set(truth)) / k
        for row, truth in zip(values, community.tolist(), strict=True)
    ]
    assert accuracies(values, community).tolist() == expected


def test_accuracy_divides_by_the_community_size_even_when_few_were_met():
    values = [[np.nan, 0.4, np.nan, 0.5], [0.9, 0.6, 0.8, np.nan]]
    assert accuracies(values, [[0, 1, 2], [0, 1, 2]]).tolist() == [1 / 3, 1.0]


@given(scores, st.data())
def test_no_attack_exceeds_its_upper_bound(values, data):
    n = values.shape[1]
    community = communities(data, len(values), n, n - 1)
    assert aac(accuracies(values, community)) <= upper_bound(~np.isnan(values), community) + 1e-12


def test_the_upper_bound_is_the_mean_share_of_the_community_met():
    met = np.array([[False, True, True, False], [True, False, False, False]])
    assert upper_bound(met, np.array([[1, 2], [2, 3]])) == 0.5


def test_best_decile_rounds_the_number_of_adversaries_up():
    accuracies = np.arange(11) / 100
    assert best_decile(accuracies) == pytest.approx((0.09, 0.095))


def test_best_decile_of_one_adversary_is_that_adversary():
    assert best_decile(np.array([0.4])) == (0.4, 0.4)


def test_a_guesser_reaches_the_random_bound():
    # Hypergeometric share: mean K/N, standard error below 0.001 over 2,000 guessers; tolerance four of them.
    draw, n, k = np.random.default_rng(2), 100, 10
    community = np.argsort(draw.random((2_000, n)), axis=1)[:, :k]
    assert aac(accuracies(draw.random((2_000, n)), community)) == pytest.approx(random_bound(k, n), abs=0.008)


def test_a_victim_is_exposed_by_the_share_of_the_interested_that_found_it():
    community = np.array([[1, 2], [2, 3], [0, 2]])
    hits = np.array([[True, False], [True, False], [False, True]])
    assert found_by(hits, community, 5).tolist() == pytest.approx([0, 1, 2 / 3, 0, np.nan], nan_ok=True)
