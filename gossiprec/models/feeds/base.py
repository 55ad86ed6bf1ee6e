"""Feeds: every node's training data, as named columns of samples; labelled items, and pairs of items.

References
----------
Pairs: Rendle et al., "BPR: Bayesian personalized ranking from implicit feedback", UAI 2009.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64, U8, Bools
from gossiprec.base.ragged import Ragged, row_entries
from gossiprec.base.rng import NEGATIVES, philox_words
from gossiprec.data.training_data import TrainingData

if TYPE_CHECKING:
    from gossiprec.data.split import Split

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
    known : Ragged
        The items that are no negatives of a node: its positives.
    member : ndarray of uint8, shape (n_nodes, width)
        The bits of a node's positives: bit ``item % 8`` of byte ``item // 8``, if bits for all items take no more than
        :data:`MOST_MEMBER_BYTES`; else the width is a power of two, an item has the bit of
        ``item % (8 * width)``, and a set bit says only that the item may be a positive.
    """

    item_columns: tuple[str, ...]
    """Columns of a sample that hold items; -1 means none."""

    context_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of a query, in addition to ``items``, that hold items; -1 means unknown."""

    samples_follow_positives: ClassVar[bool] = False
    """Whether each sample is one of `positives`, with its negatives (:meth:`with_positives`)."""

    def __init__(self, positives: Ragged, n_items: int) -> None:
        self.positives = self.known = positives
        self.n_items = n_items
        self.member = positives_bitset(positives, n_items, member_width(len(positives), n_items))

    @classmethod
    def of(cls, split: TrainingData) -> Feed:
        """Return the feed of a split's training data."""
        return cls(split.train, split.n_items)

    @abstractmethod
    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples in one pass over each node's data, shape (n_nodes,)."""

    @abstractmethod
    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of a node's local update number `update`, a function of the arguments only.

        Negatives are uniform over the items that are not training positives of the node.
        """

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of all nodes' local updates of this number, node by node, with ``user``."""
        each = [
            self.samples(node, update=update, negatives=negatives, seed=seed)
            for node in range(len(self.positives))
        ]
        sizes = [len(next(iter(samples.values()))) for samples in each]
        joined = {name: np.concatenate([samples[name] for samples in each]) for name in each[0]}
        return {"user": np.repeat(np.arange(len(each), dtype=np.int32), sizes), **joined}

    def samples_of_some(self, nodes: I64, updates: I64, *, negatives: int, seed: int) -> list[Columns]:
        """Return the samples of some local updates, one result of :meth:`samples` per update; shapes (n,)."""
        return [
            self.samples(node, update=update, negatives=negatives, seed=seed)
            for node, update in zip(nodes.tolist(), updates.tolist(), strict=True)
        ]

    def restricted_to(self, nodes: I64) -> Feed:
        """Return the data of some nodes, under their numbers; all other nodes have no data."""
        return type(self)(select_sets(self.positives, nodes), self.n_items)

    def with_positives(self, drawn: Ragged) -> Feed:
        """Return a feed that takes samples of `drawn`, which may repeat items; negatives are as before."""
        feed = copy(self)
        feed.positives = drawn
        return feed

    def for_user(self, node: int) -> Feed:
        """Return the data of one node, as the data of node 0."""
        return type(self)(Ragged.from_parts([self.positives[node]]), self.n_items)

    def for_items(self, items: npt.NDArray[np.integer]) -> Feed:
        """Return the training data of a single node with these items."""
        return self.for_sets(Ragged.from_parts([np.sort(items).astype(np.int32)]), self.n_items)

    def for_sets(self, sets: Ragged, n_items: int) -> Feed:
        """Return the training data of nodes with these sets of items, of `n_items` in all."""
        return type(self)(sets, n_items)

    def history(self, node: int) -> I32:
        """Return the training items that determine a node's state, in order of time if it is known."""
        return self.positives[node]

    def targets(self, node: int) -> Columns:
        """Return the training items of a node as a query: ``items`` and the context columns."""
        return {"items": self.positives[node]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return items that a node has not interacted with, as a query like :meth:`targets`."""
        return {"items": items}

    def test_contexts(self, split: Split) -> Columns:
        """Return the context of every test item, in the order of ``split.test``; empty without context columns."""
        return {}

    def next_contexts(self, split: Split) -> Columns:
        """Return each user's context for a recommended list, shape (n_users,) per column; empty without context."""
        return {}

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's history before a part of the split, ``test`` or ``validation``.

        Returns
        -------
        mapping of str to ndarray of int32, shape (n_users, ...)
            Columns of a whole query; empty for models that identify users by rows.
        """
        return {}


FEW = 1024
"""Blocks of words below which the time of a call does not depend on their number."""
MOST_MEMBER_BYTES = 2**31
"""Bytes of bits for each item of all nodes, above which several items share a bit."""
HASHED_WIDTH = 64
"""Bytes of each node's bits then; a power of two."""
TRIES = 4
"""Draws per negative that are then made at once; the first one that is not a positive counts."""


def member_width(n_nodes: int, n_items: int) -> int:
    """Return the bytes of a node's row of ``Feed.member``."""
    exact = -(-n_items // 8)
    return exact if exact * n_nodes <= MOST_MEMBER_BYTES else min(exact, HASHED_WIDTH)


def positives_bitset(positives: Ragged, n_items: int, width: int | None = None) -> U8:
    """Return the bitset of every node's positives, shape (n_nodes, width); by default with a bit for each item."""
    width = -(-n_items // 8) if width is None else width
    member = np.zeros((len(positives), width), np.uint8)
    places = positives.values % (8 * width)
    bits = np.left_shift(1, places % 8).astype(np.uint8)
    np.bitwise_or.at(member, (positives.row_of_each_value, places // 8), bits)
    return member


def _are_positives(feed: Feed, nodes: I64, items: I64) -> Bools:
    """Return whether items are positives of nodes, of the same shape."""
    width = feed.member.shape[1]
    places = items % (8 * width)
    found: Bools = (feed.member[nodes, places // 8] >> (places % 8).astype(np.uint8) & 1).astype(np.bool_)
    if feed.n_items > 8 * width and found.any():
        entries, row = row_entries(feed.known.offsets, nodes[found])
        same = feed.known.values[entries] == items[found][row]
        found[found] = np.bincount(row[same], minlength=np.count_nonzero(found)) > 0
    return found


def draw_negatives(feed: Feed, node: int, n_positives: int, *, update: int, negatives: int, seed: int) -> I64:
    """Return items that are not training positives of the node, shape (n_positives, negatives)."""
    only = np.array([node]), np.array([n_positives])
    return _draw_negatives(feed, *only, update=update, negatives=negatives, seed=seed)


def draw_all_negatives(feed: Feed, *, update: int, negatives: int, seed: int) -> I64:
    """Return the negatives of all nodes' positives, node by node."""
    nodes, sizes = np.arange(len(feed.positives)), feed.positives.sizes
    return _draw_negatives(feed, nodes, sizes, update=update, negatives=negatives, seed=seed)


def draw_negatives_of_nodes(feed: Feed, nodes: I64, updates: I64, *, negatives: int, seed: int) -> I64:
    """Return the negatives of some nodes' positives in a local update of each, node by node."""
    return _draw_negatives(
        feed, nodes, feed.positives.sizes[nodes], update=updates, negatives=negatives, seed=seed
    )


def draw_shared_negatives(feed: Feed, nodes: I64, updates: I64, *, negatives: int, seed: int) -> I64:
    """Return items that are not training positives of some nodes, one row per node and local update."""
    each = np.ones(len(nodes), np.int64)
    return _draw_negatives(feed, nodes, each, update=updates, negatives=negatives, seed=seed)


def _draw_negatives(
    feed: Feed, nodes: I64, n_positives: I64, *, update: int | I64, negatives: int, seed: int
) -> I64:
    """Return items that are not training positives of some nodes; each node's draws are independent of the others."""
    blocks = -(-negatives // 4)
    node, number = (np.repeat(each, n_positives) for each in (nodes, np.broadcast_to(update, nodes.shape)))
    place = np.arange(len(node)) - np.repeat(np.cumsum(n_positives) - n_positives, n_positives)
    index, step = place[:, None] * blocks + np.arange(blocks), np.repeat(n_positives * blocks, n_positives)
    drawn = np.zeros((len(node), blocks * 4), np.int64)
    wanted = np.zeros(drawn.shape, bool)
    wanted[:, :negatives] = True
    attempt, rows = 0, np.arange(len(node))
    while len(rows):
        tries = TRIES if len(rows) * blocks < FEW else 1
        tried = index[rows, None] + (attempt + np.arange(tries)[:, None]) * step[rows, None, None]
        words = philox_words(seed, tried, number[rows, None, None], node[rows, None, None], NEGATIVES)
        wide = words.reshape(len(rows), tries, -1).astype(np.uint64) * np.uint64(feed.n_items)
        items: Any = (wide >> np.uint64(32)).astype(np.int64)
        taken: Any = _are_positives(feed, np.broadcast_to(node[rows, None, None], items.shape), items)
        if tries > 1:  # for each negative, the first try that is not a positive, or else the first one
            chosen = np.argmin(taken, axis=1)[:, None]
            items, taken = (np.take_along_axis(each, chosen, axis=1) for each in (items, taken))
        items, taken = items[:, 0], taken[:, 0]
        drawn[rows] = np.where(wanted[rows], items, drawn[rows])
        wanted[rows] &= taken.astype(bool)
        rows = rows[wanted[rows].any(1)]
        attempt += tries
    return drawn[:, :negatives]


def select_sets(sets: Ragged, nodes: I64) -> Ragged:
    """Return the sets of some nodes under their numbers; all other sets are empty."""
    kept = np.zeros(len(sets), np.bool_)
    kept[nodes] = True
    if kept.all():
        return sets
    return Ragged.from_sizes(np.where(kept, sets.sizes, 0), sets.values[kept[sets.row_of_each_value]])


@dataclass(frozen=True)
class PredrawnSamples:
    """Samples of one local update.

    Attributes
    ----------
    items : ndarray of int32, shape (n_touched,)
        All items of the samples, ascending.
    samples : Columns
        The samples, with items as positions in `items`; -1 means none.
    """

    items: I32
    samples: Columns

    @classmethod
    def of(
        cls,
        feed: Feed,
        node: int,
        *,
        update: int,
        negatives: int,
        seed: int,
        changed: Callable[[Columns], Columns],
    ) -> PredrawnSamples:
        """Draw the samples of a node's local update; `changed` maps them to the samples to learn from."""
        drawn = changed(feed.samples(node, update=update, negatives=negatives, seed=seed))
        named = np.concatenate([drawn[name].ravel() for name in feed.item_columns])
        items = np.unique(named[named >= 0]).astype(np.int32)
        places = {
            name: np.where(drawn[name] >= 0, np.searchsorted(items, drawn[name]), -1).astype(np.int32)
            for name in feed.item_columns
        }
        return cls(items, {**drawn, **places})


class PredrawnFeed(Feed):
    """A feed of predrawn samples, by node."""

    def __init__(self, feed: Feed, touched: Mapping[int, PredrawnSamples], n_items: int) -> None:
        super().__init__(Ragged.from_sizes(np.zeros(0, np.int64), np.zeros(0, np.int32)), n_items)
        self.item_columns = feed.item_columns
        self._touched = touched

    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples of each node's update; 0 for nodes without predrawn samples."""
        sizes = np.zeros(max(self._touched, default=-1) + 1, np.int64)
        for node, touched in self._touched.items():
            sizes[node] = len(next(iter(touched.samples.values())))
        return sizes

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the predrawn samples of a node."""
        return self._touched[node].samples


class PointwiseFeed(Feed):
    """Samples are ``items`` with ``labels``: 1 for a positive, 0 for a negative."""

    item_columns = ("items",)
    samples_follow_positives = True

    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples in one pass over each node's data."""
        return self.positives.sizes * (1 + negatives)

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each positive followed by its negatives, and the labels."""
        positives = self.positives[node]
        drawn = draw_negatives(self, node, len(positives), update=update, negatives=negatives, seed=seed)
        return _labelled(positives, drawn)

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of all nodes, drawn at once."""
        drawn = draw_all_negatives(self, update=update, negatives=negatives, seed=seed)
        users = self.positives.row_of_each_value.astype(np.int32).repeat(1 + negatives)
        return {"user": users, **_labelled(self.positives.values, drawn)}


def _labelled(positives: I32, drawn: I64) -> Columns:
    items = np.concatenate([positives[:, None], drawn], axis=1).astype(np.int32)
    labels = np.zeros(items.shape, np.float32)
    labels[:, 0] = 1.0
    return {"items": items.ravel(), "labels": labels.ravel()}


class PairwiseFeed(Feed):
    """Samples are ``items``, each paired with one of its ``negatives``."""

    item_columns = ("items", "negatives")
    samples_follow_positives = True

    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples in one pass over each node's data."""
        return self.positives.sizes * negatives

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each positive once per negative, with the negatives."""
        positives = self.positives[node]
        drawn = draw_negatives(self, node, len(positives), update=update, negatives=negatives, seed=seed)
        return {"items": positives.repeat(negatives), "negatives": drawn.ravel().astype(np.int32)}

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of all nodes, drawn at once."""
        drawn = draw_all_negatives(self, update=update, negatives=negatives, seed=seed)
        users, items = (
            column.astype(np.int32).repeat(negatives)
            for column in (self.positives.row_of_each_value, self.positives.values)
        )
        return {"user": users, "items": items, "negatives": drawn.ravel().astype(np.int32)}

    def samples_of_some(self, nodes: I64, updates: I64, *, negatives: int, seed: int) -> list[Columns]:
        """Return the samples of some nodes, drawn at once."""
        drawn = draw_negatives_of_nodes(self, nodes, updates, negatives=negatives, seed=seed)
        ends = np.cumsum(self.positives.sizes[nodes] * negatives).tolist()
        others = drawn.ravel().astype(np.int32)
        return [
            {"items": self.positives[node].repeat(negatives), "negatives": others[begin:end]}
            for node, begin, end in zip(nodes.tolist(), [0, *ends], ends, strict=False)
        ]
