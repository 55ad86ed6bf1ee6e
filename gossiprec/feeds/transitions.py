"""Check-in transitions: where users went, and where they came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64
from gossiprec.data.split import Split, TrainingData, Transitions, Visits
from gossiprec.feeds.base import Columns, Feed, draw_negatives, select_sets
from gossiprec.ragged import Ragged


def drop_stale_previous(transitions: Transitions, minutes: float) -> I32:
    """Return where users came from, -1 where that is not known or took longer than `minutes`."""
    known = (transitions.previous >= 0) & (transitions.gap_minutes <= minutes)
    return np.where(known, transitions.previous, -1).astype(np.int32)


class TransitionFeed(Feed):
    """Samples are ``items`` moved to, each beside one of its ``negatives`` and the item visited before, ``previous``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    moves : Ragged of int32
        Where each node moved to.
    previous : ndarray of int32, one for each move
        Where from; -1: not known, or too long ago.
    minutes : float
        Longest time since the visit before for which it counts.
    """

    item_columns = ("items", "negatives", "previous")
    context_columns = ("previous",)

    def __init__(
        self, positives: Ragged, n_items: int, moves: Ragged, previous: I32, minutes: float = np.inf
    ) -> None:
        super().__init__(positives, n_items)
        self.moves = moves
        self.previous = previous
        self.minutes = minutes

    @classmethod
    def within(cls, split: TrainingData, check_ins: Visits, minutes: float) -> TransitionFeed:
        """Return the feed of check-ins in which a visit counts for so many minutes as the one before."""
        moves = check_ins.train
        return cls(split.train, split.n_items, moves.items, drop_stale_previous(moves, minutes), minutes)

    def n_samples(self, negatives: int) -> I64:
        """Return the samples of one pass over each node's data."""
        return self.moves.sizes * negatives

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each transition as often as it has negatives, one after the other."""
        items, previous = (column.repeat(negatives) for column in self.targets(node).values())
        n_moves = int(self.moves.sizes[node])
        drawn = draw_negatives(self, node, n_moves, update=update, negatives=negatives, seed=seed)
        return {"items": items, "negatives": drawn.ravel().astype(np.int32), "previous": previous}

    def only(self, nodes: I64) -> TransitionFeed:
        """Return the data of some nodes, under their numbers; those of all others are empty."""
        kept = np.isin(np.arange(len(self.moves)), nodes)
        previous = self.previous[kept[self.moves.owners]]
        positives, moves = select_sets(self.positives, nodes), select_sets(self.moves, nodes)
        return TransitionFeed(positives, self.n_items, moves, previous, self.minutes)

    def of_one(self, node: int) -> TransitionFeed:
        """Return the data of one node, as those of node 0."""
        own = self.targets(node)
        return self._single(self.positives[node], own["items"], own["previous"])

    def of_items(self, items: npt.NDArray[np.integer]) -> TransitionFeed:
        """Return what a single node that has visited some items, from nowhere known, would learn from."""
        kept = np.sort(items).astype(np.int32)
        return self._single(kept, kept, np.full(len(kept), -1, np.int32))

    def _single(self, positives: I32, items: I32, previous: I32) -> TransitionFeed:
        one, moves = Ragged.from_parts([positives]), Ragged.from_parts([items])
        return TransitionFeed(one, self.n_items, moves, previous, self.minutes)

    def targets(self, node: int) -> Columns:
        """Return a node's transitions: items may occur again."""
        return {"items": self.moves[node], "previous": self.moves.with_values(self.previous)[node]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return other items, each moved to from where one of the node's transitions, drawn at random, began."""
        begun = self.targets(node)["previous"]
        if not len(begun):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": begun[draw.integers(len(begun), size=len(items))]}

    def before_tests(self, split: Split) -> Columns:
        """Return where the user came from before each test item, if within the window."""
        assert split.check_ins is not None  # the model was fitted to these data
        return {"previous": drop_stale_previous(split.check_ins.test, self.minutes)}

    def before_next(self, split: Split) -> Columns:
        """Return each user's last training visit: a list answers "where to next?" there."""
        assert split.check_ins is not None  # the model was fitted to these data
        moves = split.check_ins.train.items
        last = moves.values[np.maximum(moves.offsets[1:] - 1, 0)]
        return {"previous": np.where(moves.sizes > 0, last, -1).astype(np.int32)}
