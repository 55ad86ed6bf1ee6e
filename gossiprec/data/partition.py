"""The arithmetic that all split rules share: order each user's items, and cut the order in three."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64, Bools
from gossiprec.data.ordering import order_by
from gossiprec.data.split import Interactions, Split, name_of
from gossiprec.errors import DataError
from gossiprec.ragged import Ragged
from gossiprec.rng import purpose_id, uniforms

Rows = I64 | Bools


def first_meetings(interactions: Interactions) -> Interactions:
    """Keep one interaction of each (user, item) pair, the earliest, sorted by user and item.

    The earliest, because a recommender that is asked for new items is judged by the first time a user meets
    one. Without times, or at equal times, the row that comes first in the data stays. `rows` says where it was.
    """
    users, items = interactions.users, interactions.items
    same_user = users[1:] == users[:-1]
    if ((users[1:] > users[:-1]) | (same_user & (items[1:] > items[:-1]))).all():
        return interactions
    order = order_by(users, items)
    fresh = _fresh(users[order], items[order])
    if not fresh.all():
        order = order_by(users, items, *time_columns(interactions))
    return chosen(replace(interactions, rows=rows_of(interactions)), order[fresh])


def chosen(interactions: Interactions, rows: Rows) -> Interactions:
    """Return some of the rows, given by their places or a mask, in that order."""
    data = interactions
    return replace(
        data,
        users=data.users[rows],
        items=data.items[rows],
        ratings=None if data.ratings is None else data.ratings[rows],
        times=None if data.times is None else data.times[rows],
        fractions=None if data.fractions is None else data.fractions[rows],
        rows=None if data.rows is None else data.rows[rows],
    )


def rows_of(interactions: Interactions) -> I64:
    """Return the place of each interaction in its source."""
    return np.arange(len(interactions.users)) if interactions.rows is None else interactions.rows


def time_columns(interactions: Interactions) -> tuple[npt.NDArray[np.generic], ...]:
    """Return the columns that order interactions by time, first to last; none without times."""
    columns = (interactions.times, interactions.fractions)
    return tuple(column for column in columns if column is not None)


def time_positions(pairs: Interactions) -> npt.NDArray[np.generic] | None:
    """Return a position of each pair by its exact time; None without times.

    Notes
    -----
    Of equal times, :func:`in_order` puts the one that comes first in the source first.
    """
    if pairs.fractions is None:
        return pairs.times
    order = order_by(*time_columns(pairs), rows_of(pairs))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return positions


def _fresh(users: I64, items: I64) -> Bools:
    """Return which rows, sorted by user and item, are the first of their pair."""
    fresh = np.ones(len(users), bool)
    fresh[1:] = (np.diff(users) != 0) | (np.diff(items) != 0)
    return fresh


def items_per_user(interactions: Interactions) -> I64:
    """Return the number of rows of each user, shape (n_users,)."""
    return np.bincount(interactions.users, minlength=interactions.n_users).astype(np.int64)


def in_order(pairs: Interactions, position: npt.NDArray[np.generic]) -> I64:
    """Return the places of pairs by user, then position; equal positions go by the place in the source."""
    order = order_by(pairs.users, position)
    if pairs.rows is None:
        return order
    users, sorted_position = pairs.users[order], position[order]
    tied = (users[1:] == users[:-1]) & (sorted_position[1:] == sorted_position[:-1])
    return order_by(pairs.users, position, pairs.rows) if tied.any() else order


def shuffled(pairs: Interactions, seed: int) -> F64:
    """Return a random place for each pair, which depends on the seed, this user and this item only."""
    purpose = purpose_id("data.split")
    if not pairs.draws_by_name:
        return uniforms(seed, pairs.items, pairs.users, purpose)
    users, items = (
        np.array([crc32(name.encode()) for name in names or ()])
        for names in (pairs.user_names, pairs.item_names)
    )
    return uniforms(seed, items[pairs.items], users[pairs.users], purpose)


def partition(
    pairs: Interactions, position: npt.NDArray[np.generic], *, n_test: I64, n_validation: I64
) -> Split:
    """Give the last items of each user to test, the ones before to validation, the rest to training.

    Parameters
    ----------
    pairs : Interactions
        Each (user, item) pair once: see :func:`first_meetings`.
    position : ndarray, shape (n_pairs,)
        Places a pair among those of its user; equal ones go by the place in the source.
    n_test, n_validation : ndarray of int, shape (n_users,)

    Raises
    ------
    DataError
        If a user would be left without a training item.
    """
    counts = items_per_user(pairs)
    _require(pairs, counts, n_test + n_validation + 1)
    order = in_order(pairs, position)
    users, items = pairs.users[order], pairs.items[order]
    from_end = np.cumsum(counts)[users] - 1 - np.arange(len(users))
    is_test = from_end < n_test[users]
    is_validation = ~is_test & (from_end < (n_test + n_validation)[users])

    def sets(rows: Bools) -> Ragged:
        return Ragged.sets(users[rows], items[rows], pairs.n_users)

    return Split(
        name=pairs.name,
        n_users=pairs.n_users,
        n_items=pairs.n_items,
        train=sets(~is_test & ~is_validation),
        validation=sets(is_validation),
        test=sets(is_test),
    )


def _require(pairs: Interactions, counts: I64, needed: I64) -> None:
    short = counts < needed
    if short.any():
        user = int(np.argmax(short))
        name = name_of(pairs.user_names, user)
        raise DataError(
            f"{pairs.name}: user {name} has {counts[user]} items, but the split needs {needed[user]} "
            f"({int(short.sum())} such users); lower test or validation, or remove such users"
        )
