"""Spattack: many poisoners that flood the sparsely updated items with noise, or undo what the clients learnt.

References
----------
Z. Zhang, M. Zhang, J. Chen, C. Shi, "Rethinking Byzantine robustness in federated recommendation from sparse
aggregation perspective", AAAI 2025 (arXiv 2501.03301); published code: zhongjian-zhang/Spattack, Attack/FedMFAttack.py.

Notes
-----
By the behaviour of the code. `limited` is Spattack-L. Spattack-O is omniscient: it sends the clients' gradients of the
same round with the opposite sign. No node can know these; `undo` is a port that knows the last change of the version.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, VersionWatcher
from gossiprec.base.arrays import I32
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta


class SpattackOptions(Options):
    """Options of Spattack."""

    variant: Literal["limited", "undo"] = "limited"
    """limited: the same normal noise from all poisoners in all rounds; undo: the last change, with the opposite sign,
    divided among the poisoners"""
    items: int | None = Field(default=None, ge=1, le=10**6)
    """number of items of each poisoner, drawn once in proportion to their popularity; null: all items"""


@POISONERS.register("spattack")
class Spattack(VersionWatcher):
    """A poisoner without targets that moves many items."""

    Options = SpattackOptions
    options: SpattackOptions
    targeted = False
    needs_labels = False
    knows = frozenset({"popularity"})

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the noise, or the last change per unit of the learning rate."""
        _, change, _ = self.item_changes(sent, push)
        items = self._items(push)
        if self.options.variant == "limited":
            noise = generator(push.seed, "spattack", 0, 0).standard_normal(sent.items.shape)
            rows = noise.astype(np.float32)
        else:
            rows = change / np.float32(self.context.rate * len(self.context.nodes))
        return ModelDelta(items, rows[items], np.zeros_like(sent.shared))

    def _items(self, push: PushContext) -> I32:
        """Return the items of a node, ascending."""
        popularity, count = self.context.popularity, self.options.items
        assert popularity is not None, "knows declares popularity"
        if count is None:
            return np.arange(len(popularity), dtype=np.int32)
        draw = generator(push.seed, "spattack-items", push.node, 0)
        count = min(count, int(np.count_nonzero(popularity)))
        chosen = draw.choice(len(popularity), count, replace=False, p=popularity / popularity.sum())
        return np.sort(chosen).astype(np.int32)
