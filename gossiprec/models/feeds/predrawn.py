"""Predrawn samples of single local updates, with items numbered among the items that the node touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.base.ragged import Ragged
from gossiprec.models.feeds.base import Columns, Feed


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
