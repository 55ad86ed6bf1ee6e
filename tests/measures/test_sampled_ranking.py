"""Hit ratio and NDCG against sampled candidates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import ndcg_score

from gossiprec.measures import RelevantRanks
from gossiprec.measures.hr import HitRatio
from gossiprec.measures.ndcg import NDCG
from gossiprec.measures.ranking import candidate_ranks, nanmean, user_means


def alone(ranks):
    """Return ranks as those of lists with one relevant item each."""
    return RelevantRanks(ranks[:, None])


few_levels = hnp.arrays(np.float64, (6, 9), elements=st.integers(0, 3).map(float))


def test_rank_counts_the_candidates_that_are_not_beaten():
    positive = np.array([0.5, 0.5, 0.5])
    negatives = np.array([[0.1, 0.2], [0.9, 0.2], [0.9, 0.8]])
    assert candidate_ranks(positive, negatives).tolist() == [0, 1, 2]


def test_ties_count_against_the_relevant_item():
    assert candidate_ranks(np.array([1.0]), np.array([[1.0, 1.0, 0.0]])).tolist() == [2]


def test_constant_scores_earn_no_hit():
    ranks = candidate_ranks(np.zeros(4), np.zeros((4, 99)))
    assert HitRatio.compute_values(alone(ranks), 20).sum() == 0.0


@pytest.mark.parametrize(("positive", "negative"), [(np.nan, 0.0), (0.0, np.nan), (np.nan, np.nan)])
def test_not_a_number_is_never_a_win(positive, negative):
    assert candidate_ranks(np.array([positive]), np.full((1, 3), negative)).tolist() == [3]


@pytest.mark.slow
@given(few_levels)
def test_ranks_equal_those_of_a_brute_force_count(scores):
    ranks = candidate_ranks(scores[:, 0], scores[:, 1:])
    assert ranks.tolist() == [sum(other >= row[0] for other in row[1:]) for row in scores.tolist()]


def test_hit_ratio_and_ndcg_of_known_ranks():
    ranks = np.array([0, 1, 2, 19, 20])
    assert HitRatio.compute_values(alone(ranks), 20).tolist() == [1, 1, 1, 1, 0]
    assert NDCG.compute_values(alone(ranks), 20) == pytest.approx([1.0, 0.63092975, 0.5, 0.22767025, 0.0])


def test_ndcg_agrees_with_scikit_learn_where_there_are_no_ties():
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(100.0), (40, 1)), axis=1)
    truth = np.zeros_like(scores)
    truth[:, 0] = 1
    ours = NDCG.compute_values(alone(candidate_ranks(scores[:, 0], scores[:, 1:])), 20)
    assert ours.mean() == pytest.approx(ndcg_score(truth, scores, k=20))


def test_users_weigh_alike_however_many_test_items_they_have():
    means = user_means(np.array([1.0, 0.0, 0.0, 1.0]), np.array([0, 3, 3, 4]))
    assert means == pytest.approx([1 / 3, np.nan, 1.0], nan_ok=True)
    assert nanmean(means) == pytest.approx(2 / 3)


def test_test_items_without_a_value_are_left_out_of_the_mean_of_their_user():
    means = user_means(np.array([np.nan, 0.5, 1.0, np.nan, 0.25]), np.array([0, 3, 4, 5]))
    assert means == pytest.approx([0.75, np.nan, 0.25], nan_ok=True)


def test_mean_over_no_users_is_not_a_number():
    assert np.isnan(nanmean(user_means(np.array([]), np.array([0, 0]))))


def test_random_scores_hit_k_over_the_number_of_candidates():
    # HR@20 of 100 has mean 0.2; 20,000 draws: standard error 0.0028, tolerance four of them.
    scores = np.random.default_rng(1).random((20_000, 100))
    hits = HitRatio.compute_values(alone(candidate_ranks(scores[:, 0], scores[:, 1:])), 20)
    assert hits.mean() == pytest.approx(0.2, abs=0.0113)
