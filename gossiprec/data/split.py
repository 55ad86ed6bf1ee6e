"""Interactions and their per-user split: the only form in which data enters a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F32, F64, I32, I64
from gossiprec.ragged import Ragged

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
        Sizes of the id spaces (an item nobody touched may exist).
    ratings : ndarray of float32 or None
    times : ndarray of int64 or None
        Unix seconds, -1 where unknown; or places in the user's list, where these are all that is known.
    coordinates : ndarray of float64, shape (n_items, 2), or None
        Latitude and longitude of each item in degrees; with them the data are check-ins.
    user_names, item_names : tuple of str or None
        What the source calls them, by id; None: by their numbers.
    item_texts : tuple of str or None
        What items are, by id, in lower case: title and kinds; "" where the source has nothing. None: no texts.
    understood : str
        How a file was understood where that had to be found out, in a line.
    fractions : ndarray of float64 or None
        Parts of a second beyond `times`, 0 or more and below 1; None: whole seconds.
    rows : ndarray of int64 or None
        Place of each interaction in its source, which orders equal times; None: the order in which they stand.
    draws_by_name : bool
        Whether random splits draw by the names of users and items, so that other names in the data change nothing;
        by their numbers otherwise.
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
    understood: str = ""
    fractions: F64 | None = None
    rows: I64 | None = None
    draws_by_name: bool = False


@dataclass(frozen=True)
class Transitions:
    """Moves of users from place to place, one user after the other.

    Attributes
    ----------
    items : Ragged of int32, one row a user
        The item moved to.
    previous : ndarray of int32, shape (n_moves,)
        The item visited before; -1: not known.
    gap_minutes : ndarray of float32, shape (n_moves,)
        Time since the visit before; NaN where `previous` is -1.
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
    """What check-in data know beyond sets of items: where items are, and in which order they were visited.

    Attributes
    ----------
    coordinates : ndarray of float64, shape (n_items, 2)
        Latitude and longitude in degrees.
    train : Transitions
        Moves whose item (and previous item, unless -1) is a training item of the user, in order of time; at least one
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
    """What models and recommenders learn from: a split without validation and test items.

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
        As of :class:`Interactions`.
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


@dataclass(frozen=True)
class Split:
    """Training, validation and test items of every user.

    Attributes
    ----------
    name : str
    n_users, n_items : int
    train, validation, test : Ragged of int32, one row a user
        Sets of items, ascending; disjoint within a user.
    check_ins : CheckIns or None
        None for data without places and times.
    sequences : Ragged of int32, one row a user, or None
        Its items of all parts in the order of time, each once, unknown times first; None for data without times.
    user_names, item_names, item_texts : tuple of str or None
        As of :class:`Interactions`; so is `understood`.
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
    understood: str = ""

    def training_data(self) -> TrainingData:
        """Return the part of the data that models may see; none of its arrays is a view of another part's."""
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
        )

    def _in_order(self, sequences: Ragged) -> Ragged:
        """Return the training items of each user in the order of time."""
        held, asked = (
            rows.owners.astype(np.int64) * self.n_items + rows.values for rows in (self.train, sequences)
        )
        places = np.minimum(np.searchsorted(held, asked), max(len(held) - 1, 0))
        kept = held[places] == asked if len(held) else np.zeros(len(asked), np.bool_)
        sizes = np.bincount(sequences.owners[kept], minlength=len(sequences))
        return Ragged.from_sizes(sizes, sequences.values[kept])

    @property
    def n_interactions(self) -> int:
        """Items of all users in all parts."""
        return sum(len(part.values) for part in (self.train, self.validation, self.test))


def _owning(rows: Ragged) -> Ragged:
    """Return rows of which no array is a view."""
    return Ragged(_owner(rows.offsets), _owner(rows.values))


def _owning_moves(moves: Transitions) -> Transitions:
    return Transitions(_owning(moves.items), _owner(moves.previous), _owner(moves.gap_minutes))


def _owner(array: A) -> A:
    """Return an array that owns its data: itself, or a copy of a view."""
    return array if array.base is None else array.copy()


def display_name(names: Sequence[str] | None, number: int) -> str:
    """Return what the data call a user or an item: by its number where they have no names."""
    return repr(names[number]) if names is not None and number < len(names) else str(number)
