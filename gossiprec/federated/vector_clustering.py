"""Clustering of users' vectors by Ward's method or K-means, with centroids; large sets are clustered by a sample.

References
----------
J. H. Ward, "Hierarchical grouping to optimize an objective function", Journal of the American Statistical Association
58, 1963; F. Murtagh, "A survey of recent advances in hierarchical clustering algorithms", The Computer Journal 26, 1983
(chains of nearest neighbours). The FedCL paper (specification, section 6) clusters by Ward's method.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.native.jit import kernel, noinline
from gossiprec.native.tiles import WIDE
from gossiprec.numerics.small_matmul import add_squares


@kernel
def ward_merges(means, pairs, heights):
    """Merge clusters of one row each until one is left, in the order of chains, not of heights.

    Parameters
    ----------
    means : ndarray of float32, shape (n_tiles, d, WIDE)
        The rows, one per column, and further ones that fill the last tile; overwritten. The remaining clusters are
        kept together, so that many distances are computed at once, each summed in the order of d.
    pairs : ndarray of int64, shape (n - 1, 2)
        Filled with a row of each of the two clusters that are merged.
    heights : ndarray of float32, shape (n - 1,)
        Filled with half of what each merge adds to the sum of squared distances to means, times two: sorted by
        height, the merges are in the order of Ward's method.
    """
    n = len(pairs) + 1
    sizes, apart = np.ones(n, np.float32), np.zeros(len(means) * WIDE, np.float32)
    row, place = np.arange(n), np.arange(n)  # the row of each column, and the column of each row
    chain, length, n_left = np.empty(n, np.int64), 0, n
    for merge in range(n - 1):
        if length == 0:
            chain[0], length = row[0], 1
        while True:  # each link is shorter than the one before, so that the chain ends
            last = chain[length - 1]
            before = place[chain[length - 2]] if length > 1 else -1
            _fill_heights(means, sizes, place[last], apart, n_left)
            found = _least(apart[:n_left], before)
            if found == before:
                break
            chain[length] = row[found]
            length += 1
        length -= 2
        own, height = place[last], apart[found]
        pairs[merge, 0], pairs[merge, 1], heights[merge] = last, row[found], height
        total = sizes[own] + sizes[found]
        n_left -= 1
        mine, other = means[own // WIDE, :, own % WIDE], means[found // WIDE, :, found % WIDE]
        moved = means[n_left // WIDE, :, n_left % WIDE]
        for t in range(len(mine)):
            mine[t] = (sizes[own] * mine[t] + sizes[found] * other[t]) / total
            other[t] = moved[t]
        sizes[own] = total
        sizes[found] = sizes[n_left]
        row[found] = row[n_left]
        place[row[found]] = found


@noinline
def _fill_heights(means, sizes, own, apart, n):
    """Fill the heights at which a cluster would be merged with each of `n`; infinite for itself."""
    for k in range(n):
        apart[k] = float32(0.0)
    dim, size, flat = means.shape[1], sizes[own], means.ravel()
    add_squares(apart, flat, own // WIDE * dim * WIDE + own % WIDE, flat, dim, (n + WIDE - 1) // WIDE)
    for k in range(n):
        apart[k] *= size * sizes[k] / (size + sizes[k])
    apart[own] = np.inf


@noinline
def _least(heights, before):
    """Return the index of the least height; on ties `before`, or else the first."""
    bits, least = (
        heights.view(np.int32),
        np.int32(0x7FFFFFFF),
    )  # the bits of numbers from 0 on have the same order
    for k in range(len(bits)):
        least = min(least, bits[k])
    if before >= 0 and bits[before] == least:
        return before
    found = 0
    while bits[found] != least:
        found += 1
    return found


MODULES = ("sklearn.cluster", "threadpoolctl")
"""Modules that :func:`k_means` imports late."""
STARTS = 4
"""Number of random starts; the start with the tightest clusters is kept."""


def k_means(rows: F32, number: int, seed: int) -> I64:
    """Return the cluster of each row: the largest is 0; on ties the one with the lower row comes first.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
    number : int
        Number of clusters, 1 or more. The result has fewer if there are fewer different rows.
    seed : int
        The result depends only on the rows, the number and the seed.

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
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows: fewer clusters suffice
        found = means.fit(rows.astype(np.float64)).labels_
    return relabel_by_size(found)


