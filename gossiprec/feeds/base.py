"""What models learn from: every node's training data, as named columns of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64, U8
from gossiprec.data.split import Split
from gossiprec.numerics.purposes import NEGATIVES
from gossiprec.ragged import Ragged
from gossiprec.rng import philox_words

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays of equal length by name: item ids are int32, labels float32."""


class Feed(ABC):
    """Every node's training data; node n holds user n.

    Parameters
    ----------
    positives : Ragged
        Training items, one set per node.
    n_items : int

    Attributes
    ----------
    member : ndarray of uint8, shape (n_nodes, ceil(n_items / 8))
        Bit ``item % 8`` of byte ``item // 8`` says that the item is a positive.
    """

    item_columns: tuple[str, ...]
    """Columns of a sample that hold items; -1 is none."""

    context_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of a query, besides ``items``, that hold items; -1: not known."""

    def __init__(self, positives: Ragged, n_items: int) -> None:
        self.positives = positives
        self.n_items = n_items
        self.member = membership(positives, n_items)

    @classmethod
    def of(cls, split: Split) -> Feed:
        """Return the feed of a split's training data."""
        return cls(split.train, split.n_items)

    @abstractmethod
    def n_samples(self, negatives: int) -> I64:
        """Return the samples of one pass over each node's data, shape (n_nodes,)."""

    @abstractmethod
    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of a node's local update number `update`: a function of its arguments alone.

        Negatives are uniform over the items that are not training positives of the node.
        """

    def only(self, nodes: I64) -> Feed:
        """Return the data of some nodes, under their numbers; those of all others are empty."""
        return type(self)(only_of(self.positives, nodes), self.n_items)

    def of_one(self, node: int) -> Feed:
        """Return the data of one node, as those of node 0."""
        return type(self)(Ragged.from_parts([self.positives[node]]), self.n_items)

    def of_items(self, items: npt.NDArray[np.integer]) -> Feed:
        """Return what a single node that has taken some items would learn from."""
        return type(self)(Ragged.from_parts([np.sort(items).astype(np.int32)]), self.n_items)

    def targets(self, node: int) -> Columns:
        """Return what a node has taken, as a query: ``items`` and the context columns."""
        return {"items": self.positives[node]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return items that a node has not taken, as a query like that of its targets."""
        return {"items": items}

    def before_tests(self, split: Split) -> Columns:
        """Return the context of every test item, in the order of ``split.test``; empty where there is none."""
        return {}

    def before_next(self, split: Split) -> Columns:
        """Return the context in which each user is recommended a list, (n_users,) each; empty where there is none."""
        return {}


def membership(positives: Ragged, n_items: int) -> U8:
    """Return the bitset of every node's positives, shape (n_nodes, ceil(n_items / 8))."""
    member = np.zeros((len(positives), -(-n_items // 8)), np.uint8)
    bits = np.left_shift(1, positives.values % 8).astype(np.uint8)
    np.bitwise_or.at(member, (positives.owners, positives.values // 8), bits)
    return member


def draw_negatives(feed: Feed, node: int, n_positives: int, *, update: int, negatives: int, seed: int) -> I64:
    """Return items that are not training positives of the node, shape (n_positives, negatives)."""
    blocks = -(-negatives // 4)
    drawn = np.zeros((n_positives, blocks * 4), np.int64)
    wanted = np.zeros(drawn.shape, bool)
    wanted[:, :negatives] = True
    attempt = 0
    index = np.arange(n_positives * blocks)
    while wanted.any():
        words = philox_words(seed, index + attempt * len(index), update, node, NEGATIVES).reshape(drawn.shape)
        items = ((words.astype(np.uint64) * np.uint64(feed.n_items)) >> np.uint64(32)).astype(np.int64)
        drawn[wanted] = items[wanted]
        taken = feed.member[node, drawn // 8] >> (drawn % 8).astype(np.uint8) & 1
        wanted &= taken.astype(bool)
        attempt += 1
    return drawn[:, :negatives]


def only_of(sets: Ragged, nodes: I64) -> Ragged:
    """Return the sets of some nodes under their numbers; all others are empty."""
    kept = np.zeros(len(sets), np.bool_)
    kept[nodes] = True
    if kept.all():
        return sets
    return Ragged.from_sizes(np.where(kept, sets.sizes, 0), sets.values[kept[sets.owners]])
