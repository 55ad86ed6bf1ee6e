"""The items that a centroid of users likes best: semi-hard negatives of its members are drawn among them.

References
----------
The FedCL paper (specification, section 6): the coordinator takes the best R % by scalar product with the centroid.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from gossiprec.arrays import F32, I32
from gossiprec.measures.top_k import in_top_k
from gossiprec.models.base import Layout
from gossiprec.numerics.one_thread import one_torch_thread

KEPT = 4
"""Versions of which lists are kept: late answers are to earlier ones."""


class _Known(NamedTuple):
    """What has been worked out of a version and its centroids, which it keeps alive: their ids stay theirs."""

    of: tuple[F32, F32]
    scores: F32
    lists: dict[int, I32]


class CandidateLists:
    """The best items of each centroid in the versions that clients were sent last; each is worked out once.

    Scores of all centroids are worked out together, always in the same shape: bytes depend on nobody's company.

    Parameters
    ----------
    layout : Layout
        Of a model that scores by scalar products with the block ``items``.
    number : int
        Items in a list, at most n_items.
    """

    def __init__(self, layout: Layout, number: int) -> None:
        self._layout, self._number = layout, number
        self._known: OrderedDict[tuple[int, int], _Known] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, version: F32, centroids: F32, cluster: int) -> I32:
        """Return the best items of a centroid, ascending; of equal ones those of lower id.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
        centroids : ndarray of float32, shape (n_clusters, d)
            The same object for all who were sent the same.
        cluster : int
        """
        with self._lock:
            known = self._of_version(version, centroids)
            if cluster not in known.lists:
                known.lists[cluster] = self._best(known.scores[cluster])
            return known.lists[cluster]

    def alone(self, version: F32, vector: F32) -> I32:
        """Return the best items of a vector that is nobody else's."""
        return self._best(self._scores(version, vector[None])[0])

    def _of_version(self, version: F32, centroids: F32) -> _Known:
        key = id(version), id(centroids)
        if key not in self._known:
            self._known[key] = _Known((version, centroids), self._scores(version, centroids), {})
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def _scores(self, version: F32, vectors: F32) -> F32:
        import torch

        layout = self._layout
        items = layout.named(layout.version_tables(version))["items"]
        with one_torch_thread():
            found: F32 = (torch.tensor(vectors) @ torch.from_numpy(np.require(items, ["C", "W"])).T).numpy()
        return found

    def _best(self, scores: F32) -> I32:
        return np.flatnonzero(in_top_k(scores[None], self._number)[0]).astype(np.int32)
