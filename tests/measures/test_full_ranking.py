"""Where items stand among all that may be recommended, and what measures make of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import ndcg_score

from gossiprec.measures import BEHIND, MEASURES, NOWHERE, ranking
from gossiprec.measures.ranking import relevant_ranks, target_ranks, top_items
from tests.measures.lists import side_by_side

N_USERS, N_ITEMS = 4, 8
levels = hnp.arrays(np.float32, (N_USERS, N_ITEMS), elements=st.sampled_from([0, 1, 2, 3, np.nan]))
masks = hnp.arrays(np.bool_, (N_USERS, N_ITEMS))


ALL = 10**6


def ranks_of(scores, candidates, relevant, k=ALL):
    return relevant_ranks(scores.copy(), candidates, relevant, k)


def ranks_of_one(scores, candidates, relevant):
    (ranks,) = ranks_of(*(np.array([part]) for part in (scores, candidates, relevant))).ranks
    return ranks.tolist()


def recall(scores, relevant, k):
    return MEASURES["recall"].compute_values(ranks_of(scores, np.ones_like(relevant), relevant), k).tolist()


def sort_key(scores):
    """Return what to sort items by, best first: NaN last."""
    return lambda item: (np.inf if np.isnan(scores[item]) else -scores[item], item)


def hits_by_sorting(scores, candidates, relevant):
    """Return whether each candidate is relevant, best first, where irrelevant items win ties and by NaN."""
    own = np.where(np.isnan(scores), np.where(relevant, -np.inf, np.inf), scores)
    order = sorted(np.flatnonzero(candidates), key=lambda item: (-own[item], relevant[item]))
    return [bool(relevant[item]) for item in order]


def by_definition(hits, k):
    shown, wanted = sum(hits[:k]), sum(hits)
    gained = sum(1 / np.log2(place + 2) for place, hit in enumerate(hits[:k]) if hit)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(k, wanted)))
    precision, found = shown / k, shown / wanted
    return {
        "recall": found,
        "ndcg": gained / ideal,
        "f1": 2 * precision * found / (precision + found) if shown else 0.0,
        "hr": float(shown > 0),
    }


def test_seen_items_leave_the_list():
    assert ranks_of_one([9.0, 3.0, 2.0, 1.0], [False, True, True, True], [False, False, True, True]) == [1, 2]


def test_relevant_items_that_were_seen_are_left_out():
    assert ranks_of_one([9.0, 3.0], [False, True], [True, True]) == [0]


def test_a_list_without_relevant_items_is_left_out():
    scores, everything = np.array([[3.0, 2.0, 1.0]] * 3), np.ones((3, 3), bool)
    relevant = np.array([[False, False, True], [False] * 3, [True, True, False]])
    seen = ranks_of(scores, everything, relevant)
    assert seen.ranks.tolist() == [[2, NOWHERE], [0, 1]]
    assert seen.n_relevant.tolist() == [1, 2]
    assert ranks_of(scores, everything, ~everything).hits(3).tolist() == []


def test_not_a_number_is_never_a_hit():
    scores = np.array([[np.nan, 1.0, 0.0], [0.0, np.nan, np.nan]])
    assert recall(scores, np.array([[True, False, False]] * 2), 2) == [0.0, 0.0]


@pytest.mark.slow
@given(levels, masks, masks, st.integers(1, N_ITEMS + 2))
def test_measures_agree_with_a_full_sort(scores, candidates, relevant, k):
    ranks = ranks_of(scores, candidates, relevant)
    lists = [hits_by_sorting(scores[u], candidates[u], relevant[u]) for u in range(N_USERS)]
    expected = [by_definition(hits, k) for hits in lists if any(hits)]
    cut = ranks_of(scores, candidates, relevant, k)
    assert cut.n_relevant.tolist() == ranks.n_relevant.tolist()
    for name in by_definition([True], 1):
        assert MEASURES[name].compute_values(ranks, k) == pytest.approx(
            [values[name] for values in expected]
        ), name
        assert (
            MEASURES[name].compute_values(cut, k).tolist() == MEASURES[name].compute_values(ranks, k).tolist()
        ), name


@pytest.mark.slow
@given(levels, masks, st.integers(1, N_ITEMS))
def test_the_top_of_a_list_is_what_a_sort_puts_there(scores, candidates, k):
    for user, found in enumerate(top_items(scores, candidates, k)):
        known = [item for item in np.flatnonzero(candidates[user]) if not np.isnan(scores[user, item])]
        best = sorted(known, key=sort_key(scores[user]))[:k]
        assert found.tolist() == best + [-1] * (k - len(best))


@pytest.mark.slow
@given(levels, masks)
def test_a_target_is_ranked_behind_all_that_it_does_not_beat(scores, candidates):
    targets = np.array([1, 5, 6])
    found = target_ranks(scores, candidates, targets)
    for user in range(N_USERS):
        for place, target in enumerate(targets):
            others = [item for item in np.flatnonzero(candidates[user]) if item != target]
            own = scores[user, target]
            ahead = sum(not scores[user, item] < own for item in others)
            assert found[user, place] == (ahead if candidates[user, target] else -1)


def ranks_by_sorting(scores, candidates, relevant, k):
    hits = hits_by_sorting(scores, candidates, relevant)
    return [place if place < k else BEHIND for place, hit in enumerate(hits) if hit]


extremes = hnp.arrays(
    np.float32, (N_USERS, N_ITEMS), elements=st.sampled_from([-np.inf, 0, 1, np.inf, np.nan])
)


@pytest.mark.slow
@given(levels | extremes, masks, masks, st.integers(1, N_ITEMS + 2))
def test_ranks_among_the_first_are_those_of_a_full_sort(scores, candidates, relevant, k):
    lists = [ranks_by_sorting(*part, k) for part in zip(scores, candidates, relevant, strict=True)]
    found = ranks_of(scores, candidates, relevant, k).ranks
    assert [row[row != NOWHERE].tolist() for row in found] == [ranks for ranks in lists if ranks]


def test_long_lists_with_ties_are_ranked_as_by_sorting():
    draw = np.random.default_rng(4)
    scores = draw.integers(0, 40, (20, 300)).astype(np.float32)
    scores[draw.random(scores.shape) < 0.1] = np.nan
    candidates = draw.random(scores.shape) < draw.random((20, 1))
    relevant = draw.random(scores.shape) < draw.random((20, 1))
    for k in (1, 20, 299, 300, 301):
        found = ranks_of(scores, candidates, relevant, k).ranks
        lists = [ranks_by_sorting(*part, k) for part in zip(scores, candidates, relevant, strict=True)]
        assert [row[row != NOWHERE].tolist() for row in found] == [ranks for ranks in lists if ranks]


def test_ndcg_agrees_with_scikit_learn_where_there_are_no_ties():
    draw = np.random.default_rng(3)
    scores = draw.permuted(np.tile(np.arange(60.0), (30, 1)), axis=1)
    relevant = draw.random((30, 60)) < 0.2
    relevant[:, 0] = True
    found = MEASURES["ndcg"].compute_values(ranks_of(scores, np.ones_like(relevant), relevant), 10)
    assert found.mean() == pytest.approx(ndcg_score(relevant, scores, k=10))


def test_lists_measured_together_have_the_bits_they_have_alone():
    draw = np.random.default_rng(6)
    lists = [np.sort(draw.choice(90, size, replace=False)) for size in draw.integers(1, 40, 200)]
    together = MEASURES["ndcg"].compute_values(side_by_side(lists), 60)
    alone = [MEASURES["ndcg"].compute_values(side_by_side([ranks]), 60)[0] for ranks in lists]
    assert together.tolist() == alone


@pytest.mark.parametrize("k", [1, 20, ALL])
def test_compiled_loops_rank_as_the_plain_ones(k, monkeypatch):
    draw = np.random.default_rng(k)
    scores = draw.integers(0, 400, (300, 900)).astype(np.float32)  # with ties
    scores[draw.random(scores.shape) < 0.02] = np.nan
    scores[draw.random(scores.shape) < 0.02] = -np.inf
    candidates, relevant = draw.random(scores.shape) < 0.9, draw.random(scores.shape) < 0.02
    candidates[0] = relevant[1] = False
    targets, found = np.array([3, 700]), []
    for fewest in (0, scores.size + 1):
        monkeypatch.setattr(ranking, "COMPILED_SCORES", fewest)
        of_relevant = relevant_ranks(scores.copy(), candidates, relevant, k)
        found.append((of_relevant.ranks, of_relevant.users, target_ranks(scores, candidates, targets)))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_array_equal(compiled, plain, strict=True)
