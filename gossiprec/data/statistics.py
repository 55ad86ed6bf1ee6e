"""Statistics of a data set: sizes, inequality, similarity of users, and distances. Pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.check_ins import SortedCheckIns
from gossiprec.data.split import CheckIns, Interactions, Split
from gossiprec.measures.communities import jaccard_blocks
from gossiprec.measures.gini import gini

COMPARED_USERS = 5000
"""Number of users up to which each is compared with all others; of more users, `SAMPLED_USERS` are."""

SAMPLED_USERS = 500
NEIGHBOURS = 50
"""Community size of the community-detection work."""


def describe_interactions(data: Split | Interactions) -> dict[str, Any]:
    """Return the statistics of a data set, ready for JSON.

    Repeated (user, item) pairs count once. `mean_top50_jaccard` uses the training items of a split, or all
    items of interactions.
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
    """Return the statistics of check-ins, ready for JSON; transitions of a split are its training moves.

    The median of an empty list is None. `test_with_previous` is the share of test items with a known previous place.
    """
    visits = SortedCheckIns.of(data)
    found = {"check_ins": len(data.users), "share_timed": float(visits.timed.mean())}
    if split is not None and split.check_ins is not None:
        train, test = split.check_ins.train, split.check_ins.test
        gaps, steps = train.gap_minutes[train.previous >= 0], move_lengths_km(split.check_ins)
        more = {"test_with_previous": float((test.previous >= 0).mean())} if len(test.previous) else {}
    else:
        places = np.empty((data.n_items, 2)) if data.coordinates is None else data.coordinates
        rows = np.flatnonzero(visits.follows)
        gaps, more = visits.gap_minutes[rows], {}
        steps = pairwise_distances_km(places[visits.items[rows - 1]], places[visits.items[rows]])
    return {
        **found,
        "transitions": len(gaps),
        "median_gap_minutes": float(np.median(gaps)) if len(gaps) else None,
        "median_step_km": float(np.median(steps)) if len(steps) else None,
        **more,
    }


def top_jaccard(sets: Ragged, n_items: int, k: int = NEIGHBOURS) -> F64:
    """Return each user's mean Jaccard index with the `k` most similar other users.

    Parameters
    ----------
    sets : Ragged
    n_items : int
    k : int
        Maximum number; if there are fewer other users, all of them count.

    Returns
    -------
    ndarray of float64, shape (n_users,)
        For more than `COMPARED_USERS` users, the values of `SAMPLED_USERS` evenly spaced ones.
    """
    n_users = len(sets)
    k = min(k, n_users - 1)
    if k < 1:
        return np.zeros(n_users)
    chosen = np.arange(n_users)
    if n_users > COMPARED_USERS:
        chosen = np.linspace(0, n_users - 1, SAMPLED_USERS).astype(np.int64)
    blocks = jaccard_blocks(sets, chosen, n_items=n_items)
    return np.concatenate([np.partition(block, -k, axis=1)[:, -k:].mean(axis=1) for block in blocks])


def pairwise_distances_km(here: F64, there: F64) -> F64:
    """Return the great-circle distance of each pair of places.

    Parameters
    ----------
    here, there : ndarray, shape (n, 2)
        Latitude and longitude in degrees.

    Returns
    -------
    ndarray of float64, shape (n,)
        Kilometres on a sphere of the Earth's mean radius, 6,371.0088 km (the published work uses about 6,378).

    Raises
    ------
    DataError
        If a place is not on the globe.
    """
    from haversine import haversine_vector

    for places in (here, there):
        good = (np.abs(places) <= (90, 180)).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise DataError(
                f"place {row}: found latitude {places[row, 0]}, longitude {places[row, 1]}; "
                "expected -90 to 90 and -180 to 180 degrees"
            )
    if not len(here):
        return np.empty(0)
    return check_distances(np.asarray(haversine_vector(here, there, check=False), np.float64))


def check_distances(distances: F64) -> F64:
    """Return `distances` if all are finite and none is negative.

    Raises
    ------
    DataError
        If one is wrong; the message names the first one.
    """
    good = (distances >= 0) & np.isfinite(distances)
    if not good.all():
        bad = int(np.argmin(good))
        raise DataError(f"distance {bad}: found {distances[bad]} km; expected zero or more")
    return distances


def move_lengths_km(check_ins: CheckIns) -> F64:
    """Return the lengths of the training moves with a known previous place, in order."""
    moves = check_ins.train
    known = moves.previous >= 0
    places = check_ins.coordinates
    return pairwise_distances_km(places[moves.previous[known]], places[moves.items.values[known]])
