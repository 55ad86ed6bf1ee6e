"""Reconstruction: the items of a user, from one update or from several.

An update moves the rows of the items on which a client has trained. If a client uploads changed rows only, those are
its items and its sampled negatives, exactly. The direction separates the two: one gradient pulls the user's items to
one side and pushes negatives to the other (:mod:`gossiprec.adversaries.attacks.observed_models`).

References
----------
El Mrini, Cyffers and Bellet, "Privacy attacks in decentralized learning", ICML 2024 (arXiv 2402.10001).

Notes
-----
The paper writes all that an attacker receives as linear equations in the gradients of all nodes, and solves them. It
needs the mixing weights and the times of all exchanges, which are public in its synchronous gossip. Nodes here wake at
random times and merge what an attacker does not see, so the equations are not known. Between peers the attack uses the
difference of two successive models of the same sender instead, and the mean over all such pairs with ``over: all``:
what was merged in between is noise. The paper then inverts gradients; of item rows this is the sign above, in closed
form. How many items a user has is not known: a border between two groups of amounts is chosen that makes their means
differ most (Otsu, "A threshold selection method from gray-level histograms", 1979), at 0 or above.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import (
    ATTACKS,
    ITEM_MEASURES,
    MOVE_MEASURES,
    RECONSTRUCTION_MEASURES,
    AttackContext,
    AttackMemoryInputs,
    ItemScores,
    ItemSets,
)
from gossiprec.adversaries.attacks.observed_models import Kind, WatcherOptions, WatchingAttack
from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST
from gossiprec.base.registry import registry_name
from gossiprec.models.prme_g import PRMEG

PARTNERS = 12
"""Largest number of partners of an item."""
MOST_ITEMS = 400
"""Largest number of items between which moves are looked for: those that moved furthest."""


def split_amounts(amounts: F64) -> float:
    """Return the border, at least 0, between two groups of ascending amounts of which the means differ most (Otsu)."""
    if len(amounts) < 2:
        return 0.0
    low = np.arange(1, len(amounts))
    sums = np.cumsum(amounts)
    apart = sums[:-1] / low - (sums[-1] - sums[:-1]) / (len(amounts) - low)
    at = int(np.argmax(apart**2 * low * (len(amounts) - low)))
    return max(0.0, float(amounts[at] + amounts[at + 1]) / 2)


class MovedItems(NamedTuple):
    """The items that an update moved furthest, their rows before it, and how it moved them."""

    items: I32
    rows: F32
    changes: F32

    @classmethod
    def of(cls, rows: F32, changes: F32) -> MovedItems:
        """Return them, given the rows of all items in the space of sequences, shape (n_items, dim)."""
        lengths = np.square(changes).sum(axis=1)
        moved = np.flatnonzero(lengths)
        if len(moved) > MOST_ITEMS:
            moved = np.sort(moved[np.argsort(-lengths[moved], kind="stable")[:MOST_ITEMS]])
        return cls(moved.astype(np.int32), rows[moved], changes[moved])


def estimate_moves(moved: MovedItems) -> tuple[I32, I32]:
    """Return the item before and the item after each move that an update probably learned."""
    if len(moved.items) < 2:
        return moved.items[:0], moved.items[:0]
    pulls = _pulls(moved.rows.astype(np.float64), moved.changes.astype(np.float64))
    one, other = np.triu_indices(len(moved.items), 1)
    strengths = np.maximum(pulls[one, other], 0.0)
    chosen = strengths > split_amounts(np.sort(strengths[strengths > 0]))
    one, other = one[chosen], other[chosen]
    height = _heights(pulls, one, other)
    forward = height[one] > height[other]
    ends = np.where(forward, one, other), np.where(forward, other, one)
    return moved.items[ends[0]], moved.items[ends[1]]


def _pulls(rows: F64, changes: F64) -> F64:
    """Return how far each pair of items was pulled together, below 0 if it was pushed apart; symmetric."""
    from sklearn.linear_model import orthogonal_mp

    n, dim = rows.shape
    found = np.zeros((n, n))
    for place in range(n):
        partners = np.vstack([rows - rows[place], rows[place]])
        norms = np.linalg.norm(partners, axis=1)
        norms[norms == 0] = np.inf
        with warnings.catch_warnings():  # partners of which the rows depend on one another end the pursuit
            warnings.simplefilter("ignore")
            weights = orthogonal_mp(
                (partners / norms[:, None]).T, changes[place], n_nonzero_coefs=min(PARTNERS, n, dim)
            )
        found[place] = (weights / norms)[:n]
    np.fill_diagonal(found, 0.0)
    return np.asarray((found + found.T) / 2)


def _heights(pulls: F64, one: I64, other: I64) -> F64:
    """Return a number per item; moves go from the higher to the lower end of a pull."""
    joined = np.zeros(pulls.shape)
    joined[one, other] = joined[other, one] = pulls[one, other]
    left_more_than_reached = 2 * np.maximum(-pulls, 0.0).sum(axis=1) - joined.sum(axis=1)
    links = joined > 0
    return np.asarray(
        np.linalg.pinv(np.diag(links.sum(axis=1)) - links.astype(float)) @ left_more_than_reached
    )


class ReconstructionOptions(WatcherOptions):
    """Options of the attack."""

    item_scores: bool = True
    """whether all items are also scored by how far they moved, without a border; it takes 30 bytes for each user and
    item at a report"""
    precision_at: int = Field(default=20, ge=1, le=LARGEST)
    """with item_scores: length of a victim's list of likeliest items, of which the precision is measured"""
    moves: bool = False
    """whether moves between places are reconstructed from the latest update, too (prme-g)"""


