"""What the check-in data sets share: who stays, where a place is, and the split of published work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.data.partition import chosen, first_meetings, items_per_user, partition, shuffled
from gossiprec.data.split import Interactions, Split
from gossiprec.errors import DataError

PUBLISHED_SEED = 42
"""Seed of the published shuffle. Theirs is Python's generator over one common state, so only the law is the same."""


def with_enough(data: Interactions, *, check_ins: int, items: int) -> Interactions:
    """Keep the users with at least so many check-ins, at so many different items, under dense ids.

    Raises
    ------
    DataError
        If no user is left.
    """
    different = items_per_user(first_meetings(data))
    stay = (items_per_user(data) >= check_ins) & (different >= items)
    if not stay.any():
        raise DataError(
            f"{data.name}: no user has {check_ins} check-ins at {items} different places (the most active has "
            f"{items_per_user(data).max(initial=0)} check-ins); expected at least one such user; "
            "lower min_checkins or min_items"
        )
    kept = stay[data.users]
    dense = np.cumsum(stay) - 1
    return replace(
        chosen(data, kept),
        users=dense[data.users[kept]],
        n_users=int(stay.sum()),
    )


def only_visited(data: Interactions) -> Interactions:
    """Leave out the items without a check-in; the others keep their order."""
    visited, items = np.unique(data.items, return_inverse=True)
    places = None if data.coordinates is None else data.coordinates[visited]
    return replace(data, items=items, n_items=len(visited), coordinates=places)


def places(items: I64, latitudes: F64, longitudes: F64, n_items: int) -> F64:
    """Return where each item is, shape (n_items, 2): the (lower) median over its check-ins, line order aside.

    Files repeat the coordinates on every check-in, and now and then two of them differ. Every item has a check-in.
    """
    counts = np.bincount(items, minlength=n_items)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    columns = [values[np.lexsort((values, items))][middle] for values in (latitudes, longitudes)]
    return np.stack(columns, axis=1)


def published_split(data: Interactions) -> Split:
    """Shuffle each user's different items and take 80 % to train, 10 % to validate, 10 % to test.

    References
    ----------
    The counts are those of gowalla_format_for_gmf.ipynb, github.com/YacineBelal/PEPPER: of n items,
    floor(0.8 n) and floor(0.9 n) are where the order is cut, so validation is the part that may be empty.
    """
    pairs = first_meetings(data)
    n = items_per_user(pairs)
    return partition(
        pairs, shuffled(pairs, PUBLISHED_SEED), n_test=n - 9 * n // 10, n_validation=9 * n // 10 - 8 * n // 10
    )
