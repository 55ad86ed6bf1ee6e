"""Interactions and their split by user, the only form in which data enter a run; and what split rules share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.data.training_data import TrainingData, Transitions, Visits

A = TypeVar("A", bound=npt.NDArray[Any])


@dataclass(frozen=True)
class Interactions:
    """Implicit feedback: each row says that a user interacted with an item.

    Attributes
    ----------
    name : str
        Data set name, for reports.
    users, items : ndarray of int64, shape (n_interactions,)
        Dense ids from 0.
    n_users, n_items : int
        Sizes of the id spaces; an item without interactions may exist.
    ratings : ndarray of float32 or None
    times : ndarray of int64 or None
        Unix seconds, -1 if unknown; or places in the user's list if only the order is known.
    coordinates : ndarray of float64, shape (n_items, 2), or None
        Latitude and longitude of each item in degrees; with them the data are check-ins.
    user_names, item_names : tuple of str or None
        Names in the source, by id; None if it uses numbers.
    item_texts : tuple of str or None
        Title and kinds of each item, by id, in lower case; "" if the source has none. None if there are no texts.
    source_summary : str
        Description of the detected format of a file, in one line.
    fractions : ndarray of float64 or None
        Fractions of seconds beyond `times`, in [0, 1); None if all times are whole seconds.
    rows : ndarray of int64 or None
        Place of each interaction in its source, which orders equal times; None if they are in that order.
    draws_by_name : bool
        Whether random splits draw by the names of users and items, so that other names in the data change nothing;
        otherwise they draw by number.
    """

    name: str
    users: I64
    items: I64
    n_users: int
    n_items: int
    ratings: F32 | None = None
    times: I64 | None = None
    coordinates: F64 | None = None
    user_names: tuple[str, ...] | None = None
    item_names: tuple[str, ...] | None = None
    item_texts: tuple[str, ...] | None = None
    source_summary: str = ""
    fractions: F64 | None = None
    rows: I64 | None = None
    draws_by_name: bool = False


@dataclass(frozen=True)
class CheckIns:
    """The places of items, and the moves of users between them, which check-in data have in addition.

    Attributes
    ----------
    coordinates : ndarray of float64, shape (n_items, 2)
        Latitude and longitude in degrees.
    train : Transitions
        Moves to a training item of the user (from another one, or from -1), in order of time; at least one
        for each training item.
    test : Transitions
        One for each test item, in the order of ``Split.test``; `previous` is a training item or -1.
    """

    coordinates: F64
    train: Transitions
    test: Transitions


@dataclass(frozen=True)
class Split:
    """Training, validation and test items of every user.

    Attributes
    ----------
    name : str
    n_users, n_items : int
    train, validation, test : Ragged of int32, one row per user
        Sets of items, ascending; disjoint within a user.
    check_ins : CheckIns or None
        None for data without places and times.
    sequences : Ragged of int32, one row per user, or None
        The items of all parts in order of time, each once, unknown times first; None for data without times.
    user_names, item_names, item_texts : tuple of str or None
        As in :class:`Interactions`, like `source_summary`.
    user_features, item_features : FeatureTable or None
        Attributes, a row per user or item, if the run needs them.
    """

    name: str
    n_users: int
    n_items: int
    train: Ragged
    validation: Ragged
    test: Ragged
    check_ins: CheckIns | None = None
    sequences: Ragged | None = None
    user_names: tuple[str, ...] | None = None
    item_names: tuple[str, ...] | None = None
    item_texts: tuple[str, ...] | None = None
    source_summary: str = ""
    user_features: FeatureTable | None = None
    item_features: FeatureTable | None = None

    def training_data(self, *, for_feed: bool = False) -> TrainingData:
        """Return the part of the data that models may see; no array of it is a view of another part.

        Parameters
        ----------
        for_feed : bool
            Whether the attributes of users are included: they are data of the nodes, like the items. Otherwise their
            columns have no rows.
        """
        attributes = self.user_features
        if attributes is not None:
            rows = np.arange(self.n_users if for_feed else 0)
            attributes = attributes.take(rows)
        visits, found = None, self.check_ins
        if found is not None:
            visits = Visits(_owner(found.coordinates), _owning_moves(found.train))
        return TrainingData(
            self.name,
            self.n_users,
            self.n_items,
            _owning(self.train),
            visits,
            self.sequences and self._in_order(self.sequences),
            self.user_names,
            self.item_names,
            self.item_texts,
            attributes,
            self.item_features,
        )

    def _in_order(self, sequences: Ragged) -> Ragged:
        """Return the training items of each user in the order of time."""
        held, wanted = (
            rows.row_of_each_value.astype(np.int64) * self.n_items + rows.values
            for rows in (self.train, sequences)
        )
        places = np.minimum(np.searchsorted(held, wanted), max(len(held) - 1, 0))
        kept = held[places] == wanted if len(held) else np.zeros(len(wanted), np.bool_)
        sizes = np.bincount(sequences.row_of_each_value[kept], minlength=len(sequences))
        return Ragged.from_sizes(sizes, sequences.values[kept])

    def with_empty_users(self, count: int) -> Split:
        """Return the data with `count` more users, who have no items, coordinates or attributes."""
        if not count:
            return self
        parts = {name: getattr(self, name) for name in ("train", "validation", "test", "sequences")}
        longer: dict[str, Any] = {
            name: Ragged.from_sizes(np.append(sets.sizes, np.zeros(count, np.int64)), sets.values)
            for name, sets in parts.items()
            if sets is not None
        }
        if self.user_features is not None:
            rows = np.append(np.arange(self.n_users), np.full(count, -1))
            longer["user_features"] = self.user_features.take(rows)
        return replace(self, n_users=self.n_users + count, check_ins=None, **longer)

    def reported_positives(self, n_poisoners: int) -> I64:
        """Return the number of training items that each node reports; poisoners report the mean of the users."""
        return np.append(self.train.sizes, np.full(n_poisoners, self.mean_positives))

    @property
    def mean_positives(self) -> int:
        """The mean number of a user's training items, rounded."""
        return max(1, round(float(self.train.sizes.mean())))

    @property
    def n_interactions(self) -> int:
        """Items of all users in all parts."""
        return sum(len(part.values) for part in (self.train, self.validation, self.test))


