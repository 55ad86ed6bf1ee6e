"""NDCG of many target sets by one walk: the bits of gains added from the best rank down, for any number of sets."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks.ranking_kernels import SETS, rank_by_ndcg, rank_items_descending
from gossiprec.measures.ranking import CUTOFF, candidate_ranks, discounted_gains
from gossiprec.numerics.relevance import ndcg

N_ITEMS, N_VICTIMS, N_SETS = 90, 9, SETS + 3


@pytest.fixture(scope="module")
def target_sets():
    """Targets and references of more sets than a block holds: few or all of the other items."""
    draw = np.random.default_rng(1)
    sets = []
    for number in range(N_SETS):
        items = draw.permutation(N_ITEMS).astype(np.int32)
        n_targets = int(draw.integers(1, 12))
        sets.append(
            (items[:n_targets], items[n_targets:] if number % 2 else items[n_targets : n_targets + 25])
        )
    return sets


@pytest.fixture(scope="module")
def scores():
    """Scores without equals, with many, all equal, of both zeros, infinite, huge and tiny, and some that are NaN."""
    draw = np.random.default_rng(2)
    found = draw.normal(0, 1, (N_VICTIMS, N_ITEMS)).astype(np.float32)
    found[1] = np.round(found[1] * 2) / 2
    found[2], found[3], found[3, ::3] = 7.0, 0.0, -0.0
    found[4, :4], found[4, 8:10] = np.inf, -np.inf
    found[5] *= np.float32(10.0) ** draw.integers(-44, 38, N_ITEMS)
    found[6, [3, 50]] = np.nan
    return found


@pytest.fixture(scope="module")
def ranked(target_sets, scores):
    """What the kernel finds, of victims in another order."""
    offsets = np.cumsum([0, *(len(own) + len(others) for own, others in target_sets)])
    items = np.concatenate([np.concatenate(pair) for pair in target_sets])
    n_targets = np.array([len(own) for own, _ in target_sets])
    latest = np.full((N_SETS, N_VICTIMS + 1), 5.0, np.float32)
    victims = np.arange(N_VICTIMS)[::-1].copy()
    rank_by_ndcg(scores, rank_items_descending(scores), victims, offsets, items, n_targets, latest)
    assert (latest[:, N_VICTIMS] == 5.0).all()
    return latest[:, victims]


def test_relevance_is_that_of_the_plain_rule(target_sets, scores, ranked):
    for (own, others), found in zip(target_sets, ranked, strict=True):
        np.testing.assert_allclose(found, ndcg(scores[:, own], scores[:, others]), rtol=1e-6)


def test_gains_are_added_from_the_best_rank_down(target_sets, scores, ranked):
    whole = ~np.isnan(scores).any(axis=1)
    for a, (own, others) in enumerate(target_sets):
        ranks = np.sort(candidate_ranks(scores[:, own], scores[:, None, others]), axis=1)
        for v in np.flatnonzero(whole):
            total = 0.0
            for gain in discounted_gains(ranks[v][ranks[v] < CUTOFF]):
                total += gain
            assert ranked[a, v] == np.float32(total / len(own)), (a, v)


def test_items_are_ordered_from_the_best_down(scores):
    order = rank_items_descending(scores)
    for row, items in zip(scores, order, strict=True):
        assert sorted(items.tolist()) == list(range(N_ITEMS))
        if not np.isnan(row).any():
            assert (np.diff(row[items][np.isfinite(row[items])]) <= 0).all()
            assert (row[items][1:] <= row[items][:-1]).all()


def test_the_world_holds_models_that_gain_all_some_and_nothing(ranked):
    assert (ranked == 0).any()
    assert (ranked == 1).any()
    assert len(np.unique(ranked)) > 1000
