"""Last heard: a null attack for comparison with other attacks."""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, Attack, Ranking
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.options import Options


class LastHeardOptions(Options):
    """Options of the attack."""

    community_size: int = 50


@ATTACKS.register("last-heard")
class LastHeard(Attack):
    """Every node ranks the most recent senders as the most similar to itself."""

    Options = LastHeardOptions
    measures = ("heard",)

    def __init__(self, options, context):
        super().__init__(options, context)
        self.latest = np.full((context.n_users, context.n_users), np.nan, np.float32)

    @property
    def nodes(self):
        """Every user's node observes on its own."""
        return np.arange(self.context.n_users)

    def observe(self, seen):
        """Record the arrival time of each model; ``seen.gather(items)``, ``seen.user_rows()`` would read it."""
        others = seen.senders < self.context.n_users  # a coordinator is no user
        self.latest[seen.receivers[others], seen.senders[others]] = seen.times[others]

    def rankings(self):
        """Return one ranking, with NaN for victims that were never met."""
        return [
            Ranking("last-heard", "recency", 0.0, (self.options.community_size,), self.nodes, self.latest)
        ]

    def findings(self, now):
        """Report the mean number of nodes from which a node has received a model."""
        heard = np.count_nonzero(~np.isnan(self.latest), axis=1)
        yield Finding("heard", {"observer": "last-heard"}, heard.mean(), per_node=(self.nodes, heard))

    def state(self, now):
        """Return the observations, for checkpoints."""
        return {"latest": self.latest}

    def restore(self, state):
        """Restore the observations."""
        self.latest = state["latest"]