def _owning(rows: Ragged) -> Ragged:
    """Return rows with arrays that own their data."""
    return Ragged(_owner(rows.offsets), _owner(rows.values))


def _owning_moves(moves: Transitions) -> Transitions:
    return Transitions(_owning(moves.items), _owner(moves.previous), _owner(moves.gap_minutes))


def _owner(array: A) -> A:
    """Return an array that owns its data: the array itself, or a copy of a view."""
    return array if array.base is None else array.copy()


def display_name(names: Sequence[str] | None, number: int) -> str:
    """Return the name of a user or an item in the data, or its number if they have no names."""
    return repr(names[number]) if names is not None and number < len(names) else str(number)


LENGTH = 16
"""Number of hexadecimal digits."""
IGNORED_FIELDS = ("name", "source_summary")
"""Fields that the hash leaves out: the name of the data, and the format of their file."""
HASHED_IF_GIVEN = ("user_features", "item_features")
"""Fields that the hash leaves out if they are None, so that runs without them keep their hash."""


def data_fingerprint(split: Split) -> str:
    """Return a hash of the parts of a split, the names, the order of times and the coordinates.

    Equal data have equal hashes, on any machine and from any file with the same contents.
    """
    digest = hashlib.sha256()
    for part in _parts(split):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:LENGTH]


def data_identity(split: Split) -> dict[str, Any]:
    """Return the entry of the data in a run's manifest."""
    return {"fingerprint": data_fingerprint(split), "users": split.n_users, "items": split.n_items}


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for field in fields(value):
            part = getattr(value, field.name)
            if field.name not in IGNORED_FIELDS and (part is not None or field.name not in HASHED_IF_GIVEN):
                yield field.name.encode()
                yield from _parts(part)
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, tuple):
        yield "\0".join(value).encode(errors="surrogatepass")
    else:
        yield repr(value).encode()


