"""Centroids of users' vectors: Ward's method is scipy's, and what is not clustered goes to the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster import hierarchy
from threadpoolctl import threadpool_limits

from gossiprec.federated import vector_clustering
from gossiprec.federated.vector_clustering import (
    _least,
    cluster_vectors,
    nearest_centroid,
    relabel_by_size,
    ward_clusters,
)
from tests.recommenders.test_k_means import planted


def rows(n, dim=16, seed=1):
    return np.random.default_rng(seed).laplace(0, 0.5, (n, dim)).astype(np.float32)


@pytest.mark.parametrize(("n", "number"), [(2, 1), (9, 4), (60, 7), (60, 60), (60, 1), (700, 25)])
@pytest.mark.parametrize("seed", range(3))
def test_ward_s_method_is_scipy_s(n, number, seed):
    some = rows(n, seed=seed)
    tree = hierarchy.ward(some.astype(np.float64))
    expected = relabel_by_size(hierarchy.fcluster(tree, number, "maxclust"))
    assert ward_clusters(some, number).tolist() == expected.tolist()


def test_ward_s_method_knows_a_single_row_and_equal_ones():
    assert ward_clusters(np.ones((1, 3), np.float32), 1).tolist() == [0]
    found = ward_clusters(np.ones((6, 2), np.float32), 3)
    assert sorted(set(found.tolist())) == [0, 1, 2]


@pytest.mark.parametrize("dim", [1, 3, 70])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_ward_s_method_is_scipy_s_whatever_the_scale_and_the_width(dim, scale):
    some = rows(300, dim) * np.float32(scale)
    tree = hierarchy.ward(some.astype(np.float64))
    expected = relabel_by_size(hierarchy.fcluster(tree, 12, "maxclust"))
    assert ward_clusters(some, 12).tolist() == expected.tolist()


@pytest.mark.parametrize(("before", "due"), [(-1, 1), (0, 1), (1, 1), (2, 2), (3, 1)])
def test_of_clusters_as_near_the_one_before_is_taken_or_else_the_first(before, due):
    heights = np.float32([2, 1, 1, 3, 1, np.inf])
    assert _least.py_func(heights, before) == due


def test_rows_are_not_changed():
    some = rows(40)
    before = some.tobytes()
    ward_clusters(some, 5)
    assert some.tobytes() == before


@pytest.mark.parametrize("method", ["ward", "kmeans"])
@pytest.mark.parametrize("most", [50, 5000])
def test_centroids_are_means_of_all_members_also_of_those_that_were_not_clustered(method, most, monkeypatch):
    monkeypatch.setattr(vector_clustering, "MOST", most)  # there are 168
    some, own = planted()
    found = cluster_vectors(some, 5, method, np.random.default_rng(3))
    assert found.sizes.tolist() == [60, 40, 33, 25, 10]
    for vector, place in zip(found.vectors, (2, 0, 4, 1, 3), strict=True):
        np.testing.assert_allclose(vector, some[own == place].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_which_are_clustered_is_drawn(monkeypatch):
    monkeypatch.setattr(vector_clustering, "MOST", 40)
    some = rows(200)
    found = [cluster_vectors(some, 6, "ward", np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert found[0].vectors.tobytes() == found[1].vectors.tobytes() != found[2].vectors.tobytes()
    assert found[0].sizes.sum() == 200


def test_threads_change_nothing():
    some, found = rows(900, 32), []
    for threads in (1, 2, 7):
        with threadpool_limits(limits=threads):
            found.append(cluster_vectors(some, 9, "ward", np.random.default_rng(1)).vectors.tobytes())
    assert len(set(found)) == 1


def test_of_centroids_as_near_the_first_is_taken():
    assert nearest_centroid(np.float32([[0, 0], [2, 0]]), np.float32([[1, 0], [-1, 0], [3, 0]])).tolist() == [
        0,
        0,
    ]
    some, given = rows(50), rows(7, seed=2)
    distances = ((some[:, None] - given) ** 2).sum(-1)
    assert nearest_centroid(some, given).tolist() == distances.argmin(axis=1).tolist()
