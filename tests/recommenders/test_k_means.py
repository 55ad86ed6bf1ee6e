"""Clusters of users: planted ones are found, and nothing but rows, number and seed decides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.federated.vector_clustering import k_means, relabel_by_size

SIZES = [40, 25, 60, 10, 33]


def threads():
    """Return the most threads that a library of this process would use."""
    return max(library["num_threads"] for library in threadpool_info())


def planted(seed=0, spread=0.3, dim=8):
    """Return rows around centres that are far apart, shuffled, and the centre of each."""
    draw = np.random.default_rng(seed)
    centres = 20 * np.eye(len(SIZES), dim)
    own = draw.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    return (centres[own] + draw.normal(0, spread, (len(own), dim))).astype(np.float32), own


@pytest.mark.parametrize("seed", range(8))
def test_planted_clusters_are_found_and_numbered_by_size(seed):
    rows, own = planted(seed)
    found = k_means(rows, len(SIZES), seed)
    assert found.dtype == np.int64
    assert found.tolist() == np.array([1, 3, 0, 4, 2])[own].tolist()


def test_clusters_of_equal_size_are_in_the_order_of_their_first_members():
    assert relabel_by_size(np.array([7, 2, 2, 7, 5, 9, 9, 9])).tolist() == [1, 2, 2, 1, 3, 0, 0, 0]
    rows = np.array([[9], [0], [9], [0], [5], [5]], np.float32)
    assert k_means(rows, 3, 1).tolist() == [0, 1, 0, 1, 2, 2]


def squares(rows, clusters):
    """Return the sum of squared distances to the means of clusters."""
    return sum(
        ((rows[clusters == k] - rows[clusters == k].mean(axis=0)) ** 2).sum() for k in np.unique(clusters)
    )


def test_of_several_starts_the_best_is_kept():
    from sklearn.cluster import KMeans

    rows = np.random.default_rng(1).normal(size=(200, 4))  # no clusters to find: starts end apart
    ratios = []
    for seed in range(10):
        first = int(generator(seed, "clusters").integers(2**32))
        once = KMeans(6, n_init=1, random_state=first).fit(rows).labels_
        ratios.append(squares(rows, k_means(rows.astype(np.float32), 6, seed)) / squares(rows, once))
    assert max(ratios) < 1 + 1e-6
    assert min(ratios) < 0.99


@pytest.mark.slow
def test_threads_and_repetition_change_nothing():
    rows = np.random.default_rng(1).normal(size=(3000, 32)).astype(np.float32)  # no clusters to find
    found = []
    for threads in (1, 2, 7, 2):
        with threadpool_limits(limits=threads):
            found.append(k_means(rows, 6, 5).tobytes())
    assert len(set(found)) == 1


def test_one_thread_is_used_while_clusters_are_sought_and_others_after(monkeypatch):
    from sklearn.cluster import KMeans

    seen = []

    class Watched(KMeans):
        def fit(self, rows):
            seen.append(threads())
            return super().fit(rows)

    monkeypatch.setattr("sklearn.cluster.KMeans", Watched)
    with threadpool_limits(limits=2):
        assert threads() == 2
        k_means(planted()[0], 5, 1)
        assert threads() == 2
    assert seen == [1]


def test_another_seed_may_find_others():
    rows = np.random.default_rng(1).normal(size=(300, 8)).astype(np.float32)
    assert len({k_means(rows, 6, seed).tobytes() for seed in range(5)}) > 1


def test_seeds_of_64_bits_are_taken():
    rows, own = planted()
    assert len(np.unique(k_means(rows, len(SIZES), 2**64 - 1))) == len(np.unique(own))


def test_rows_are_not_changed():
    rows, _ = planted()
    before = rows.tobytes()
    k_means(rows, 5, 1)
    assert rows.tobytes() == before


@pytest.mark.parametrize(("different", "number"), [(1, 4), (3, 4), (3, 12)])
def test_equal_rows_give_fewer_clusters_and_no_warning(different, number, capfd):
    rows = np.resize(np.float32([[1, 2], [3, -4], [0, 0.5]][:different]), (12, 2))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = k_means(rows, number, 1)
    assert found.tolist() == np.resize(np.arange(different), 12).tolist()
    assert warned == []
    assert capfd.readouterr() == ("", "")


def test_a_cluster_each_is_allowed_and_so_is_one_for_all():
    rows = np.arange(5, dtype=np.float32)[:, None]
    assert k_means(rows, 5, 1).tolist() == [0, 1, 2, 3, 4]
    assert k_means(rows, 1, 1).tolist() == [0] * 5


@pytest.mark.parametrize("number", [0, 6])
def test_more_clusters_than_users_are_refused_and_so_is_none(number):
    with pytest.raises(ScenarioError, match=rf"^recommender\.clusters: found {number}; expected 1 to 5, "):
        k_means(np.zeros((5, 2), np.float32), number, 1)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused(number):
    rows, _ = planted()
    rows[3, 1] = number
    with pytest.raises(ScenarioError, match=r"^recommender\.clusters: .* NaN or infinite"):
        k_means(rows, 2, 1)