Column = npt.NDArray[Any]
BITS = 63
"""Bits of a non-negative 64-bit integer."""


def order_by(*columns: Column) -> I64:
    """Return the places of rows ordered by the first column, then the second, and so on; the sort is stable.

    Parameters
    ----------
    columns : ndarray of int or float, shape (n_rows,)
        At least one; none holds NaN.

    Notes
    -----
    Columns of whole numbers and the row's place are packed into one number if they fit: numbers are sorted with
    vector instructions, places are not. A million rows take a fifth to a half of the time of a `lexsort`.
    """
    n_rows = len(columns[0])
    order = np.arange(n_rows)
    for key in reversed(_joined(columns, BITS - n_rows.bit_length()) if n_rows else []):
        key = key[order]
        if (key[1:] < key[:-1]).any():
            order = order[_stable(key)]
    return order


def _joined(columns: Sequence[Column], room: int) -> list[Column]:
    """Return fewer columns with the same order: neighbours of whole numbers are joined if `room` bits hold both."""
    joined: list[Column] = []
    widths: list[int] = []
    for column in columns:
        width = _width(column)
        if joined and widths[-1] + width <= room:
            joined[-1] = _from_zero(joined[-1]) << width | _from_zero(column)
            widths[-1] += width
        else:
            joined.append(column)
            widths.append(width)
    return joined


def _width(column: Column) -> int:
    """Return the number of bits that hold the differences of a column; too many if it is not a signed integer."""
    if not np.issubdtype(column.dtype, np.signedinteger):
        return BITS + 1
    return (int(column.max()) - int(column.min())).bit_length()


def _from_zero(column: Column) -> I64:
    """Return the differences of a column to its smallest number."""
    return column.astype(np.int64) - int(column.min())


def _stable(key: Column) -> I64:
    """Return the places of a column's numbers in ascending order; the sort is stable."""
    bits = len(key).bit_length()
    if _width(key) + bits > BITS:
        return np.argsort(key, kind="stable")
    packed = _from_zero(key) << bits | np.arange(len(key))
    packed.sort()
    return packed & ((1 << bits) - 1)


Rows = I64 | Bools
COLUMNS = ("users", "items", "ratings", "times", "fractions", "rows")
"""Fields of interactions with one entry per row."""


def first_interactions(interactions: Interactions) -> Interactions:
    """Keep the earliest interaction of each (user, item) pair, sorted by user and item.

    The earliest, because a recommender of new items is judged by the first contact of a user with an item. Without
    times, or at equal times, the row that comes first in the data is kept. `rows` holds its place there.
    """
    users, items = interactions.users, interactions.items
    same_user = users[1:] == users[:-1]
    if ((users[1:] > users[:-1]) | (same_user & (items[1:] > items[:-1]))).all():
        return interactions
    order = order_by(users, items)
    fresh = _fresh(users[order], items[order])
    if not fresh.all():
        order = order_by(users, items, *time_columns(interactions))
    return select_interactions(replace(interactions, rows=source_rows(interactions)), order[fresh])


def select_interactions(interactions: Interactions, rows: Rows) -> Interactions:
    """Return some of the rows, given by their places or a mask, in that order."""
    columns = {name: getattr(interactions, name) for name in COLUMNS}
    return replace(
        interactions, **{name: column[rows] for name, column in columns.items() if column is not None}
    )


def source_rows(interactions: Interactions) -> I64:
    """Return the place of each interaction in its source."""
    return np.arange(len(interactions.users)) if interactions.rows is None else interactions.rows


def time_columns(interactions: Interactions) -> tuple[npt.NDArray[np.generic], ...]:
    """Return the columns that order interactions by time, coarsest first; empty without times."""
    columns = (interactions.times, interactions.fractions)
    return tuple(column for column in columns if column is not None)


def time_positions(pairs: Interactions) -> npt.NDArray[np.generic] | None:
    """Return a position of each pair by its exact time; None without times.

    Notes
    -----
    :func:`order_pairs` puts the pair that comes first in the source first on ties.
    """
    if pairs.fractions is None:
        return pairs.times
    order = order_by(*time_columns(pairs), source_rows(pairs))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return positions


