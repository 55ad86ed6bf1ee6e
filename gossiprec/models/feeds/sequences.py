"""Feed of sequences: users' items in order of time, each with the item before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split, TrainingData
from gossiprec.models.feeds.base import Columns, positives_bitset, select_sets
from gossiprec.models.feeds.lists import ListFeed, pad_row, stack_padded

F = TypeVar("F", bound="SequenceFeed")


class SequenceFeed(ListFeed):
    """Sequences of users: at each place the item, ``items``, and the item before it, ``previous``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    sequences : Ragged of int32
        Training items of each node, in the order of time.
    max_length : int
        Number of latest places to use.
    """

    item_columns = ("previous", "items", "negatives")
    context_columns = ("previous",)
    fewest = 2
    """Least length of a sequence for learning."""

    def __init__(self, positives: Ragged, n_items: int, sequences: Ragged, max_length: int) -> None:
        super().__init__(positives, n_items)
        self.sequences = sequences
        self.max_length = max_length

    @classmethod
    def within(cls: type[F], split: TrainingData, max_length: int) -> F:
        """Return the feed of a split's training items.

        Raises
        ------
        DataError
            If the data have no times.
        """
        return cls(split.train, split.n_items, _parts_of(split, "train"), max_length)

    @property
    def longest_history(self) -> int:
        """Number of items of a history that are used."""
        return self.max_length

    def n_samples(self, negatives: int) -> I64:
        """Return 1 for each node with a long enough sequence, else 0."""
        return (self.sequences.sizes >= self.fewest).astype(np.int64)

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the item and the item before it at each place of a sequence except the first."""
        latest = self.sequences[node][-self.max_length - 1 :]
        return {"previous": latest[:-1], "items": latest[1:]}

    def only(self, nodes: I64) -> SequenceFeed:
        """Return the data of some nodes, under their numbers; all other nodes have no data."""
        return self.alike(select_sets(self.positives, nodes), select_sets(self.sequences, nodes))

    def of_one(self, node: int) -> SequenceFeed:
        """Return the data of one node, as the data of node 0."""
        return self.of_items(self.sequences[node])

    def of_items(self, items: npt.NDArray[np.integer]) -> SequenceFeed:
        """Return the training data of a single node with these items, in this order."""
        sequence = items.astype(np.int32)
        positives, sequences = (Ragged.from_parts([part]) for part in (np.unique(sequence), sequence))
        return self.alike(positives, sequences)

    def alike(self, positives: Ragged, sequences: Ragged) -> SequenceFeed:
        """Return the feed of other sequences with the same options."""
        return type(self)(positives, self.n_items, sequences, self.max_length)

    def history(self, node: int) -> I32:
        """Return a node's latest items, in the order of time."""
        latest: I32 = self.sequences[node][-self.longest_history :]
        return latest

    def targets(self, node: int) -> Columns:
        """Return the items of a node, each with the item before it."""
        items = self.sequences[node]
        before = np.concatenate([np.full(1, -1, np.int32), items])[: len(items)]
        return {"items": items, "previous": before}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return items that a node has not interacted with, each with a random previous item of its sequence."""
        before = self.targets(node)["previous"]
        if not len(before):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": before[draw.integers(len(before), size=len(items))]}

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's latest items before a part, ``history``, shape (n_users, length), padded with -1."""
        rows = _parts_of(split, *("train", "validation")[: 2 if before == "test" else 1])
        latest = [pad_row(rows[user][-self.longest_history :]) for user in range(len(rows))]
        return {"history": stack_padded(latest)}


def _parts_of(split: Split | TrainingData, *parts: str) -> Ragged:
    """Return the items of some parts of a split in order of time."""
    ordered = split.sequences
    if ordered is None:
        raise DataError(
            f"{split.name}: has no times, so the order of the interactions is unknown; use data with times "
            "(movielens-100k, synthetic-checkins, file with a time column), or a model that learns from sets"
        )
    kept = np.zeros(len(ordered.values), np.bool_)
    for part in parts:
        kept |= _among(ordered, positives_bitset(getattr(split, part), split.n_items))
    return Ragged.from_pairs(ordered.owners[kept], ordered.values[kept], len(ordered))


def _among(sets: Ragged, member: npt.NDArray[np.uint8]) -> Bools:
    """Return which values are in their row's bitset."""
    bits = member[sets.owners, sets.values // 8] >> (sets.values % 8).astype(np.uint8)
    found: Bools = (bits & 1).astype(np.bool_)
    return found
