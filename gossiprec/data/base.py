"""Base classes of data sets and split rules, and the filters that data sets share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable
from gossiprec.base.options import Count, NoOptions
from gossiprec.base.options import Options as OptionSet
from gossiprec.data.split import (
    Interactions,
    Split,
    count_items_per_user,
    first_interactions,
    select_interactions,
)


@dataclass(frozen=True)
class SyntheticSizes:
    """The size of synthetic data, known before they are drawn.

    Attributes
    ----------
    n_users, n_interactions : int
    like : callable
        Function from a number of users to options of a smaller data set in which users have as many items.
    """

    n_users: int
    n_interactions: int
    like: Callable[[int], OptionSet]

    @classmethod
    def of(cls, options: Any, key: str) -> SyntheticSizes:
        """Return the size that options request: `users`, and the interactions under a key."""
        n_users, total = options.users, getattr(options, key)

        def like(users: int) -> OptionSet:
            return options.model_copy(update={"users": users, key: round(users * total / n_users)})

        return cls(n_users, total, like)


class _WithOptions:
    """A registered thing with typed options.

    Parameters
    ----------
    options : Options
        An instance of the class's own `Options`.
    """

    Options: ClassVar[type[OptionSet]] = NoOptions

    def __init__(self, options: Any) -> None:
        self.options = options

    def provenance(self) -> dict[str, str]:
        """Return notes for a reader on the source of the data, or on their division (key ``note``)."""
        return {}


class Dataset(_WithOptions, ABC):
    """A source of interactions. Subclasses register under a name and declare `Options`."""

    @property
    def synthetic_sizes(self) -> SyntheticSizes | None:
        """Size of the data if they are synthetic and their size is known in advance, else None."""
        return None

    @abstractmethod
    def load(self, seed: int) -> Interactions:
        """Read or draw all interactions; `seed` matters to drawn data only.

        Raises
        ------
        DataError
            If the source is missing or damaged.
        """

    def user_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Return the attributes of the users with these names, one row each; None if the source has none.

        They are read if a run needs them.

        Raises
        ------
        DataError
            If the source is damaged.
        """
        return None

    def item_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Return the attributes of the items with these names, as :meth:`user_features` does."""
        return None

    def published_split(self, interactions: Interactions) -> Split | None:
        """Return the split that published work used, or None if there is none.

        Parameters
        ----------
        interactions : Interactions
            The interactions that :meth:`load` returned.
        """
        return None


class SplitRule(_WithOptions, ABC):
    """A way to divide each user's items into training, validation and test."""

    @abstractmethod
    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Divide the interactions.

        Raises
        ------
        DataError
            If a user has too few items for it.
        """


class FilterOptions(OptionSet):
    """Filters of a data set; by default everything is kept."""

    min_rating: float | None = None
    """keep interactions with at least this rating; null: all"""
    min_items: Count = 1
    """remove users with fewer distinct items"""
    min_interactions: Count = 1
    """remove users and items with fewer interactions, repeatedly until none is left"""

    @property
    def all_kept(self) -> bool:
        """Whether nothing is left out."""
        return self.min_rating is None and self.min_items == self.min_interactions == 1


def apply_filters(data: Interactions, options: FilterOptions) -> Interactions:
    """Keep interactions with high ratings, then the users and items with enough of them.

    Users and items without an interaction are removed; the others keep their order, under dense ids.

    Raises
    ------
    DataError
        If there are no ratings to filter by, or nothing is left.
    """
    if options.min_rating is not None:
        data = _rated_at_least(data, options.min_rating)
    if options.min_interactions > 1:
        return _core(data, options.min_interactions, max(options.min_interactions, options.min_items))
    return data if options.min_items == 1 else _with_items(data, options.min_items)


def _rated_at_least(data: Interactions, least: float) -> Interactions:
    if data.ratings is None:
        raise DataError(f"{data.name}: has no ratings; expected data with ratings; remove min_rating")
    high = data.ratings >= least
    if not high.any():
        raise DataError(
            f"{data.name}: no rating is {least:g} or more; expected up to {data.ratings.max():g}, the "
            "highest rating; lower min_rating"
        )
    return _only(data, high)


def _with_items(data: Interactions, least: int) -> Interactions:
    counts = count_items_per_user(first_interactions(data))
    if counts.max() < least:
        raise DataError(
            f"{data.name}: no user has {least} distinct items; expected up to {counts.max()}, the maximum "
            "per user; lower min_items"
        )
    return _only(data, counts[data.users] >= least)


def _core(data: Interactions, of_items: int, of_users: int) -> Interactions:
    """Keep the users with enough different items and the items with enough different users.

    Notes
    -----
    This is the k-core of the graph of users and items. A repeated pair counts once, as everywhere here; RecBole and
    S3-Rec, which count lines, keep the same data if no pair is repeated.
    """
    pairs = first_interactions(data)
    rows = np.ones(len(pairs.users), bool)
    while True:
        users = np.bincount(pairs.users[rows], minlength=data.n_users) >= of_users
        items = np.bincount(pairs.items[rows], minlength=data.n_items) >= of_items
        left = rows & users[pairs.users] & items[pairs.items]
        if left.sum() == rows.sum():
            break
        rows = left
    if not rows.any():
        raise DataError(
            f"{data.name}: nothing is left of users with {of_users} interactions and items with {of_items}, "
            "counted among those that are kept; lower min_interactions"
        )
    return _only(data, users[data.users] & items[data.items])


def _only(data: Interactions, rows: Bools) -> Interactions:
    """Keep some interactions, and the users and items that still have one."""
    known_users, users = np.unique(data.users[rows], return_inverse=True)
    known_items, items = np.unique(data.items[rows], return_inverse=True)
    return replace(
        select_interactions(data, rows),
        users=users,
        items=items,
        n_users=len(known_users),
        n_items=len(known_items),
        coordinates=None if data.coordinates is None else data.coordinates[known_items],
        user_names=_of(data.user_names, known_users),
        item_names=_of(data.item_names, known_items),
        item_texts=_of(data.item_texts, known_items),
    )


def _of(texts: tuple[str, ...] | None, ids: I64) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts[number] for number in ids.tolist())
