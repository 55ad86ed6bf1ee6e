"""Interactions and their split by user, the only form in which data enter a run, and the hash that identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged

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
class Transitions:
    """Moves of users from place to place, one user after the other.

    Attributes
    ----------
    items : Ragged of int32, one row per user
        The item moved to.
    previous : ndarray of int32, shape (n_moves,)
        The item visited before, or -1 if it is unknown.
    gap_minutes : ndarray of float32, shape (n_moves,)
        Time since the visit before, in minutes; NaN if `previous` is -1.
    """

    items: Ragged
    previous: I32
    gap_minutes: F32

    def first_users(self, count: int) -> Transitions:
        """Keep the moves of the users with ids below `count`."""
        end = self.items.offsets[count]
        return Transitions(self.items.first(count), self.previous[:end], self.gap_minutes[:end])


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
class Visits:
    """The training part of :class:`CheckIns`."""

    coordinates: F64
    train: Transitions


@dataclass(frozen=True)
class TrainingData:
    """The training part of a split, from which models and recommenders learn.

    Attributes
    ----------
    name : str
    n_users, n_items : int
    train : Ragged of int32, one row per user
        Sets of items, ascending.
    check_ins : Visits or None
        None for data without places and times.
    sequences : Ragged of int32, one row per user, or None
        The training items in the order of time; None for data without times.
    user_names, item_names, item_texts : tuple of str or None
        As in :class:`Interactions`.
    user_features, item_features : FeatureTable or None
        Attributes, if the run needs them; those of users without rows, unless the data are for the nodes' feeds.
    """

    name: str
    n_users: int
    n_items: int
    train: Ragged
    check_ins: Visits | None = None
    sequences: Ragged | None = None
    user_names: tuple[str, ...] | None = None
    item_names: tuple[str, ...] | None = None
    item_texts: tuple[str, ...] | None = None
    user_features: FeatureTable | None = None
    item_features: FeatureTable | None = None


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
