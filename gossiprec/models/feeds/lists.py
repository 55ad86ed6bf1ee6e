"""Feeds of lists: all items of a user as one sample, with negatives for the whole list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.models.feeds.base import Columns, Feed, draw_shared_negatives

UNIT = 32
"""Lists are padded to multiples of this length, so that sums do not depend on the other lists of a batch."""


class ListFeed(Feed):
    """A sample is a user: ``items``, shape (n, length), and ``negatives``, shape (n, negatives).

    The length of a list depends only on its user's data; it is padded with -1.
    """

    item_columns: tuple[str, ...] = ("items", "negatives")

    def n_samples(self, negatives: int) -> I64:
        """Return 1 for each node with training data, else 0."""
        return (self.positives.sizes > 0).astype(np.int64)

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the columns of a node's list in a local update, all of the same length, without padding."""
        return {"items": self.positives[node]}

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return a node's list, if it has one, with its negatives."""
        return self.samples_of_some(np.array([node]), np.array([update]), negatives=negatives, seed=seed)[0]

    def samples_of_some(self, nodes: I64, updates: I64, *, negatives: int, seed: int) -> list[Columns]:
        """Return the samples of some nodes, with all negatives drawn at once."""
        drawn = draw_shared_negatives(self, nodes, updates, negatives=negatives, seed=seed).astype(np.int32)
        some = self.n_samples(negatives)[nodes]
        return [
            {**self._list(node, update, seed, n), "negatives": row[None][:n]}
            for node, update, n, row in zip(
                nodes.tolist(), updates.tolist(), some.tolist(), drawn, strict=True
            )
        ]

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the lists of all users, as wide as the longest, with ``user``."""
        nodes = np.flatnonzero(self.n_samples(negatives))
        updates = np.full(len(nodes), update, np.int64)
        each = self.samples_of_some(nodes, updates, negatives=negatives, seed=seed)
        columns = {name: stack_padded([sample[name] for sample in each]) for name in self.item_columns}
        return {"user": nodes.astype(np.int32), **columns}

    def _list(self, node: int, update: int, seed: int, n: int) -> Columns:
        return {name: pad_row(part)[:n] for name, part in self.places(node, update, seed).items()}


def pad_row(places: I32) -> I32:
    """Return places as a row, shape (1, length), padded to whole units."""
    row = np.full((1, UNIT * max(1, -(-len(places) // UNIT))), -1, np.int32)
    row[0, : len(places)] = places
    return row


def stack_padded(rows: Sequence[I32]) -> I32:
    """Return rows of shape (1, width) as one array, as wide as the widest."""
    found = np.full((len(rows), max((row.shape[1] for row in rows), default=UNIT)), -1, np.int32)
    for one, row in zip(found, rows, strict=True):
        one[: row.shape[1]] = row[0]
    return found
