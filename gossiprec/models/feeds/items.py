"""Feeds of single items: labelled items, and pairs of a positive and a negative.

References
----------
Pairs: Rendle et al., "BPR: Bayesian personalized ranking from implicit feedback", UAI 2009.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.models.feeds.base import (
    Columns,
    Feed,
    draw_all_negatives,
    draw_negatives,
    draw_negatives_of_nodes,
)


class PointwiseFeed(Feed):
    """Samples are ``items`` with ``labels``: 1 for a positive, 0 for a negative."""

    item_columns = ("items",)

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
