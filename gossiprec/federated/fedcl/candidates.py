"""The best items of each centroid of users, from which semi-hard negatives of its members are drawn, with their loops.

References
----------
The FedCL paper (specification, section 6): the coordinator takes the best R % by scalar product with the centroid.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, I32
from gossiprec.federated.user_vectors import item_table
from gossiprec.models.base import Layout
from gossiprec.native.jit import inline, kernel, noinline
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.small_matmul import add_product, pad_to_tile
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.rules.servers import CALLING_THREAD, ThreadPoolLike

_MOST = 2047
"""The highest digit: eleven bits, so that the counts stay in the first-level cache."""


@kernel
def add_scores(scores, items, vectors):
    """Add to scores, shape (n_items, n), the scalar products of items, (n_items, d), with columns of vectors, (d, n).

    Each product is summed in the order of d, independently of the other columns; fast in multiples of LANES.
    """
    (n_items, dim), n = items.shape, scores.shape[1]
    found, rows = Matrix(scores.reshape(-1), 0, n, 1), Matrix(items.reshape(-1), 0, dim, 1)
    add_product(found, rows, Matrix(vectors.reshape(-1), 0, n, 1), n_items, dim, n)


@kernel
def find_top(scores, found):
    """Fill `found`, int32, with the indices of the highest scores, ascending; on ties the lower index wins.

    The lowest of these scores is found digit by digit, from the highest; each step keeps the scores that agree with it.
    """
    keys = np.empty(len(scores), np.uint32)
    _set_keys(scores.view(np.uint32), keys)
    left, some = len(found), keys
    for shift in (21, 10, 0):
        left, some = _of_digit(some, shift, left)
    lowest, n = some[0], 0
    for k in range(len(keys) if len(found) else 0):
        if keys[k] > lowest or (keys[k] == lowest and left > 0):
            left -= keys[k] == lowest
            found[n] = k
            n += 1


@inline
def _set_keys(bits, keys):
    """Set integer keys in the order of the floats with these bits; both zeros are equal."""
    for k in range(len(bits)):
        x = np.int64(bits[k])
        keys[k] = 2**31 + x if x < 2**31 else 2**32 - x


@noinline
def _of_digit(keys, shift, number):
    """Return the rank of the `number`-th highest key among the keys with its digit, and these keys."""
    counts = np.zeros(_MOST + 1, np.int64)
    for key in keys:
        counts[(key >> shift) & _MOST] += 1
    digit = _MOST
    while counts[digit] < number:
        number -= counts[digit]
        digit -= 1
    some, n = np.empty(max(counts[digit], 1), np.uint32), 0
    for key in keys:
        if (key >> shift) & _MOST == digit:
            some[n] = key
            n += 1
    return number, some


KEPT = 4
"""Number of versions of which lists are kept: late answers belong to earlier ones."""


class _Known(NamedTuple):
    """Results for a version and its centroids. It keeps both alive, so that their ids stay valid."""

    of: tuple[F32, F32]
    scores: F32
    lists: dict[int, I32]


class ClusterCandidates:
    """The best items of each centroid in the versions that clients were sent last; each list is computed once.

    Scores of all centroids are computed together, which is faster; the bytes do not depend on the other centroids.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], _Known] = OrderedDict()
        self._lock = threading.Lock()

    def best_items(self, layout: Layout, version: F32, centroids: F32, cluster: int, number: int) -> I32:
        """Return the best items of a centroid, ascending; on ties the lower id wins.

        Parameters
        ----------
        layout : Layout
            Of whole models.
        version : ndarray of float32, shape (n_columns,)
        centroids : ndarray of float32, shape (n_clusters, d)
            The same object for all clients that were sent the same centroids.
        cluster : int
        number : int
            Number of items, up to n_items; the same in every call.
        """
        return self.compute(layout, version, centroids, [cluster], number, CALLING_THREAD)[cluster]

    def compute(
        self,
        layout: Layout,
        version: F32,
        centroids: F32,
        clusters: Iterable[int],
        number: int,
        threads: ThreadPoolLike,
    ) -> dict[int, I32]:
        """Return the lists of some centroids and others that are known; threads compute different lists."""
        with self._lock:
            known = self._of_version(layout, version, centroids, threads)
        wanted = [cluster for cluster in sorted(set(clusters)) if cluster not in known.lists]

        def find(part: int) -> None:
            for cluster in wanted[part :: threads.size]:
                known.lists[cluster] = top_item_ids(known.scores[:, cluster], number)

        if wanted:
            threads.run(find)
        return known.lists

    def _of_version(self, layout: Layout, version: F32, centroids: F32, threads: ThreadPoolLike) -> _Known:
        key = id(version), id(centroids)
        if key not in self._known:
            scores = score_by_vectors(centroids, item_table(layout, version), threads)
            self._known[key] = _Known((version, centroids), scores, {})
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key]


def score_by_vectors(vectors: F32, items: F32, threads: ThreadPoolLike = CALLING_THREAD) -> F32:
    """Return the scalar product of each item's row with each of several vectors, shape (n_items, n or more)."""
    columns = np.zeros((vectors.shape[1], pad_to_tile.py_func(len(vectors))), np.float32)
    columns[:, : len(vectors)] = vectors.T
    found = np.zeros((len(items), columns.shape[1]), np.float32)
    rows, size = np.require(items, requirements=["C"]), threads.size

    def add(part: int) -> None:
        some = slice(len(rows) * part // size, len(rows) * (part + 1) // size)
        add_scores(found[some], rows[some], columns)

    threads.run(add)
    return found


def score_by_vector(vector: F32, items: F32) -> F32:
    """Return the scalar product of one vector with each item's row, shape (n_items,)."""
    import torch

    with single_torch_thread():
        rows = torch.from_numpy(np.require(items, requirements=["C", "W"]))
        found: F32 = (torch.tensor(vector[None]) @ rows.T).numpy()[0]
    return found


def top_item_ids(scores: F32, number: int) -> I32:
    """Return the items of the highest scores, ascending; on ties the lower id wins."""
    found = np.empty(number, np.int32)
    find_top(np.ascontiguousarray(scores), found)
    return found
