"""The last heard: the null attack to compare others with."""

from __future__ import annotations

import numpy as np

from gossiprec.attacks import ATTACKS, Attack
from gossiprec.attacks.base import Ranking
from gossiprec.attacks.findings import Finding
from gossiprec.options import Options


class LastHeardOptions(Options):
    """Options of the attack."""

    community_size: int = 50


@ATTACKS.register("last-heard")
class LastHeard(Attack):
    """Every node takes those for its likes of whom it received a model last."""

    Options = LastHeardOptions
    measures = ("heard",)

    def __init__(self, options, world):
        super().__init__(options, world)
        self.latest = np.full((world.n_users, world.n_users), np.nan, np.float32)

    @property
    def nodes(self):
        """Every user's node observes on its own."""
        return np.arange(self.world.n_users)

    def observe(self, seen):
        """Note when each model arrived; ``seen.gather(items)``, ``seen.users()`` would show what is in it."""
        others = seen.senders < self.world.n_users  # a coordinator is nobody's like
        self.latest[seen.receivers[others], seen.senders[others]] = seen.times[others]

    def rankings(self):
        """Return the one ranking: NaN where they never met."""
        return [
            Ranking("last-heard", "recency", 0.0, (self.options.community_size,), self.nodes, self.latest)
        ]

    def findings(self, now):
        """Report how many nodes a node has heard of, on average."""
        heard = np.count_nonzero(~np.isnan(self.latest), axis=1)
        yield Finding("heard", {"observer": "last-heard"}, heard.mean(), per_node=(self.nodes, heard))

    def state(self, now):
        """Return what it has learnt, for checkpoints."""
        return {"latest": self.latest}

    def restore(self, state):
        """Take it back."""
        self.latest = state["latest"]