def likely_items(amounts: F32) -> I32:
    """Return the items that a user probably has, ascending.

    Parameters
    ----------
    amounts : ndarray of float32, shape (n_items,)
        How far and to which side each item moved; 0 if it did not move.
    """
    moved = np.flatnonzero(amounts)
    border = split_amounts(np.sort(amounts[moved].astype(np.float64)))
    return moved[amounts[moved] > border].astype(np.int32)


@ATTACKS.register("reconstruction")
class Reconstruction(WatchingAttack):
    """Reconstruction of users' items from the updates that are received from them."""

    Options = ReconstructionOptions
    name = "reconstruction"
    measures: tuple[str, ...] = (*RECONSTRUCTION_MEASURES, *ITEM_MEASURES)
    options: ReconstructionOptions

    def __init__(self, options: ReconstructionOptions, context: AttackContext) -> None:
        super().__init__(options, context)
        if not options.item_scores:
            self.measures = RECONSTRUCTION_MEASURES
        self._moved: dict[tuple[int, int], MovedItems] = {}
        if options.moves:
            model = context.scorer.model
            if options.who != "coordinator":
                raise ScenarioError(
                    f"observers: reconstruction: moves: found who: {options.who}; expected coordinator, because nodes "
                    "of gossip do not know the version before an update; set moves to false"
                )
            if not isinstance(model, PRMEG):
                raise ScenarioError(
                    f"observers: reconstruction: moves: found the model {registry_name(model)}, which learns no moves; "
                    "set moves to false, or choose prme-g"
                )
            self.measures = (*self.measures, *MOVE_MEASURES)
            self._observed.on_change = self._note_moves
        self._labels = {"observer": self._watchers.label, "over": options.over}

    @classmethod
    def expected_bytes(cls, options: ReconstructionOptions, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the bytes that are kept, from the sizes of a run."""
        width = prospect.layout.item_width * min(prospect.layout.n_items, MOST_ITEMS)
        return super().expected_bytes(options, prospect) + 4.0 * options.moves * prospect.n_users * width

    @classmethod
    def kinds_of(cls, options: ReconstructionOptions) -> tuple[Kind]:
        """Return the only kind that is kept of each sender: how far its updates moved each item."""
        return ("updates",)

    def _heard(self) -> tuple[I64, F32, I64]:
        """Return victims, how far each item of each moved, and the observer of each."""
        heard = [self._observed.heard("updates", group) for group in range(len(self._watchers.members))]
        amounts = [self._observed.features("updates", group)[users] for group, users in enumerate(heard)]
        owners = [
            np.full(len(users), own[0]) for own, users in zip(self._watchers.members, heard, strict=True)
        ]
        return np.concatenate(heard), np.concatenate(amounts), np.concatenate(owners)

    def _note_moves(self, group: int, sender: int, base: F32, changes: F32) -> None:
        """Keep what an update moved; the second half of an item's row is in the space of sequences."""
        half = base.shape[1] // 2
        self._moved[group, sender] = MovedItems.of(base[:, half:], changes[:, half:])

    def _move_sets(self) -> ItemSets:
        own = self._watchers.members
        keys = [key for key in sorted(self._moved) if key[1] not in own[key[0]]]
        moves = [estimate_moves(self._moved[key]) for key in keys]
        none = np.zeros(0, np.int32)
        previous, items = (np.concatenate([none, *(each[k] for each in moves)]) for k in (0, 1))
        offsets = np.cumsum([0, *(len(each[0]) for each in moves)])
        victims = np.array([victim for _, victim in keys], np.int64)
        return ItemSets(victims, offsets, items, self._labels, previous)

    def state(self, now: float) -> dict[str, Any]:
        """Return the kept numbers, and what updates moved."""
        moved = [[group, sender, list(kept)] for (group, sender), kept in sorted(self._moved.items())]
        return {**super().state(now), "moved": moved}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        super().restore(state)
        self._moved = {(group, sender): MovedItems(*kept) for group, sender, kept in state["moved"]}

    @property
    def state_bytes(self) -> int:
        """Bytes of what is kept."""
        return super().state_bytes + sum(part.nbytes for kept in self._moved.values() for part in kept)

    def item_sets(self) -> Iterator[ItemSets]:
        """Yield the items that each victim probably has, and its moves."""
        victims, amounts, _ = self._heard()
        sets = [likely_items(each) for each in amounts]
        items = np.concatenate([np.zeros(0, np.int32), *sets])
        sizes = np.array([len(each) for each in sets], np.int64)
        yield ItemSets(victims, np.concatenate([[0], np.cumsum(sizes)]), items, self._labels)
        if self.options.moves:
            yield self._move_sets()

    def item_scores(self) -> Iterator[ItemScores]:
        """Yield how far each item of each victim moved to the side of a user's items."""
        if not self.options.item_scores:
            return
        victims, amounts, owners = self._heard()
        n_items = amounts.shape[1]
        items = np.tile(np.arange(n_items, dtype=np.int32), len(victims))
        adversaries = np.repeat(owners, n_items) if self.options.who == "single" else None
        pairs = (np.repeat(victims, n_items), items, amounts.ravel())
        yield ItemScores(*pairs, self._labels, self.options.precision_at, adversaries)
