"""Accuracy of the community detection attack and its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.measures.attack import (
    NOBODY,
    aac,
    accuracy_of_hits,
    attack_accuracy,
    best_decile,
    found_by,
    hits_of_scores,
    random_bound,
    top_k_found,
    upper_bound,
)

scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(2, 7)),
    elements=st.sampled_from([np.nan, -np.inf, 0.0, 0.5, 1.0]),
)


def found_by_sorting(row, k):
    met = [victim for victim in range(len(row)) if not np.isnan(row[victim])]
    best = sorted(met, key=lambda victim: -row[victim])[:k]
    return best + [NOBODY] * (k - len(best))


def test_the_best_scored_victims_are_found_with_ties_by_lower_id():
    assert top_k_found(np.array([[0.1, 0.9, 0.9, 0.2]]), 3).tolist() == [[1, 2, 3]]


def test_unmet_victims_are_never_found():
    assert top_k_found(np.array([[np.nan, np.nan, -np.inf]]), 2).tolist() == [[2, NOBODY]]


@given(scores, st.integers(1, 9))
def test_found_agrees_with_a_sort_of_the_met(values, k):
    assert top_k_found(values, k).tolist() == [found_by_sorting(row, k) for row in values]


def test_accuracy_divides_by_the_community_size_even_when_few_were_met():
    found = np.array([[3, 1, NOBODY, NOBODY], [0, 2, 1, 5]])
    community = np.array([[1, 2, 4, 5], [0, 1, 2, 3]])
    assert attack_accuracy(found, community).tolist() == [0.25, 0.75]


@given(st.data())
def test_accuracy_agrees_with_set_arithmetic(data):
    n, rows, k = 8, data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    ids = st.permutations(range(n)).map(lambda order: order[:k])
    found = np.array(data.draw(st.lists(ids, min_size=rows, max_size=rows)))
    community = np.array(data.draw(st.lists(ids, min_size=rows, max_size=rows)))
    found[data.draw(hnp.arrays(np.bool_, found.shape))] = NOBODY
    expected = [len(set(f) & set(c)) / k for f, c in zip(found.tolist(), community.tolist(), strict=True)]
    assert attack_accuracy(found, community).tolist() == expected


@given(scores, st.data())
def test_no_attack_exceeds_its_upper_bound(values, data):
    n = values.shape[1]
    ids = st.permutations(range(n)).map(lambda order: order[: n - 1])
    community = np.array(data.draw(st.lists(ids, min_size=len(values), max_size=len(values))))
    accuracy = aac(attack_accuracy(top_k_found(values, n - 1), community))
    assert accuracy <= upper_bound(~np.isnan(values), community) + 1e-12


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
    orders = [np.argsort(draw.random((2_000, n)), axis=1)[:, :k] for _ in range(2)]
    assert aac(attack_accuracy(*orders)) == pytest.approx(random_bound(k, n), abs=0.008)


@given(st.data())
def test_accuracy_of_hits_is_the_accuracy_of_the_found(data):
    values = data.draw(scores)
    n = values.shape[1]
    k = data.draw(st.integers(1, n - 1))
    ids = st.permutations(range(n)).map(lambda order: order[:k])
    community = np.array(data.draw(st.lists(ids, min_size=len(values), max_size=len(values))))
    expected = attack_accuracy(top_k_found(values, k), community)
    assert accuracy_of_hits(hits_of_scores(values, community)).tolist() == expected.tolist()


def test_a_victim_is_exposed_by_the_share_of_the_interested_that_found_it():
    community = np.array([[1, 2], [2, 3], [0, 2]])
    hits = np.array([[True, False], [True, False], [False, True]])
    assert found_by(hits, community, 5).tolist() == pytest.approx([0, 1, 2 / 3, 0, np.nan], nan_ok=True)
