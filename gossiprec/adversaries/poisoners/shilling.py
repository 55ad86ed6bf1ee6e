"""Shilling: clients with fabricated items that train honestly, the floor that attacks on models should exceed.

References
----------
S. K. Lam, J. Riedl, "Shilling recommender systems for fun and profit", WWW 2004 (random); B. Mobasher, R. Burke,
R. Bhaumik, C. Williams, "Toward trustworthy recommender systems", TOIT 2007 (bandwagon). Proportions: published code of
FedRecAttack, main.py (Random, Bandwagon, Popular).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, draw_user_rows, largest_first
from gossiprec.adversaries.poisoners.synthetic_clients import client_gradient, client_samples, draw_items
from gossiprec.base.arrays import I32
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout
from gossiprec.rules.aggregators import ModelDelta

POOL, POPULAR = 0.1, 0.1
"""Fractions of the items from which bandwagon draws popular ones, and of the profile that these are."""


class ShillingOptions(Options):
    """Options of shilling."""

    profile: Literal["random", "bandwagon", "popular"] = "random"
    """items in addition to the targets: random; a tenth from the most popular tenth, others random; the most popular"""
    items: int = Field(default=30, ge=1, le=10**6)
    """number of items of each poisoner, with the targets"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of the initial user row"""


@POISONERS.register("shilling")
class Shilling(Poisoner):
    """A client with a fabricated profile: one gradient of the model's own loss at each push.

    The profile holds the targets; to demote them, they are negatives. Items and negatives are drawn once per node. The
    user's row descends the loss by the clients' learning rate.
    """

    Options = ShillingOptions
    options: ShillingOptions
    needs_labels = False
    knows = frozenset({"popularity"})

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return the width of the poisoner's user row."""
        return layout.user_width

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the items in the profile and among its negatives, and of the shared weights."""
        context, own, draw = self.context, push.memory, generator(push.seed, "shilling", push.node, 0)
        start = draw_user_rows(draw, 1, context.formula.layout, self.options.std)[0]
        if not own.any():
            own[:] = start
        items = self._profile(draw)
        disliked = context.targets if context.sign < 0 else context.targets[:0]
        samples = client_samples(context, items, int(draw.integers(2**63)), disliked=disliked)
        slope, found = client_gradient(context, sent, own[None], samples)
        own -= np.float32(context.rate) * slope[0]
        return found

    def _profile(self, draw: np.random.Generator) -> I32:
        """Return the items of the profile, ascending."""
        targets, options, popularity = self.context.targets, self.options, self.context.popularity
        assert popularity is not None, "knows declares popularity"
        taken, n_items = targets if self.context.sign > 0 else targets[:0], len(popularity)
        size = min(max(options.items, len(taken)), n_items - 1)
        if options.profile != "random":
            pool = size if options.profile == "popular" else int(POOL * n_items)
            best = largest_first(popularity.astype(np.float64), pool, without=targets)
            count = min(len(best), size - len(taken) if options.profile == "popular" else int(POPULAR * size))
            chosen = best[:count] if options.profile == "popular" else draw.choice(best, count, replace=False)
            taken = np.union1d(taken, chosen).astype(np.int32)
        rest = draw_items(
            draw, n_items, size - len(taken), without=np.union1d(taken, targets).astype(np.int32)
        )
        return np.union1d(taken, rest).astype(np.int32)
