"""Clusters of users whose rows are alike: K-means by scikit-learn, with one outcome however many threads there are.

References
----------
S. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28, 1982; D. Arthur,
S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. PerFedRec++ (specification, section 5)
clusters the coordinator's rows of users with scikit-learn's defaults.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.errors import ScenarioError
from gossiprec.rng import generator

MODULES = ("sklearn.cluster", "threadpoolctl")
"""Modules that :func:`k_means` imports late."""
STARTS = 4
"""Times that the centres are drawn; the clusters that lie closest are kept."""


def k_means(rows: F32, number: int, seed: int) -> I64:
    """Return the cluster of each row: the largest is 0; of equal ones the one with the lower row comes first.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
    number : int
        Clusters, at least 1. There are fewer where there are fewer different rows.
    seed : int
        The outcome depends on the rows, the number and this alone.

    Returns
    -------
    ndarray of int64, shape (n,)
        From 0 on, without a gap.

    Raises
    ------
    ScenarioError
        If there are more clusters than rows, or numbers that are not finite.
    """
    _require(rows, number)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    state = int(generator(seed, "clusters").integers(2**32))
    means = KMeans(number, n_init=STARTS, random_state=state, algorithm="lloyd")
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # where rows are equal: fewer clusters will do
        found = means.fit(rows.astype(np.float64)).labels_
    return by_size(found)


def by_size(clusters: Any) -> I64:
    """Return clusters numbered anew: by size, the largest first, and where that is equal by their first member.

    Parameters
    ----------
    clusters : ndarray of int, shape (n,)
        Any numbers.
    """
    _, first, own, sizes = np.unique(clusters, return_index=True, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), np.int64)
    place[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    return np.asarray(place[own.ravel()], np.int64)


def _require(rows: F32, number: int) -> None:
    if not 1 <= number <= len(rows):
        raise ScenarioError(
            f"recommender.clusters: found {number}; expected 1 to {len(rows)}, the number of users to cluster"
        )
    if not np.isfinite(rows).all():
        raise ScenarioError(
            "recommender.clusters: user rows contain NaN or infinite values and cannot be clustered; lower "
            "training.learning_rate"
        )
