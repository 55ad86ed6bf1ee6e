"""What an adversary scores: its own items, and items outside them to compare with."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.attacks.base import I64, World
from gossiprec.compute.executors.base import I32
from gossiprec.data.split import ItemSets
from gossiprec.errors import ScenarioError
from gossiprec.rng import generator


@dataclass(frozen=True)
class TargetItems:
    """Target and reference items of several adversaries, back to back.

    Attributes
    ----------
    adversaries : ndarray of int64, shape (n,)
        Node ids.
    offsets : ndarray of int64, shape (n + 1,)
    items : ndarray of int32, shape (offsets[-1],)
        Of adversary a: ``items[offsets[a]:offsets[a + 1]]``, first its targets, then its references.
    n_targets : ndarray of int64, shape (n,)
    n_items : int
        Of the catalogue.
    """

    adversaries: I64
    offsets: I64
    items: I32
    n_targets: I64
    n_items: int

    def __getitem__(self, a: int) -> tuple[I32, I32]:
        kept = self.items[self.offsets[a] : self.offsets[a + 1]]
        return kept[: self.n_targets[a]], kept[self.n_targets[a] :]

    @functools.cached_property
    def by_item(self) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """In which target sets each item occurs: offsets (n_items + 1,), the sets, and whether as a target."""
        sizes = np.diff(self.offsets)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        is_target = np.arange(len(self.items)) - self.offsets[owner] < self.n_targets[owner]
        order = np.argsort(self.items, kind="stable")
        offsets = np.searchsorted(self.items[order], np.arange(self.n_items + 1))
        return offsets, owner[order], is_target[order]

    @classmethod
    def of(
        cls, sets: ItemSets, adversaries: I64, *, n_references: int | Literal["all"], world: World
    ) -> TargetItems:
        """Collect the targets of some adversaries and draw their references, fixed for the run.

        Raises
        ------
        ScenarioError
            If a user leaves too few items to draw from.
        """
        n_items = world.executor.work.layout.n_items
        parts = []
        for user in adversaries:
            others = np.setdiff1d(np.arange(n_items, dtype=np.int32), sets[user], assume_unique=True)
            if n_references == "all":
                parts += [sets[user], others]
                continue
            if len(others) < n_references:
                raise ScenarioError(
                    f"observers: reference_items is {n_references}, but user {user} has only {len(others)} items "
                    "outside its own; lower reference_items"
                )
            draw = generator(world.seed, "reference-items", int(user))
            parts += [sets[user], draw.choice(others, n_references, replace=False)]
        n_targets = np.array([len(part) for part in parts[::2]], np.int64)
        n_kept = n_targets + np.array([len(part) for part in parts[1::2]])
        offsets = np.concatenate([[0], np.cumsum(n_kept)]).astype(np.int64)
        return cls(
            np.asarray(adversaries, np.int64),
            offsets,
            np.concatenate(parts).astype(np.int32),
            n_targets,
            n_items,
        )
