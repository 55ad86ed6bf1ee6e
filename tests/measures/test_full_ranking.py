"""Recommendation quality over all unseen items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import ndcg_score

from gossiprec.measures.full_ranking import full_ranking, relevant_ranks

N_USERS, N_ITEMS = 4, 8
levels = hnp.arrays(np.float32, (N_USERS, N_ITEMS), elements=st.integers(0, 4).map(float))
masks = hnp.arrays(np.bool_, (N_USERS, N_ITEMS))


def measure_by_sorting(scores, candidates, relevant, k):
    """Rank one user's candidates by a sort in which irrelevant items win ties."""
    order = sorted(np.flatnonzero(candidates), key=lambda item: (-scores[item], relevant[item]))
    hits = [bool(relevant[item]) for item in order]
    if not any(hits):
        return [np.nan] * 4
    dcg = sum(1 / np.log2(place + 2) for place, hit in enumerate(hits[:k]) if hit)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(k, sum(hits))))
    precision, recall = sum(hits[:k]) / k, sum(hits[:k]) / sum(hits)
    f1 = 2 * precision * recall / (precision + recall) if any(hits[:k]) else 0.0
    return [float(any(hits[:k])), recall, dcg / ideal, f1]


def test_seen_items_leave_the_list():
    scores = np.array([9.0, 3.0, 2.0, 1.0])
    unseen = np.array([False, True, True, True])
    assert relevant_ranks(scores, unseen, np.array([False, False, True, True])).tolist() == [1, 2]


def test_relevant_items_that_were_seen_are_left_out():
    scores = np.array([9.0, 3.0])
    assert relevant_ranks(scores, np.array([False, True]), np.array([True, True])).tolist() == [0]


def test_a_hand_worked_list():
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]])
    relevant = np.array([[False, True, False, False, True]])
    found = full_ranking(scores, np.ones((1, 5), dtype=bool), relevant, k=2)
    assert found.hit_ratio == pytest.approx([1.0])
    assert found.recall == pytest.approx([0.5])
    assert found.ndcg == pytest.approx([(1 / np.log2(3)) / (1 + 1 / np.log2(3))])
    assert found.f1 == pytest.approx([0.5])  # one hit in two shown, of two wanted


def test_a_user_without_test_items_has_no_value():
    nothing = np.zeros((1, 3), dtype=bool)
    found = full_ranking(np.zeros((1, 3)), ~nothing, nothing, k=2)
    assert np.isnan([found.hit_ratio, found.recall, found.ndcg]).all()


def test_not_a_number_is_never_a_hit():
    scores = np.array([[np.nan, 1.0, 0.0], [0.0, np.nan, np.nan]])
    relevant = np.array([[True, False, False]] * 2)
    assert full_ranking(scores, np.ones((2, 3), dtype=bool), relevant, k=2).recall.tolist() == [0.0, 0.0]


@given(levels, masks, masks, st.integers(1, N_ITEMS + 2))
def test_agrees_with_a_full_sort(scores, candidates, relevant, k):
    found = full_ranking(scores, candidates, relevant, k=k)
    expected = [measure_by_sorting(scores[u], candidates[u], relevant[u], k) for u in range(N_USERS)]
    assert np.column_stack([found.hit_ratio, found.recall, found.ndcg, found.f1]) == pytest.approx(
        np.array(expected), nan_ok=True
    )


def test_many_relevant_items_are_ranked_as_a_few_are(monkeypatch):
    draw = np.random.default_rng(4)
    scores = draw.integers(0, 40, 300).astype(np.float32)
    scores[draw.random(300) < 0.1] = np.nan
    candidates, relevant = draw.random((2, 300)) < [[0.9], [0.1]]
    found = []
    for few in (0, 300):
        monkeypatch.setattr("gossiprec.measures.full_ranking.FEW", few)
        found.append(relevant_ranks(scores, candidates, relevant).tolist())
    assert found[0] == found[1]
    assert len(found[0]) > 10


def test_ndcg_agrees_with_scikit_learn_where_there_are_no_ties():
    draw = np.random.default_rng(3)
    scores = draw.permuted(np.tile(np.arange(60.0), (30, 1)), axis=1)
    relevant = draw.random((30, 60)) < 0.2
    relevant[:, 0] = True
    found = full_ranking(scores, np.ones_like(relevant), relevant, k=10)
    assert found.ndcg.mean() == pytest.approx(ndcg_score(relevant, scores, k=10))
