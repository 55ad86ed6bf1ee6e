"""What a data set looks like: sizes, inequality, and how alike its users are. Pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gossiprec.arrays import F64, I64
from gossiprec.data.check_ins import Visits
from gossiprec.data.distances import distances_km, steps_km
from gossiprec.data.split import Interactions, Split
from gossiprec.measures.gini import gini
from gossiprec.ragged import Ragged

COMPARED_USERS = 5000
"""Up to so many users, every user is compared with all others; beyond, `SAMPLED_USERS` of them are."""

SAMPLED_USERS = 500
NEIGHBOURS = 50
"""Community size of the community-detection work."""

BLOCK_CELLS = 2_000_000
"""Similarities held at once, however many users there are."""


def describe(data: Split | Interactions) -> dict[str, Any]:
    """Return the statistics of a data set, ready for JSON.

    Repeated (user, item) pairs count once. `mean_top50_jaccard` is over training items for a split, over all
    items for interactions.
    """
    if isinstance(data, Split):
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        sizes = {f"{part}_interactions": int(sets.offsets[-1]) for part, sets in parts.items()}
        users = data.train.sizes + data.validation.sizes + data.test.sizes
        items = sum(np.bincount(sets.values, minlength=data.n_items) for sets in parts.values())
        known = data.train
    else:
        known = Ragged.sets(data.users, data.items, data.n_users)
        sizes, users, items = {}, known.sizes, np.bincount(known.values, minlength=data.n_items)
    return {
        "name": data.name,
        "users": data.n_users,
        "items": data.n_items,
        "interactions": int(users.sum()),
        **sizes,
        "density": float(users.sum() / (data.n_users * data.n_items)),
        "gini_items": gini(items),
        "gini_users": gini(users),
        "min_per_user": int(users.min()),
        "median_per_user": float(np.median(users)),
        "max_per_user": int(users.max()),
        f"mean_top{NEIGHBOURS}_jaccard": float(top_jaccard(known, data.n_items).mean()),
    }


def describe_check_ins(data: Interactions, split: Split | None = None) -> dict[str, Any]:
    """Return the statistics of check-ins, ready for JSON; of a split, its training moves are the transitions.

    A median of nothing is None. `test_with_previous` is the share of test items whose previous place is known.
    """
    visits = Visits.of(data)
    found = {"check_ins": len(data.users), "share_timed": float(visits.timed.mean())}
    if split is not None and split.check_ins is not None:
        train, test = split.check_ins.train, split.check_ins.test
        gaps, steps = train.gap_minutes[train.previous >= 0], steps_km(split.check_ins)
        more = {"test_with_previous": float((test.previous >= 0).mean())} if len(test.previous) else {}
    else:
        places = np.empty((data.n_items, 2)) if data.coordinates is None else data.coordinates
        rows = np.flatnonzero(visits.follows)
        gaps, more = visits.gap_minutes[rows], {}
        steps = distances_km(places[visits.items[rows - 1]], places[visits.items[rows]])
    return {
        **found,
        "transitions": len(gaps),
        "median_gap_minutes": float(np.median(gaps)) if len(gaps) else None,
        "median_step_km": float(np.median(steps)) if len(steps) else None,
        **more,
    }


def top_jaccard(sets: Ragged, n_items: int, k: int = NEIGHBOURS) -> F64:
    """Return each user's mean Jaccard index with the `k` other users who are most alike.

    Parameters
    ----------
    sets : Ragged
    n_items : int
    k : int
        At most; with fewer other users, all of them count.

    Returns
    -------
    ndarray of float64, shape (n_users,)
        Beyond `COMPARED_USERS` users, of `SAMPLED_USERS` evenly spaced ones.
    """
    n_users = len(sets)
    k = min(k, n_users - 1)
    if k < 1:
        return np.zeros(n_users)
    chosen = np.arange(n_users)
    if n_users > COMPARED_USERS:
        chosen = np.linspace(0, n_users - 1, SAMPLED_USERS).astype(np.int64)
    ones = np.ones(len(sets.values), np.float32)
    matrix = sparse.csr_matrix((ones, sets.values, sets.offsets), shape=(n_users, n_items))
    blocks = np.array_split(chosen, len(chosen) * n_users // BLOCK_CELLS + 1)
    return np.concatenate([_block_means(matrix, rows, sets.sizes, k) for rows in blocks])


def _block_means(matrix: sparse.csr_matrix, rows: I64, sizes: I64, k: int) -> F64:
    shared = (matrix[rows] @ matrix.T).toarray().astype(np.float64)
    either = sizes[rows, None] + sizes[None, :] - shared
    jaccard = np.divide(shared, either, out=np.zeros_like(shared), where=either > 0)
    jaccard[np.arange(len(rows)), rows] = -1.0
    means: F64 = np.partition(jaccard, -k, axis=1)[:, -k:].mean(axis=1)
    return means