def last_positions(pairs: Interactions, seed: int) -> npt.NDArray[np.generic]:
    """Return a position of each pair by its exact time or, without times, by a random order drawn from the seed."""
    by_time = time_positions(pairs)
    return random_positions(pairs, seed) if by_time is None else by_time


def _fresh(users: I64, items: I64) -> Bools:
    """Return which rows, sorted by user and item, are the first of their pair."""
    fresh = np.ones(len(users), bool)
    fresh[1:] = (np.diff(users) != 0) | (np.diff(items) != 0)
    return fresh


def count_items_per_user(interactions: Interactions) -> I64:
    """Return the number of rows of each user, shape (n_users,)."""
    return np.bincount(interactions.users, minlength=interactions.n_users).astype(np.int64)


def order_pairs(pairs: Interactions, position: npt.NDArray[np.generic]) -> I64:
    """Return the places of pairs by user, then position; ties are in the order of the source."""
    order = order_by(pairs.users, position)
    if pairs.rows is None:
        return order
    users, sorted_position = pairs.users[order], position[order]
    tied = (users[1:] == users[:-1]) & (sorted_position[1:] == sorted_position[:-1])
    return order_by(pairs.users, position, pairs.rows) if tied.any() else order


def random_positions(pairs: Interactions, seed: int) -> F64:
    """Return a random position of each pair, which depends only on the seed, the user and the item."""
    purpose = purpose_id("data.split")
    if not pairs.draws_by_name:
        return uniforms(seed, pairs.items, pairs.users, purpose)
    users, items = (
        np.array([crc32(name.encode()) for name in names or ()])
        for names in (pairs.user_names, pairs.item_names)
    )
    return uniforms(seed, items[pairs.items], users[pairs.users], purpose)


def split_by_position(
    pairs: Interactions, position: npt.NDArray[np.generic], *, n_test: I64, n_validation: I64
) -> Split:
    """Assign each user's last items to test, those before to validation, the rest to training.

    Parameters
    ----------
    pairs : Interactions
        Each (user, item) pair once: see :func:`first_interactions`.
    position : ndarray, shape (n_pairs,)
        Position of a pair among the pairs of its user; ties are in the order of the source.
    n_test, n_validation : ndarray of int, shape (n_users,)

    Raises
    ------
    DataError
        If a user would have no training item.
    """
    counts = count_items_per_user(pairs)
    _require(pairs, counts, n_test + n_validation + 1)
    order = order_pairs(pairs, position)
    users, items = pairs.users[order], pairs.items[order]
    from_end = np.cumsum(counts)[users] - 1 - np.arange(len(users))
    is_test = from_end < n_test[users]
    is_validation = ~is_test & (from_end < (n_test + n_validation)[users])

    def sets(rows: Bools) -> Ragged:
        return Ragged.sets_from_pairs(users[rows], items[rows], pairs.n_users)

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
        name = display_name(pairs.user_names, user)
        raise DataError(
            f"{pairs.name}: user {name} has {counts[user]} items, but the split needs {needed[user]} of this user "
            f"(in all, {int(short.sum())} users have fewer than the split needs of them); lower test or validation, or "
            "remove such users"
        )


def extract_sequences(data: Interactions, split: Split) -> Ragged | None:
    """Return each user's items of all parts by first interaction, or None if the data have no times.

    Unknown times (-1) come first, and ties are in the order of the file, as in the splits by time.
    """
    pairs = first_interactions(data)
    position = time_positions(pairs)
    if position is None:
        return None
    order = order_pairs(pairs, position)
    users, items = pairs.users[order], pairs.items[order]
    if split.n_interactions < len(pairs.users):  # the split leaves some out
        kept = np.isin(users * data.n_items + items, _placed(split), assume_unique=True)
        users, items = users[kept], items[kept]
    return Ragged.from_pairs(users, items.astype(np.int32), split.n_users)


def _placed(split: Split) -> I64:
    """Return the pairs of all parts, one number each."""
    parts = (split.train, split.validation, split.test)
    return np.concatenate([part.row_of_each_value * split.n_items + part.values for part in parts])
