"""Top items: what a model recommends to its own user first is taken for what the user has."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import ATTACKS, Attack, MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.models.base.kernel_interface import ScoreQuery


class TopItemsOptions(Options):
    """Options of the attack."""

    share: tuple[float, ...] = Field(default=(0.05, 0.1), min_length=1)
    """shares of all items that are guessed for each victim"""
    members: tuple[int, ...] = ()
    """nodes that share what they receive; without any the coordinator observes"""


@ATTACKS.register("top-items")
class TopItems(Attack):
    """Guesses that each victim has the items which its latest model scores highest."""

    Options = TopItemsOptions
    measures = RATES

    def __init__(self, options, context):
        super().__init__(options, context)
        self.pool = np.unique(options.members or [-1 if context.coordinator is None else context.coordinator])
        if self.pool[0] < 0 or (options.members and self.pool[-1] >= context.n_users):
            raise ScenarioError(
                f"observers: top-items: found members {list(options.members)}; expected nodes of users, 0 to "
                f"{context.n_users - 1}, because this protocol has no coordinator or these nodes do not exist; "
                "set members"
            )
        self.n_items = context.scorer.layout.n_items
        # of each victim and item: the share of the items that the victim's latest model scores higher
        self.places = np.full((context.n_users, self.n_items), np.nan, np.float32)

    @property
    def pools(self):
        """The group that shares what it receives."""
        return [self.pool]

    def observe(self, seen):
        """Score all items by each received model of a victim that shares its user row."""
        models, layout = seen.models(), self.context.scorer.layout
        known = (seen.senders < self.context.n_users) & np.isfinite(models).all(axis=1)
        victims = seen.senders[known].astype(np.int64)
        n, items = len(victims), np.arange(self.n_items, dtype=np.int32)
        ends = np.arange(n + 1, dtype=np.int64) * self.n_items
        query = ScoreQuery(
            layout, models[known], np.arange(n), layout.user_index(victims), ends, np.tile(items, n)
        )
        scored = self.context.scorer.score(query).reshape(n, self.n_items)
        for victim, scores in zip(victims, scored, strict=True):
            higher = self.n_items - np.searchsorted(np.sort(scores), scores, side="right")
            self.places[victim] = higher / self.n_items  # equal scores have equal places

    def guesses(self):
        """Yield the guesses: the items of which the place is below the share."""
        met = np.flatnonzero(~np.isnan(self.places[:, 0]))
        victims = met[~np.isin(met, self.pool)]
        yield MembershipGuesses(
            observer="top-items",
            momentum=0.0,
            thresholds=self.options.share,
            adversaries=self.pool[:1],  # one for all, because all of them know the same
            offsets=np.array([0, self.n_items]),
            items=np.arange(self.n_items, dtype=np.int32),
            victims=victims,
            entropies=self.places[victims],
        )

    def state(self, now):
        """Return the places, for checkpoints."""
        return {"places": self.places}

    def restore(self, state):
        """Restore the places."""
        self.places = state["places"]
