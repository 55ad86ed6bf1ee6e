"""UNION, its filter: clients that would make the items' rows unusually close or distant are left out.

References
----------
Y. Yu et al., "Untargeted attack against federated recommendation systems via poisonous item embeddings and the
defense", AAAI 2023 (arXiv 2212.05399); published code: yflyl613/FedRec, agg.py.

Notes
-----
By the behaviour of the code, without its task for clients, which draws item rows to a uniform distribution. There, the
filter also acts if no second cluster is found but the smaller one has no more members than there are poisoners, which a
server does not know; here it does not. Items are spread evenly instead of drawn, and the clusters are exact.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, Bools
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.rules import ReportsFindings
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, deltas
from gossiprec.rules.aggregators.deltas import How, add_deltas

REFERENCES = 50
"""Draws from the uniform distribution with which the clusters are compared."""
TINY = 1e-12
"""Added to spreads, so that their logarithm exists."""


class UNIONOptions(Options):
    """Options of UNION."""

    items: int = Field(default=500, ge=2, le=10**6)
    """number of items of which the distances are compared"""
    then: How = "touched-mean"
    """reduction of the deltas of the others"""


@AGGREGATORS.register("union")
class UNION(ReportsFindings, Aggregator):
    """The own model plus the reduced deltas of all clients but the smaller of two clusters of uniformity.

    The uniformity of a client is the mean distance between pairs of items after its delta. A gap statistic decides
    whether there are two clusters. A non-finite delta is left out. Only deltas that change distances are found, so the
    rule is a defence against attacks on many items.
    """

    Options = UNIONOptions
    options: UNIONOptions
    uses_deltas = True
    is_robust = False
    enough = 3  # of two clients none is the smaller cluster
    checkpointed = ("filtered",)
    measures = ("filtered_share",)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._filtered = float("nan")

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the deltas of the larger cluster."""
        inbox = deltas.drop_nonfinite(inbox)
        if not inbox.deltas:
            return own
        kept = np.flatnonzero(~smaller_cluster(self._uniformity(own, inbox)))
        self._filtered = 1.0 - len(kept) / len(inbox)
        changes = [inbox.deltas[place] for place in kept.tolist()]
        some = Inbox(inbox.rows, inbox.row_index[kept], inbox.weights[kept], deltas=changes)
        return add_deltas(own, some, self.options.then)

    def _uniformity(self, own: F32, inbox: Inbox) -> F64:
        """Return the mean distance between pairs of the compared items after each delta."""
        assert inbox.deltas is not None
        width, n_shared = max(inbox.deltas[0].rows.shape[1], 1), len(inbox.deltas[0].shared)
        table = own[: len(own) - n_shared].reshape(-1, width).astype(np.float64)
        found = np.zeros(len(inbox.deltas))
        if not len(table):
            return found
        chosen = np.unique(np.linspace(0, len(table) - 1, self.options.items).round().astype(np.int64))
        before = pair_distances(table[chosen], table[chosen])
        pairs = max(len(chosen) * (len(chosen) - 1), 1)
        for place, change in enumerate(inbox.deltas):
            where = np.minimum(np.searchsorted(chosen, change.items), len(chosen) - 1)
            touched = chosen[where] == change.items
            where, rows = where[touched], table[chosen]
            rows[where] += change.rows[touched]
            more = pair_distances(rows[where], rows) - before[where]
            # a pair with one touched item counts twice, a pair with two is in both of their rows
            found[place] = (before.sum() + 2 * more.sum() - more[:, where].sum()) / pairs
        return found

    def findings(self) -> dict[str, float]:
        """Return the share of the last round's clients that was left out."""
        return {"filtered_share": self._filtered}


def pair_distances(some: F64, rows: F64) -> F64:
    """Return the Euclidean distance of some rows from all, shape (n_some, n_rows)."""
    products = np.einsum("ik,jk->ij", some, rows)  # one thread, unlike a matrix product
    squares = np.square(some).sum(axis=1)[:, None] + np.square(rows).sum(axis=1) - 2 * products
    return np.sqrt(np.maximum(squares, 0.0))


def smaller_cluster(values: F64) -> Bools:
    """Return which values are in the smaller of two clusters, none if there is one cluster or both are equal."""
    none = np.zeros(len(values), np.bool_)
    if len(values) < 3 or not np.ptp(values) > 0:
        return none
    scaled = (values - values.min()) / np.ptp(values)
    spreads, split = cluster_spreads(np.sort(scaled))
    gaps, errors = reference_spreads(len(values))
    gap_one, gap_two = gaps - np.log(spreads + TINY)
    if gap_one >= gap_two - errors[1] or 2 * split == len(values):
        return none
    low: Bools = np.asarray(scaled < np.sort(scaled)[split], np.bool_)
    return low if 2 * split < len(values) else ~low


def cluster_spreads(ordered: F64) -> tuple[F64, int]:
    """Return the squared spread of ascending values in one cluster and in the best two, and the size of the lower."""
    n = len(ordered)
    sums, squares = np.cumsum(ordered), np.cumsum(np.square(ordered))
    sizes = np.arange(1, n)
    below = squares[:-1] - np.square(sums[:-1]) / sizes
    above = squares[-1] - squares[:-1] - np.square(sums[-1] - sums[:-1]) / (n - sizes)
    both = np.maximum(below + above, 0.0)
    best = int(np.argmin(both))
    return np.array([max(squares[-1] - sums[-1] ** 2 / n, 0.0), both[best]]), best + 1


@functools.lru_cache(maxsize=64)
def reference_spreads(n: int) -> tuple[F64, F64]:
    """Return the mean log spread of n uniform values in one and two clusters, and the error of the comparison."""
    draws = generator(0, "union", 0, n).uniform(size=(REFERENCES, n))
    logs = np.log([cluster_spreads(np.sort(draw))[0] + TINY for draw in draws])
    return logs.mean(axis=0), logs.std(axis=0) * np.sqrt(1 + 1 / REFERENCES)
