"""Where items stand among all that may be recommended, and what measures make of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import ndcg_score

from gossiprec.measures import MEASURES
from gossiprec.measures.full_ranking import relevant_ranks, side_by_side, target_ranks, top_items

N_USERS, N_ITEMS = 4, 8
levels = hnp.arrays(np.float32, (N_USERS, N_ITEMS), elements=st.sampled_from([0, 1, 2, 3, np.nan]))
masks = hnp.arrays(np.bool_, (N_USERS, N_ITEMS))


def ranks_of(scores, candidates, relevant):
    return side_by_side(
        [relevant_ranks(*of_user) for of_user in zip(scores, candidates, relevant, strict=True)]
    )


def recall(scores, relevant, k):
    return MEASURES["recall"].of(ranks_of(scores, np.ones_like(relevant), relevant), k).tolist()


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
    scores = np.array([9.0, 3.0, 2.0, 1.0])
    unseen = np.array([False, True, True, True])
    assert relevant_ranks(scores, unseen, np.array([False, False, True, True])).tolist() == [1, 2]


def test_relevant_items_that_were_seen_are_left_out():
    scores = np.array([9.0, 3.0])
    assert relevant_ranks(scores, np.array([False, True]), np.array([True, True])).tolist() == [0]


def test_a_list_without_relevant_items_is_left_out():
    seen = side_by_side([np.array([4]), np.array([], np.int64), np.array([0, 2])])
    assert seen.n_relevant.tolist() == [1, 2]
    assert seen.hits(3).tolist() == [0, 2]
    assert side_by_side([]).hits(3).tolist() == []


def test_not_a_number_is_never_a_hit():
    scores = np.array([[np.nan, 1.0, 0.0], [0.0, np.nan, np.nan]])
    assert recall(scores, np.array([[True, False, False]] * 2), 2) == [0.0, 0.0]


@given(levels, masks, masks, st.integers(1, N_ITEMS + 2))
def test_measures_agree_with_a_full_sort(scores, candidates, relevant, k):
    ranks = ranks_of(scores, candidates, relevant)
    lists = [hits_by_sorting(scores[u], candidates[u], relevant[u]) for u in range(N_USERS)]
    expected = [by_definition(hits, k) for hits in lists if any(hits)]
    for name in by_definition([True], 1):
        assert MEASURES[name].of(ranks, k) == pytest.approx([values[name] for values in expected]), name


@given(levels, masks, st.integers(1, N_ITEMS))
def test_the_top_of_a_list_is_what_a_sort_puts_there(scores, candidates, k):
    for user, found in enumerate(top_items(scores, candidates, k)):
        known = [item for item in np.flatnonzero(candidates[user]) if not np.isnan(scores[user, item])]
        best = sorted(known, key=sort_key(scores[user]))[:k]
        assert found.tolist() == best + [-1] * (k - len(best))


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
    found = MEASURES["ndcg"].of(ranks_of(scores, np.ones_like(relevant), relevant), 10)
    assert found.mean() == pytest.approx(ndcg_score(relevant, scores, k=10))


def test_lists_measured_together_have_the_bits_they_have_alone():
    draw = np.random.default_rng(6)
    lists = [np.sort(draw.choice(90, size, replace=False)) for size in draw.integers(1, 40, 200)]
    together = MEASURES["ndcg"].of(side_by_side(lists), 60)
    alone = [MEASURES["ndcg"].of(side_by_side([ranks]), 60)[0] for ranks in lists]
    assert together.tolist() == alone
