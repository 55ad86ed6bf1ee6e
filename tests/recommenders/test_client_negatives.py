"""Negatives of a client: fixed random items, the best of a centroid, and none of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.machine import ThreadPool
from gossiprec.federated.fed_softmax import draw_local_items, is_member, mask_known, sample_items
from gossiprec.federated.fedcl.candidates import (
    KEPT,
    ClusterCandidates,
    score_by_vector,
    score_by_vectors,
    top_item_ids,
)
from gossiprec.models import MODELS

N_ITEMS, DIM = 40, 4
OWN = np.array([0, 3, 39], np.int32)
TOWERS = MODELS["two-tower"](MODELS["two-tower"].Options(dim=DIM, loss="sampled"))
LAYOUT = TOWERS.layout(N_ITEMS)


def local(seed=5, node=2, own=OWN, n_items=N_ITEMS, number=10):
    return draw_local_items(seed, node, own, n_items=n_items, number=number)


def test_local_items_are_the_client_s_for_the_run_and_none_of_its_own():
    found = local()
    assert len(set(found.tolist())) == 10
    assert not set(found.tolist()) & set(OWN.tolist())
    assert found.tolist() == local().tolist() != local(node=3).tolist()
    assert local(seed=6).tolist() != found.tolist()


def test_local_items_are_uniform_over_what_the_client_has_not():
    counts = np.bincount(np.concatenate([local(node=node) for node in range(2000)]), minlength=N_ITEMS)
    assert counts[OWN].tolist() == [0, 0, 0]
    assert stats.chisquare(np.delete(counts, OWN)).pvalue > 1e-3


def test_a_client_that_has_nearly_everything_keeps_what_there_is():
    most = np.arange(1, N_ITEMS, dtype=np.int32)
    assert local(own=most).tolist() == [0]
    assert local(own=np.arange(N_ITEMS, dtype=np.int32)).tolist() == []


def test_some_are_drawn_uniformly_without_repetition():
    items, draw = np.arange(100, 120, dtype=np.int32), np.random.default_rng(3)
    drawn = np.stack([sample_items(items, 6, draw) for _ in range(3000)])
    assert all(len(set(row)) == 6 for row in drawn.tolist())
    for place in range(6):
        assert stats.chisquare(np.bincount(drawn[:, place] - 100, minlength=20)).pvalue > 1e-3


def test_where_there_are_too_few_the_rest_is_none():
    found = sample_items(np.array([7, 9], np.int32), 4, np.random.default_rng(3))
    assert sorted(found[:2].tolist()) == [7, 9]
    assert found[2:].tolist() == [-1, -1]
    assert sample_items(np.zeros(0, np.int32), 0, np.random.default_rng(3)).tolist() == []


def test_what_is_known_is_left_out():
    drawn = np.array([39, 4, 3, -1, 1], np.int32)
    assert mask_known(drawn, OWN).tolist() == [-1, 4, -1, -1, 1]
    assert mask_known(drawn, np.zeros(0, np.int32)).tolist() == drawn.tolist()
    assert is_member(drawn, np.array([40], np.int32)).tolist() == [False] * 5


# --- candidates


def version(seed):
    return np.random.default_rng(seed).normal(0, 1, N_ITEMS * DIM).astype(np.float32)


def naive(items, vector, number):
    return sorted(np.argsort(-(items.astype(np.float64) @ vector), kind="stable")[:number].tolist())


def test_candidates_are_the_best_of_each_centroid_in_each_version():
    lists, centroids = ClusterCandidates(), np.random.default_rng(0).normal(0, 1, (3, DIM)).astype(np.float32)
    versions = [version(seed) for seed in range(KEPT + 2)]
    for _ in range(2):  # the second time some are known
        for one in versions:
            for cluster in (2, 0, 1, 2):
                found = lists.best_items(LAYOUT, one, centroids, cluster, 10)
                assert found.tolist() == naive(one.reshape(N_ITEMS, DIM), centroids[cluster], 10)
    other = centroids[::-1].copy()
    assert (
        lists.best_items(LAYOUT, versions[0], other, 0, 10).tolist()
        == lists.best_items(LAYOUT, versions[0], centroids, 2, 10).tolist()
    )


def test_a_list_is_worked_out_once_for_a_version():
    lists, centroids, one = ClusterCandidates(), np.ones((1, DIM), np.float32), version(1)
    assert lists.best_items(LAYOUT, one, centroids, 0, 10) is lists.best_items(LAYOUT, one, centroids, 0, 10)


def test_of_items_as_good_those_of_lower_id_are_taken():
    assert top_item_ids(np.float32([1, 3, 2, 2, 3, 2]), 4).tolist() == [1, 2, 3, 4]
    assert top_item_ids(np.zeros(5, np.float32), 5).tolist() == [0, 1, 2, 3, 4]
    assert top_item_ids(np.float32([0.0, -0.0, 0.0, -1.0]), 2).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["any", "few", "tiny", "close", "infinite"])
@pytest.mark.parametrize("n", [1, 7, 3000])
def test_the_best_are_those_of_a_stable_sort(n, kind):
    draw = np.random.default_rng(n)
    scores = draw.normal(0, 1, n).astype(np.float32)
    if kind == "few":
        scores = np.round(scores)
    elif kind == "tiny":
        scores *= np.float32(1e-40)
    elif kind == "close":
        scores = np.float32(1) + np.spacing(np.float32(1)) * draw.integers(-50, 50, n).astype(np.float32)
    elif kind == "infinite":
        scores[draw.integers(n, size=n // 2)] = np.inf
        scores[draw.integers(n, size=n // 2)] = -np.inf
    for number in (0, 1, n // 4, n - 1, n):
        best = np.argsort(-scores, kind="stable")[:number]
        assert top_item_ids(scores, number).tolist() == sorted(best.tolist())


def test_scores_are_scalar_products():
    vectors = np.random.default_rng(1).normal(0, 1, (3, DIM)).astype(np.float32)
    items = version(3).reshape(N_ITEMS, DIM)
    due = vectors @ items.T
    np.testing.assert_allclose(score_by_vectors(vectors, items)[:, :3], due.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(score_by_vector(vectors[1], items), due[1], rtol=1e-4, atol=1e-5)


def test_scores_of_a_vector_depend_on_no_other():
    vectors, items = np.random.default_rng(1).normal(0, 1, (40, DIM)).astype(np.float32), version(3)
    all_ = score_by_vectors(vectors, items.reshape(N_ITEMS, DIM))
    for k in (0, 1, 31, 39):
        alone = score_by_vectors(vectors[k : k + 1], items.reshape(N_ITEMS, DIM))
        assert np.array_equal(alone[:, 0], all_[:, k])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_lists_and_scores_are_the_same_by_any_number_of_threads(n_threads):
    centroids, one = np.random.default_rng(2).normal(0, 1, (4, DIM)).astype(np.float32), version(5)
    lists, alone, threads = ClusterCandidates(), ClusterCandidates(), ThreadPool(n_threads)
    lists.compute(LAYOUT, one, centroids, [3, 1, 3], 10, threads)
    for cluster in range(4):
        assert np.array_equal(
            lists.best_items(LAYOUT, one, centroids, cluster, 10),
            alone.best_items(LAYOUT, one, centroids, cluster, 10),
        )
    items = one.reshape(N_ITEMS, DIM)
    assert (
        score_by_vectors(centroids, items, threads).tobytes() == score_by_vectors(centroids, items).tobytes()
    )
