"""Conversion of dated visits and a split to moves between places, for models of the next place.

References
----------
S. Feng et al., "Personalized Ranking Metric Embedding for Next New POI Recommendation", IJCAI 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gossiprec.base.arrays import F32, F64, I64, Bools, in_sorted
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import (
    CheckIns,
    Interactions,
    Split,
    count_items_per_user,
    first_interactions,
    order_by,
    random_positions,
    select_interactions,
    source_rows,
    split_by_position,
)
from gossiprec.data.training_data import Transitions


@dataclass(frozen=True)
class SortedCheckIns:
    """All check-ins by user, then time (unknown times first), then place in the file.

    Attributes
    ----------
    users, items : ndarray of int64, shape (n_check_ins,)
    timed : ndarray of bool, shape (n_check_ins,)
        Whether the time is known.
    follows : ndarray of bool, shape (n_check_ins,)
        Whether the row before is the user's check-in just before: same user, both times known.
    gap_minutes : ndarray of float32, shape (n_check_ins,)
        Time since that check-in, in minutes; NaN if the row does not follow one.
    """

    users: I64
    items: I64
    timed: Bools
    follows: Bools
    gap_minutes: F32

    @classmethod
    def of(cls, data: Interactions) -> SortedCheckIns:
        """Sort the check-ins of a data set; if it has no times, all are unknown."""
        times = np.full(len(data.users), -1) if data.times is None else data.times
        parts = np.zeros(len(data.users)) if data.fractions is None else data.fractions
        order = order_by(data.users, times, parts, source_rows(data))
        users, times, parts = data.users[order], times[order], parts[order]
        timed = times >= 0
        follows = np.zeros(len(order), bool)
        follows[1:] = (users[1:] == users[:-1]) & timed[1:] & timed[:-1]
        gaps = np.full(len(order), np.nan, np.float32)
        seconds = (times - np.roll(times, 1)) + (parts - np.roll(parts, 1))
        gaps[follows] = (seconds[follows] / 60).astype(np.float32)
        return cls(users, data.items[order], timed, follows, gaps)


def extract_check_ins(data: Interactions, split: Split) -> CheckIns:
    """Return the moves that each part of a split may use.

    Notes
    -----
    In training, a check-in right after another one of the same user is a move if both places are training items, so
    no held-out place is ever the previous one. A check-in without a known time counts as a move without a previous
    place, and so does the first check-in at a training item that has no other move. A test item comes after the
    check-in just before the user's first dated visit to it, if that check-in is at a training item.

    Raises
    ------
    DataError
        If the items have no coordinates.
    """
    if data.coordinates is None:
        raise DataError(f"{data.name}: has no coordinates; expected check-in data, such as foursquare-nyc")
    visits = SortedCheckIns.of(data)
    keys = visits.users * data.n_items + visits.items
    known = in_sorted(keys, _keys(split.train, data.n_items))
    from_known = visits.follows & np.roll(known, 1)
    return CheckIns(
        data.coordinates,
        _training_moves(visits, keys, known, from_known, len(split.train)),
        _test_moves(visits, keys, from_known, split.test, data.n_items),
    )


def _training_moves(
    visits: SortedCheckIns, keys: I64, known: Bools, from_known: Bools, n_users: int
) -> Transitions:
    kept = known & (from_known | ~visits.timed)
    pairs, first = np.unique(np.where(known, keys, -1), return_index=True)
    kept[first[(pairs >= 0) & ~in_sorted(pairs, np.unique(keys[kept]))]] = True
    items = Ragged.from_pairs(visits.users[kept], visits.items[kept].astype(np.int32), n_users)
    return _moves(visits, np.flatnonzero(kept), from_known, items)


def _test_moves(
    visits: SortedCheckIns, keys: I64, from_known: Bools, test: Ragged, n_items: int
) -> Transitions:
    dated = np.flatnonzero(visits.timed)
    visited, first = np.unique(keys[dated], return_index=True)
    wanted = _keys(test, n_items)
    rows = np.full(len(wanted), -1)
    found = in_sorted(wanted, visited)
    rows[found] = dated[first[np.searchsorted(visited, wanted[found])]]
    return _moves(visits, rows, from_known, test)


def _moves(visits: SortedCheckIns, rows: I64, from_known: Bools, items: Ragged) -> Transitions:
    """Return the move of each row of `visits`; row -1 means an unknown visit."""
    real = rows >= 0
    real[real] = from_known[rows[real]]
    previous = np.full(len(rows), -1, np.int32)
    previous[real] = visits.items[rows[real] - 1]
    gaps = np.full(len(rows), np.nan, np.float32)
    gaps[real] = visits.gap_minutes[rows[real]]
    return Transitions(items, previous, gaps)


def _keys(sets: Ragged, n_items: int) -> I64:
    """Return user * n_items + item of each pair, ascending."""
    return np.asarray(sets.row_of_each_value * n_items + sets.values)


PUBLISHED_SEED = 42
"""Seed of the published shuffle, which used Python's generator: only the distribution is the same here."""


def filter_active_users(data: Interactions, *, check_ins: int, items: int) -> Interactions:
    """Keep the users with enough check-ins at enough different items, under dense ids.

    Raises
    ------
    DataError
        If no user is left.
    """
    different = count_items_per_user(first_interactions(data))
    stay = (count_items_per_user(data) >= check_ins) & (different >= items)
    if not stay.any():
        raise DataError(
            f"{data.name}: no user has {check_ins} check-ins at {items} different places (the most active has "
            f"{count_items_per_user(data).max(initial=0)} check-ins); expected at least one such user; "
            "lower min_checkins or min_items"
        )
    kept = stay[data.users]
    dense = np.cumsum(stay) - 1
    return replace(
        select_interactions(data, kept),
        users=dense[data.users[kept]],
        n_users=int(stay.sum()),
    )


def drop_unvisited_items(data: Interactions) -> Interactions:
    """Remove the items without a check-in; the remaining items keep their order."""
    visited, items = np.unique(data.items, return_inverse=True)
    places = None if data.coordinates is None else data.coordinates[visited]
    return replace(data, items=items, n_items=len(visited), coordinates=places)


def item_coordinates(items: I64, latitudes: F64, longitudes: F64, n_items: int) -> F64:
    """Return the place of each item, shape (n_items, 2): the lower median over its check-ins.

    Files repeat the coordinates on every check-in, and sometimes two of them differ. The median does not depend on
    the order of the lines. Every item must have a check-in.
    """
    counts = np.bincount(items, minlength=n_items)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    columns = [values[np.lexsort((values, items))][middle] for values in (latitudes, longitudes)]
    return np.stack(columns, axis=1)


def published_split(data: Interactions) -> Split:
    """Split each user's shuffled items: 80 % for training, 10 % for validation, 10 % for test.

    References
    ----------
    The counts follow gowalla_format_for_gmf.ipynb, github.com/YacineBelal/PEPPER: the order of n items is cut
    at floor(0.8 n) and floor(0.9 n), so only the validation part may be empty.
    """
    pairs = first_interactions(data)
    n = count_items_per_user(pairs)
    return split_by_position(
        pairs,
        random_positions(pairs, PUBLISHED_SEED),
        n_test=n - 9 * n // 10,
        n_validation=9 * n // 10 - 8 * n // 10,
    )
