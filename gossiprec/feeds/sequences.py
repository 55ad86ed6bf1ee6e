"""Sequences: what users have taken, in the order of time, each beside what came before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64, Bools
from gossiprec.data.split import Split, TrainingData
from gossiprec.errors import DataError
from gossiprec.feeds.base import Columns, positives_bitset, select_sets
from gossiprec.feeds.lists import ListFeed, pad_row, stack_padded
from gossiprec.ragged import Ragged

F = TypeVar("F", bound="SequenceFeed")


class SequenceFeed(ListFeed):
    """A sample is a user's sequence: at each place the item taken, ``items``, and the one before, ``previous``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    sequences : Ragged of int32
        Training items of each node, in the order of time.
    max_length : int
        Only so many places, the latest, are looked at.
    """

    item_columns = ("previous", "items", "negatives")
    context_columns = ("previous",)
    fewest = 2
    """Items of a sequence from which something can be learnt."""

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
        """Items of a history that are looked at."""
        return self.max_length

    def n_samples(self, negatives: int) -> I64:
        """Return 1 for each node with a sequence to learn from."""
        return (self.sequences.sizes >= self.fewest).astype(np.int64)

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the item before, and the item that came, at each place but the first of a sequence."""
        latest = self.sequences[node][-self.max_length - 1 :]
        return {"previous": latest[:-1], "items": latest[1:]}

    def only(self, nodes: I64) -> SequenceFeed:
        """Return the data of some nodes, under their numbers; those of all others are empty."""
        return self.alike(select_sets(self.positives, nodes), select_sets(self.sequences, nodes))

    def of_one(self, node: int) -> SequenceFeed:
        """Return the data of one node, as those of node 0."""
        return self.of_items(self.sequences[node])

    def of_items(self, items: npt.NDArray[np.integer]) -> SequenceFeed:
        """Return what a single node would learn from that has taken some items one after the other."""
        sequence = items.astype(np.int32)
        positives, sequences = (Ragged.from_parts([part]) for part in (np.unique(sequence), sequence))
        return self.alike(positives, sequences)

    def alike(self, positives: Ragged, sequences: Ragged) -> SequenceFeed:
        """Return the feed of other sequences that is alike in all else."""
        return type(self)(positives, self.n_items, sequences, self.max_length)

    def history(self, node: int) -> I32:
        """Return a node's latest items, in the order of time."""
        latest: I32 = self.sequences[node][-self.longest_history :]
        return latest

    def targets(self, node: int) -> Columns:
        """Return what a node has taken, each beside the item before."""
        items = self.sequences[node]
        before = np.concatenate([np.full(1, -1, np.int32), items])[: len(items)]
        return {"items": items, "previous": before}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return items that a node has not taken, each beside one before that, drawn from its sequence at random."""
        before = self.targets(node)["previous"]
        if not len(before):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": before[draw.integers(len(before), size=len(items))]}

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's latest items before a part, ``history``, shape (n_users, length); -1 behind them."""
        rows = _parts_of(split, *("train", "validation")[: 2 if before == "test" else 1])
        latest = [pad_row(rows[user][-self.longest_history :]) for user in range(len(rows))]
        return {"history": stack_padded(latest)}


def _parts_of(split: Split | TrainingData, *parts: str) -> Ragged:
    """Return the items of some parts of a split in the order of time."""
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
