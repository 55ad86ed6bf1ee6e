"""Check-in transitions: where users went, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64
from gossiprec.data.split import CheckIns, ItemSets, Split, Transitions
from gossiprec.feeds.base import Columns, Feed, draw_negatives, only_of


@dataclass(frozen=True)
class Moves:
    """Every node's transitions (CSR).

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_nodes + 1,)
    items, previous : ndarray of int32, shape (offsets[-1],)
        Where to, and from where; -1: not known, or too long ago.
    """

    offsets: I64
    items: I32
    previous: I32

    @classmethod
    def within(cls, transitions: Transitions, minutes: float) -> Moves:
        """Return the transitions; one that took longer than `minutes` has no previous item."""
        recent = (transitions.previous >= 0) & (transitions.gap_minutes <= minutes)
        previous = np.where(recent, transitions.previous, -1).astype(np.int32)
        return cls(transitions.offsets, transitions.items, previous)

    def of(self, node: int) -> slice:
        """Return where a node's transitions stand."""
        return slice(self.offsets[node], self.offsets[node + 1])


class TransitionFeed(Feed):
    """Samples are ``items`` moved to, each beside one of its ``negatives`` and the item visited before, ``previous``.

    Parameters
    ----------
    positives : ItemSets
    n_items : int
    moves : Moves
        Of every node.
    minutes : float
        Longest time since the visit before for which it counts.
    """

    item_columns = ("items", "negatives", "previous")
    context_columns = ("previous",)

    def __init__(self, positives: ItemSets, n_items: int, moves: Moves, minutes: float = np.inf) -> None:
        super().__init__(positives, n_items)
        self.moves = moves
        self.minutes = minutes

    @classmethod
    def within(cls, split: Split, check_ins: CheckIns, minutes: float) -> TransitionFeed:
        """Return the feed of check-ins in which a visit counts for so many minutes as the one before."""
        return cls(split.train, split.n_items, Moves.within(check_ins.train, minutes), minutes)

    def n_samples(self, negatives: int) -> I64:
        """Return the samples of one pass over each node's data."""
        return np.diff(self.moves.offsets) * negatives

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each transition as often as it has negatives, one after the other."""
        own = self.moves.of(node)
        items, previous = (part[own].repeat(negatives) for part in (self.moves.items, self.moves.previous))
        n_moves = own.stop - own.start
        drawn = draw_negatives(self, node, n_moves, update=update, negatives=negatives, seed=seed)
        return {"items": items, "negatives": drawn.ravel().astype(np.int32), "previous": previous}

    def only(self, nodes: I64) -> TransitionFeed:
        """Return the data of some nodes, under their numbers; those of all others are empty."""
        sizes = np.diff(self.moves.offsets)
        kept = np.isin(np.arange(len(sizes)), nodes)
        entries = kept.repeat(sizes)
        offsets = np.concatenate([[0], np.cumsum(np.where(kept, sizes, 0))])
        moves = Moves(offsets, self.moves.items[entries], self.moves.previous[entries])
        return TransitionFeed(only_of(self.positives, nodes), self.n_items, moves, self.minutes)

    def of_one(self, node: int) -> TransitionFeed:
        """Return the data of one node, as those of node 0."""
        own = self.moves.of(node)
        return self._single(self.positives[node], self.moves.items[own], self.moves.previous[own])

    def of_items(self, items: npt.NDArray[np.integer]) -> TransitionFeed:
        """Return what a single node that has visited some items, from nowhere known, would learn from."""
        kept = np.sort(items).astype(np.int32)
        return self._single(kept, kept, np.full(len(kept), -1, np.int32))

    def _single(self, positives: I32, items: I32, previous: I32) -> TransitionFeed:
        one = ItemSets(np.array([0, len(positives)], np.int64), positives)
        moves = Moves(np.array([0, len(items)], np.int64), items, previous)
        return TransitionFeed(one, self.n_items, moves, self.minutes)

    def targets(self, node: int) -> Columns:
        """Return a node's transitions: items may occur again."""
        own = self.moves.of(node)
        return {"items": self.moves.items[own], "previous": self.moves.previous[own]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return other items, each moved to from where one of the node's transitions, drawn at random, began."""
        begun = self.moves.previous[self.moves.of(node)]
        if not len(begun):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": begun[draw.integers(len(begun), size=len(items))]}

    def before_tests(self, split: Split) -> Columns:
        """Return where the user came from before each test item, if within the window."""
        assert split.check_ins is not None  # the model was fitted to these data
        return {"previous": Moves.within(split.check_ins.test, self.minutes).previous}

    def before_next(self, split: Split) -> Columns:
        """Return each user's last training visit: a list answers "where to next?" there."""
        assert split.check_ins is not None  # the model was fitted to these data
        items, ends = split.check_ins.train.items, split.check_ins.train.offsets[1:]
        moved = np.diff(split.check_ins.train.offsets) > 0
        return {"previous": np.where(moved, items[np.maximum(ends - 1, 0)], -1).astype(np.int32)}
