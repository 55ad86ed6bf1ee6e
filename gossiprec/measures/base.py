"""What a measure of recommendations is: a function of where items stand in the lists of the users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossiprec.arrays import F64, I32, I64

NOWHERE = np.iinfo(np.int32).max
"""Rank of an item that a list has not."""
BEHIND = NOWHERE - 1
"""Rank of an item that stands behind all that is looked at."""
NOTHING = -1
"""Rank of a target that a user has already, and item where a list has ended."""


@dataclass(frozen=True)
class RelevantRanks:
    """Where the relevant items of some lists stand.

    Attributes
    ----------
    ranks : ndarray of int32, shape (n_lists, most)
        0-based, ascending; :data:`NOWHERE` where a list has fewer relevant items than another. Each has at least one.
        Of whole lists, ranks behind the longest that any metric looks at are :data:`BEHIND`.
    """

    ranks: I32

    @property
    def n_relevant(self) -> I64:
        """Relevant items of each list, shape (n_lists,)."""
        return self.hits(NOWHERE)

    def hits(self, k: int) -> I64:
        """Return the relevant items among the first `k` of each list, shape (n_lists,)."""
        return np.asarray(np.count_nonzero(self.ranks < k, axis=1), np.int64)


class ValidationRanks(RelevantRanks):
    """The same of validation items: no measure wants them, a metric asks for them in the place of test items."""


@dataclass(frozen=True)
class TargetRanks:
    """Where the target items stand among the items with which a user has not interacted.

    Attributes
    ----------
    ranks : ndarray of int32, shape (n_users, n_targets)
        0-based; :data:`NOTHING` where the user has interacted with the target.
    """

    ranks: I32


@dataclass(frozen=True)
class TopItems:
    """What users are recommended.

    Attributes
    ----------
    items : ndarray of int32, shape (n_users, length)
        Best first; :data:`NOTHING` where a user has no item left to be recommended.
    n_items : int
        Size of the catalogue.
    """

    items: I32
    n_items: int


class Measure(ABC):
    """A measure of recommendations, cut at the length K of a list; registered in ``MEASURES`` under its name.

    Attributes
    ----------
    wants : type
        What it looks at: :class:`RelevantRanks`, :class:`TargetRanks` or :class:`TopItems`.
    sampled : bool
        Whether ``name@K`` ranks each test item among a few sampled items, and ``full_name@K`` all items; else
        ``name@K`` ranks all items.
    """

    wants: ClassVar[type[Any]] = RelevantRanks
    sampled: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def of(seen: Any, k: int) -> F64:
        """Return the values whose mean is the measure, as a rule one for each list; NaN: of nothing, left out.

        Parameters
        ----------
        seen : RelevantRanks, TargetRanks or TopItems
            As wanted.
        k : int
            At least 1.
        """
