"""What an adversary scores: its own items or moves, and others to compare with."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.attacks.base import F32, I64, World
from gossiprec.compute.executors.base import I32
from gossiprec.errors import ScenarioError
from gossiprec.ragged import Ragged
from gossiprec.rng import generator


@dataclass(frozen=True)
class Kept:
    """Rows of items that an adversary needs of a victim, and what it asks in terms of them.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_adversaries + 1,)
    items : ndarray of int32, shape (offsets[-1],)
        Adversary a keeps the rows of ``items[offsets[a]:offsets[a + 1]]``.
    asked, contexts : ndarray of int32, shape (n_asked,)
        The targets' items and contexts, as places among the kept ones of their adversary; a context of -1: not known.
    """

    offsets: I64
    items: I32
    asked: I32
    contexts: I32


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
    contexts : ndarray of int32, shape (offsets[-1],), or None
        For models of moves: where each item is moved to from; -1: not known. Targets are then moves, in which items
        may occur again.
    """

    adversaries: I64
    offsets: I64
    items: I32
    n_targets: I64
    n_items: int
    contexts: I32 | None = None

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

    @functools.cached_property
    def kept(self) -> Kept:
        """What to keep of a model: the items asked about; and of moves, each once, also where they came from."""
        sizes = np.diff(self.offsets)
        if self.contexts is None:
            local = np.arange(len(self.items)) - np.repeat(self.offsets[:-1], sizes)
            return Kept(self.offsets, self.items, local.astype(np.int32), np.full(len(local), -1, np.int32))
        parts, asked, contexts = [], [], []
        for low, high in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            both = np.concatenate([self.items[low:high], self.contexts[low:high]])
            part, places = np.unique(both, return_inverse=True)
            unknown = int(len(part) > 0 and part[0] < 0)
            parts.append(part[unknown:])
            asked.append(places[: high - low] - unknown)
            contexts.append(places[high - low :] - unknown)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        items, to, come_from = (np.concatenate(some).astype(np.int32) for some in (parts, asked, contexts))
        return Kept(offsets, items, to, come_from)

    def weights(self, places: F32, alpha: float) -> F32:
        """Return the weights of the two distances in PRME-G's D for all that is asked, shape (offsets[-1], 2)."""
        from gossiprec.models.places import distances_km

        assert self.contexts is not None
        known = self.contexts >= 0
        weights = np.zeros((len(self.items), 2), np.float32)
        weights[:, 0] = 1.0
        km = distances_km(places[self.items[known]], places[self.contexts[known]])
        travel = np.sqrt(np.sqrt(np.float32(1.0) + km))
        weights[known, 0] = travel * np.float32(alpha)
        weights[known, 1] = travel * (np.float32(1.0) - np.float32(alpha))
        return weights

    @classmethod
    def of(
        cls, sets: Ragged, adversaries: I64, *, n_references: int | Literal["all"], world: World
    ) -> TargetItems:
        """Collect the targets of some adversaries and draw their references, fixed for the run.

        Where users move, targets are their moves, and each reference is moved to from where one of them, drawn at
        random, began.

        Raises
        ------
        ScenarioError
            If a user leaves too few items to draw from.
        """
        n_items = world.executor.work.layout.n_items
        moves, parts, come_from = world.moves, [], []
        for user in adversaries.tolist():
            draw = generator(world.seed, "reference-items", user)
            references = _references(sets[user], user, n_items, n_references, draw)
            if moves is None:
                parts += [sets[user], references]
                continue
            own = slice(moves.offsets[user], moves.offsets[user + 1])
            begun = moves.previous[own]
            drawn = draw.integers(len(begun), size=len(references)) if len(begun) else np.zeros(0, np.int64)
            parts += [moves.items[own], references]
            come_from += [begun, begun[drawn] if len(begun) else np.full(len(references), -1, np.int32)]
        n_targets = np.array([len(part) for part in parts[::2]], np.int64)
        n_asked = n_targets + np.array([len(part) for part in parts[1::2]])
        return cls(
            np.asarray(adversaries, np.int64),
            np.concatenate([[0], np.cumsum(n_asked)]).astype(np.int64),
            np.concatenate(parts).astype(np.int32),
            n_targets,
            n_items,
            None if moves is None else np.concatenate(come_from).astype(np.int32),
        )


def _references(
    own: I32, user: int, n_items: int, n_references: int | Literal["all"], draw: np.random.Generator
) -> npt.NDArray[np.integer]:
    others = np.setdiff1d(np.arange(n_items, dtype=np.int32), own, assume_unique=True)
    if n_references == "all":
        return others
    if len(others) < n_references:
        raise ScenarioError(
            f"observers: reference_items is {n_references}, but user {user} has only {len(others)} items "
            "outside its own; lower reference_items"
        )
    return draw.choice(others, n_references, replace=False)
