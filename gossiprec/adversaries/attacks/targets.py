"""Target items of an adversary, its own items or moves, and reference items to compare them with."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.models.base.kernel_interface import NO_CONTEXT
from gossiprec.models.feeds.base import Columns, Feed


@dataclass(frozen=True, eq=False)
class KeptItems(Ragged):
    """The items of which each adversary keeps a victim's rows, and its queries as indices into them.

    Attributes
    ----------
    query_rows : ndarray of int32, shape (n_asked,)
        The targets' items, as indices into the kept items of their adversary.
    contexts : mapping of str to ndarray of int32, shape (n_asked,)
        Their contexts, also as indices; -1 if a context is not known.
    """

    query_rows: I32
    contexts: Mapping[str, I32]

    @property
    def items(self) -> I32:
        """The items of all adversaries, back to back."""
        return self.values


@dataclass(frozen=True, eq=False)
class TargetItems(Ragged):
    """Target and reference items of several adversaries: one row each, first its targets, then its references.

    Attributes
    ----------
    adversaries : ndarray of int64, shape (n,)
        Node ids.
    n_targets : ndarray of int64, shape (n,)
    n_items : int
        Number of items in the catalogue.
    contexts : mapping of str to ndarray of int32, shape (offsets[-1],)
        The feed's context columns, -1 if not known. With contexts, an item may occur several times among targets.
    """

    adversaries: I64
    n_targets: I64
    n_items: int
    contexts: Mapping[str, I32] = field(default_factory=dict)

    @property
    def items(self) -> I32:
        """The items of all adversaries, back to back."""
        return self.values

    def targets_and_references(self, a: int) -> tuple[I32, I32]:
        """Return the targets of adversary a, and its references."""
        return self[a][: self.n_targets[a]], self[a][self.n_targets[a] :]

    @functools.cached_property
    def kept_items(self) -> KeptItems:
        """The rows of a model to keep: the items in queries, and each item of their contexts, once."""
        if not self.contexts:
            local = np.arange(len(self.items)) - self.offsets[self.row_of_each_value]
            return KeptItems(self.offsets, self.items, local.astype(np.int32), {})
        parts, numbers = [], []
        for low, high in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            asked = np.stack([self.items[low:high], *(column[low:high] for column in self.contexts.values())])
            part, places = np.unique(asked, return_inverse=True)
            unknown = int(len(part) > 0 and part[0] < 0)
            parts.append(part[unknown:])
            numbers.append(places.reshape(asked.shape) - unknown)
        rows = Ragged.from_parts(parts)
        asked = np.concatenate(numbers, axis=-1).astype(np.int32)
        return KeptItems(
            rows.offsets, rows.values, asked[0], dict(zip(self.contexts, asked[1:], strict=True))
        )

    @property
    def context(self) -> I32:
        """The first context column, for compiled loops, which support one; empty if there is none."""
        return next(iter(self.contexts.values()), NO_CONTEXT)

    @classmethod
    def of(
        cls, feed: Feed, adversaries: I64, *, n_references: int | Literal["all"], seed: int
    ) -> TargetItems:
        """Collect the targets of adversaries from their data in `feed`, and draw their references, fixed for the run.

        Raises
        ------
        ScenarioError
            If a user has too few other items to draw from.
        """
        parts: list[Columns] = []
        for user in adversaries.tolist():
            draw = generator(seed, "reference-items", user)
            others = _references(feed.positives[user], user, feed.n_items, n_references, draw)
            parts += [feed.targets(user), feed.references(user, others, draw)]
        sizes = np.array([len(part["items"]) for part in parts], np.int64).reshape(-1, 2)
        columns = {
            name: np.concatenate([np.zeros(0, np.int32), *(part[name] for part in parts)]).astype(np.int32)
            for name in ("items", *feed.context_columns)
        }
        rows = Ragged.from_sizes(sizes.sum(axis=1), columns.pop("items"))
        return cls(
            rows.offsets, rows.values, adversaries.astype(np.int64), sizes[:, 0], feed.n_items, columns
        )


def _references(
    own: I32, user: int, n_items: int, n_references: int | Literal["all"], draw: np.random.Generator
) -> I32:
    others = np.setdiff1d(np.arange(n_items, dtype=np.int32), own, assume_unique=True)
    if n_references == "all":
        return others
    if len(others) < n_references:
        raise ScenarioError(
            f"observers: reference_items is {n_references}, but user {user} has only {len(others)} items "
            "outside its own; lower reference_items"
        )
    return draw.choice(others, n_references, replace=False)
