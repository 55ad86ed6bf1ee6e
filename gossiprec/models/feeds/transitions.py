"""Feed of check-in transitions: the places that users moved to, and the places that they came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split, TrainingData, Transitions, Visits
from gossiprec.models.feeds.base import Columns, Feed, draw_negatives, select_sets


def drop_stale_previous(transitions: Transitions, minutes: float) -> I32:
    """Return the previous items of transitions, -1 if unknown or more than `minutes` before."""
    known = (transitions.previous >= 0) & (transitions.gap_minutes <= minutes)
    return np.where(known, transitions.previous, -1).astype(np.int32)


class TransitionFeed(Feed):
    """Samples are ``items`` moved to, each with one of its ``negatives`` and the ``previous`` item.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    moves : Ragged of int32
        The items that each node moved to.
    previous : ndarray of int32, one for each move
        The items that they came from; -1 if unknown or too long ago.
    minutes : float
        Longest time since the previous visit for which it counts.
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
        """Return the feed of check-ins in which a visit counts as the previous one for `minutes`."""
        moves = check_ins.train
        return cls(split.train, split.n_items, moves.items, drop_stale_previous(moves, minutes), minutes)

    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples in one pass over each node's data."""
        return self.moves.sizes * negatives

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each transition once per negative, one after the other."""
        items, previous = (column.repeat(negatives) for column in self.targets(node).values())
        n_moves = int(self.moves.sizes[node])
        drawn = draw_negatives(self, node, n_moves, update=update, negatives=negatives, seed=seed)
        return {"items": items, "negatives": drawn.ravel().astype(np.int32), "previous": previous}

    def only(self, nodes: I64) -> TransitionFeed:
        """Return the data of some nodes, under their numbers; all other nodes have no data."""
        kept = np.isin(np.arange(len(self.moves)), nodes)
        previous = self.previous[kept[self.moves.owners]]
        positives, moves = select_sets(self.positives, nodes), select_sets(self.moves, nodes)
        return TransitionFeed(positives, self.n_items, moves, previous, self.minutes)

    def of_one(self, node: int) -> TransitionFeed:
        """Return the data of one node, as the data of node 0."""
        own = self.targets(node)
        return self._single(self.positives[node], own["items"], own["previous"])

    def of_items(self, items: npt.NDArray[np.integer]) -> TransitionFeed:
        """Return the training data of a single node that visited these items, from unknown places."""
        kept = np.sort(items).astype(np.int32)
        return self._single(kept, kept, np.full(len(kept), -1, np.int32))

    def _single(self, positives: I32, items: I32, previous: I32) -> TransitionFeed:
        one, moves = Ragged.from_parts([positives]), Ragged.from_parts([items])
        return TransitionFeed(one, self.n_items, moves, previous, self.minutes)

    def targets(self, node: int) -> Columns:
        """Return a node's transitions; items may be repeated."""
        return {"items": self.moves[node], "previous": self.moves.with_values(self.previous)[node]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return other items, each with the previous item of a random transition of the node."""
        begun = self.targets(node)["previous"]
        if not len(begun):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": begun[draw.integers(len(begun), size=len(items))]}

    def before_tests(self, split: Split) -> Columns:
        """Return the previous item of each test item, if it is recent enough."""
        assert split.check_ins is not None  # the model was fitted to these data
        return {"previous": drop_stale_previous(split.check_ins.test, self.minutes)}

    def before_next(self, split: Split) -> Columns:
        """Return each user's last training visit, from which the recommended list continues."""
        assert split.check_ins is not None  # the model was fitted to these data
        moves = split.check_ins.train.items
        last = moves.values[np.maximum(moves.offsets[1:] - 1, 0)]
        return {"previous": np.where(moves.sizes > 0, last, -1).astype(np.int32)}
