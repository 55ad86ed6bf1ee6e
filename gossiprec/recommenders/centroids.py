"""Centroids of clusters of users' vectors: Ward's method or K-means, beyond some thousands on a part of the vectors.

References
----------
J. H. Ward, "Hierarchical grouping to optimize an objective function", Journal of the American Statistical Association
58, 1963; F. Murtagh, "A survey of recent advances in hierarchical clustering algorithms", The Computer Journal 26, 1983
(chains of nearest neighbours). The FedCL paper (specification, section 6) clusters by Ward's method.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.numerics.tiles import WIDE
from gossiprec.recommenders.clusters import by_size, k_means

MOST = 5000
"""Vectors that are clustered; the others go to the nearest centroid. Ward's method takes the square of their number."""

Method = Literal["ward", "kmeans"]


class Centroids(NamedTuple):
    """What a clustering has found.

    Attributes
    ----------
    vectors : ndarray of float32, shape (n_clusters, d)
        Means of members, those of the largest cluster first.
    sizes : ndarray of int64, shape (n_clusters,)
    """

    vectors: F32
    sizes: I64


def centroids_of(rows: F32, number: int, method: Method, draw: np.random.Generator) -> Centroids:
    """Cluster vectors.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
        Finite.
    number : int
        Clusters, at most n. K-means finds fewer where there are fewer different vectors.
    method : {'ward', 'kmeans'}
    draw : Generator
        Says which vectors are clustered of more than :data:`MOST`, and where K-means begins.
    """
    some = rows
    if len(rows) > MOST:
        some = rows[np.sort(draw.choice(len(rows), MOST, replace=False))]
    seed = int(draw.integers(2**31))
    clusters = ward(some, number) if method == "ward" else k_means(some, number, seed)
    if len(some) < len(rows):
        clusters = nearest(rows, _means(some, clusters))
    clusters = by_size(clusters)
    return Centroids(_means(rows, clusters), np.bincount(clusters))


def ward(rows: F32, number: int) -> I64:
    """Return the cluster of each row by Ward's method, the largest first; of equal ones that with the lower row.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
    number : int
        Clusters, from 1 to n.

    Notes
    -----
    Written out because ``scipy.cluster.hierarchy.ward`` takes five times as long for 5,000 rows of 64 numbers, and
    200 MB for their distances: with it clustering would be more than 5 % of a run of FedCL. Tests hold it to scipy's.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    from gossiprec.recommenders.kernels.ward import merges_of

    n = len(rows)
    pairs, heights = np.empty((n - 1, 2), np.int64), np.empty(n - 1, np.float32)
    tiles = np.zeros((-(-n // WIDE), WIDE, rows.shape[1]), np.float32)
    largest = np.frexp(np.abs(rows).max(initial=0.0))[1]  # squares are neither infinite nor lost
    np.ldexp(rows, -largest, out=tiles.reshape(-1, rows.shape[1])[:n])
    merges_of(tiles.transpose(0, 2, 1).copy(), pairs, heights)
    done = pairs[np.argsort(heights, kind="stable")[: n - number]]
    links = sparse.coo_array((np.ones(len(done)), (done[:, 0], done[:, 1])), shape=(n, n))
    return by_size(connected_components(links, directed=False)[1])


def nearest(rows: F32, centroids: F32) -> I64:
    """Return the centroid nearest to each row, of equal ones the first; shape (n,)."""
    from scipy.spatial.distance import cdist

    found: I64 = cdist(rows, centroids, "sqeuclidean").argmin(axis=1)
    return found


def _means(rows: F32, clusters: I64) -> F32:
    """Return the mean of each cluster's rows; there are no empty ones."""
    _, own = np.unique(clusters, return_inverse=True)
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    sums = np.add.reduceat(rows[order].astype(np.float64), np.cumsum(sizes) - sizes)
    means: F32 = (sums / sizes[:, None]).astype(np.float32)
    return means
