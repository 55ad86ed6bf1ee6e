"""Interactions and their per-user split: the only form in which data enters a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64


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
        Unix seconds, -1 where unknown.
    coordinates : ndarray of float64, shape (n_items, 2), or None
        Latitude and longitude of each item in degrees; with them the data are check-ins.
    """

    name: str
    users: I64
    items: I64
    n_users: int
    n_items: int
    ratings: F32 | None = None
    times: I64 | None = None
    coordinates: F64 | None = None


@dataclass(frozen=True)
class ItemSets:
    """One sorted set of item ids per user, stored back to back (CSR).

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_users + 1,)
    items : ndarray of int32, shape (offsets[-1],)
        Strictly increasing within each user.
    """

    offsets: I64
    items: I32

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, user: int) -> I32:
        return self.items[self.offsets[user] : self.offsets[user + 1]]

    @property
    def sizes(self) -> I64:
        """Number of items of each user, shape (n_users,)."""
        return np.diff(self.offsets)

    @classmethod
    def from_pairs(cls, users: I64, items: I64, n_users: int) -> ItemSets:
        """Collect (user, item) pairs into sets; repeated pairs count once."""
        pairs = np.unique(np.stack([users, items], axis=1), axis=0)
        offsets = np.zeros(n_users + 1, np.int64)
        np.cumsum(np.bincount(pairs[:, 0], minlength=n_users), out=offsets[1:])
        return cls(offsets, pairs[:, 1].astype(np.int32))


@dataclass(frozen=True)
class Transitions:
    """Moves of users from place to place, one user after the other (CSR).

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_users + 1,)
        Moves of user u: ``offsets[u]:offsets[u + 1]``.
    previous : ndarray of int32, shape (offsets[-1],)
        The item visited before; -1: not known.
    items : ndarray of int32, shape (offsets[-1],)
        The item moved to.
    gap_minutes : ndarray of float32, shape (offsets[-1],)
        Time since the visit before; NaN where `previous` is -1.
    """

    offsets: I64
    previous: I32
    items: I32
    gap_minutes: F32

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def first_users(self, count: int) -> Transitions:
        """Keep the moves of the users with ids below `count`."""
        end = self.offsets[count]
        return Transitions(
            self.offsets[: count + 1], self.previous[:end], self.items[:end], self.gap_minutes[:end]
        )


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
class Split:
    """Training, validation and test items of every user; disjoint within a user.

    `check_ins` is None for data without places and times.
    """

    name: str
    n_users: int
    n_items: int
    train: ItemSets
    validation: ItemSets
    test: ItemSets
    check_ins: CheckIns | None = None
