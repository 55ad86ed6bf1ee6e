"""Measures as pure functions on arrays, one idea per file.

Nothing here depends on runs, models or files. Measures of recommendations are registered, one per file, under the
names that scenarios use; ``ranking`` computes the ranks. ``communities`` is the ground truth of the attack,
``attack_accuracy`` its success.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import Registry

NOWHERE = np.iinfo(np.int32).max
"""Rank of an item that is not in a list."""
BEHIND = NOWHERE - 1
"""Rank of an item beyond all ranks that are used."""
NOTHING = -1
"""Rank of a target that a user has already interacted with, and item after the end of a list."""


def _of_nobody() -> I64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class RelevantRanks:
    """The ranks of the relevant items of some lists.

    Attributes
    ----------
    ranks : ndarray of int32, shape (n_lists, most)
        0-based, ascending; :data:`NOWHERE` pads lists with fewer relevant items. Each list has at least one. In
        rankings of all items, ranks beyond the longest cut-off of the metrics are :data:`BEHIND`.
    users : ndarray of int64, shape (n_lists,)
        The user of each list.
    """

    ranks: I32
    users: I64 = field(default_factory=_of_nobody)

    @property
    def n_relevant(self) -> I64:
        """Number of relevant items of each list, shape (n_lists,)."""
        return self.hits(NOWHERE)

    def hits(self, k: int) -> I64:
        """Return the number of relevant items among the first `k` of each list, shape (n_lists,)."""
        return np.asarray(np.count_nonzero(self.ranks < k, axis=1), np.int64)


class ValidationRanks(RelevantRanks):
    """The ranks of validation items, which a metric may use in place of test items."""


@dataclass(frozen=True)
class TargetRanks:
    """The ranks of target items among the items with which a user has not interacted.

    Attributes
    ----------
    ranks : ndarray of int32, shape (n_users, n_targets)
        0-based; :data:`NOTHING` if the user has interacted with the target.
    users : ndarray of int64, shape (n_users,)
    """

    ranks: I32
    users: I64 = field(default_factory=_of_nobody)


@dataclass(frozen=True)
class TopItems:
    """The items recommended to each user.

    Attributes
    ----------
    items : ndarray of int32, shape (n_users, length)
        Best first; :data:`NOTHING` if a user has no item left to be recommended.
    n_items : int
        Size of the catalogue.
    users : ndarray of int64, shape (n_users,)
    """

    items: I32
    n_items: int
    users: I64 = field(default_factory=_of_nobody)


@dataclass(frozen=True)
class MeasureData:
    """The data for which a measure is made.

    Attributes
    ----------
    name : str
    n_users, n_items : int
    train, validation, test : Ragged of int32, one row per user
        Sets of items, ascending.
    user_features, item_features : FeatureTable or None
        Attributes, if a measure needs them.
    """

    name: str
    n_users: int
    n_items: int
    train: Ragged
    validation: Ragged
    test: Ragged
    user_features: FeatureTable | None = None
    item_features: FeatureTable | None = None

    @classmethod
    def of(cls, split: Any) -> MeasureData:
        """Return the data of a split."""
        return cls(**{name: getattr(split, name) for name in cls.__dataclass_fields__})

    @cached_property
    def popularity(self) -> I64:
        """Number of users who have trained on each item, shape (n_items,)."""
        return np.bincount(self.train.values, minlength=self.n_items)


class Measure(ABC):
    """A measure of recommendations, cut at the length K of a list; registered in ``MEASURES`` under its name.

    Parameters
    ----------
    data : MeasureData
        The data of the run. A measure that uses them overrides ``__init__``, which may raise a ``DataError`` if they
        lack something; one that does not may have a static function :meth:`compute_values`.

    Attributes
    ----------
    wants : type
        The input of the measure: :class:`RelevantRanks`, :class:`TargetRanks` or :class:`TopItems`.
    sampled : bool
        Whether ``name@K`` ranks each test item among a few sampled items, and ``full_name@K`` among all items;
        otherwise ``name@K`` ranks all items.
    per_user : bool
        Whether it has one value per list, if its input is not target ranks; these values are kept user by user.
    needs_features : bool
        Whether it uses attributes of users or items.
    lower_is_better : bool
        Whether a lower value is better; :mod:`gossiprec.measures.direction` compares values accordingly.
    """

    wants: ClassVar[type[Any]] = RelevantRanks
    sampled: ClassVar[bool] = False
    per_user: ClassVar[bool] = True
    needs_features: ClassVar[bool] = False
    lower_is_better: ClassVar[bool] = False

    def __init__(self, data: MeasureData) -> None:
        self.data = data

    @abstractmethod
    def compute_values(self, seen: Any, k: int) -> F64:
        """Return the values of which the measure is the mean, usually one per list; NaN values are left out.

        Parameters
        ----------
        seen : RelevantRanks, TargetRanks or TopItems
            An instance of `wants`.
        k : int
            At least 1.
        """


MEASURES: Registry[type[Measure]] = Registry("measure", __name__, group="measures")