def relabel_by_size(clusters: Any) -> I64:
    """Return clusters renumbered by size, the largest first, on ties by their first member.

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


MOST = 5000
"""Number of vectors that are clustered; the others join the nearest centroid. Ward's method is quadratic in it."""

Method = Literal["ward", "kmeans"]


class ClusteringResult(NamedTuple):
    """Centroids and sizes of the clusters that were found.

    Attributes
    ----------
    vectors : ndarray of float32, shape (n_clusters, d)
        Means of members, the largest cluster first.
    sizes : ndarray of int64, shape (n_clusters,)
    """

    vectors: F32
    sizes: I64


def cluster_vectors(rows: F32, number: int, method: Method, draw: np.random.Generator) -> ClusteringResult:
    """Return the centroids and sizes of the clusters of some vectors.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
        Finite.
    number : int
        Number of clusters, up to n. K-means finds fewer if there are fewer different vectors.
    method : {'ward', 'kmeans'}
    draw : Generator
        Draws the sample if there are more than :data:`MOST` vectors, and the start of K-means.
    """
    some = rows
    if len(rows) > MOST:
        some = rows[np.sort(draw.choice(len(rows), MOST, replace=False))]
    seed = int(draw.integers(2**31))
    clusters = ward_clusters(some, number) if method == "ward" else k_means(some, number, seed)
    if len(some) < len(rows):
        clusters = nearest_centroid(rows, _means(some, clusters))
    clusters = relabel_by_size(clusters)
    return ClusteringResult(_means(rows, clusters), np.bincount(clusters))


def ward_clusters(rows: F32, number: int) -> I64:
    """Return the cluster of each row by Ward's method, the largest first; on ties the one with the lower row.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
    number : int
        Clusters, from 1 to n.

    Notes
    -----
    Implemented here because ``scipy.cluster.hierarchy.ward`` takes five times as long for 5,000 rows of 64 numbers, and
    200 MB for their distances: with it clustering would be more than 5 % of a run of FedCL. Tests compare both.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n = len(rows)
    pairs, heights = np.empty((n - 1, 2), np.int64), np.empty(n - 1, np.float32)
    tiles = np.zeros((-(-n // WIDE), WIDE, rows.shape[1]), np.float32)
    largest = np.frexp(np.abs(rows).max(initial=0.0))[1]  # squares are neither infinite nor lost
    np.ldexp(rows, -largest, out=tiles.reshape(-1, rows.shape[1])[:n])
    ward_merges(tiles.transpose(0, 2, 1).copy(), pairs, heights)
    done = pairs[np.argsort(heights, kind="stable")[: n - number]]
    links = sparse.coo_array((np.ones(len(done)), (done[:, 0], done[:, 1])), shape=(n, n))
    return relabel_by_size(connected_components(links, directed=False)[1])


def nearest_centroid(rows: F32, centroids: F32) -> I64:
    """Return the nearest centroid of each row, on ties the first, shape (n,)."""
    from scipy.spatial.distance import cdist

    return cdist(rows, centroids, "sqeuclidean").argmin(axis=1)


def _means(rows: F32, clusters: I64) -> F32:
    """Return the mean of each cluster's rows; there are no empty ones."""
    _, own = np.unique(clusters, return_inverse=True)
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    sums = np.add.reduceat(rows[order].astype(np.float64), np.cumsum(sizes) - sizes)
    return (sums / sizes[:, None]).astype(np.float32)
