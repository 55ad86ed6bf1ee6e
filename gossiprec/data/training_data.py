"""The training part of a split: all that models and recommenders learn from, and the only data that a node may have."""

from __future__ import annotations

from dataclasses import dataclass

from gossiprec.base.arrays import F32, F64, I32
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged


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
class Visits:
    """The places of items, and the moves of users between them, in training."""

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
        Names in the source by id, and title and kinds of each item; None if there are none.
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
