"""An outside plug-in that ranks nobody: a coordinator that guesses single items, also items that nobody near it has."""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.attacks import Attack, MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES
from gossiprec.base.options import Options

THRESHOLD = 0.5


class Guessing(Attack):
    """The coordinator and its first two users ask about the same items of every client, by the sizes of its rows."""

    Options = Options
    measures = RATES

    def __init__(self, options, world):
        super().__init__(options, world)
        n_items = world.scorer.layout.n_items
        self.entropies = np.full((world.n_users, n_items), np.nan, np.float32)

    @property
    def nodes(self):
        hub = self.context.coordinator
        return np.array([] if hub is None else [hub], np.int64)

    def observe(self, seen):
        n_items = self.context.scorer.layout.n_items
        rows = np.abs(seen.gather(np.arange(n_items, dtype=np.int32))).sum(axis=2)
        of_users = np.flatnonzero(seen.senders < self.context.n_users)
        ranks = np.argsort(np.argsort(-rows[of_users], axis=1), axis=1)
        self.entropies[seen.senders[of_users]] = ranks / n_items

    def guesses(self):
        n_items, met = self.context.scorer.layout.n_items, np.flatnonzero(~np.isnan(self.entropies[:, 0]))
        asked = np.arange(0, n_items, 2, dtype=np.int32)
        if not len(met):
            return
        yield MembershipGuesses(
            observer="hub",
            momentum=0.0,
            thresholds=(THRESHOLD,),
            adversaries=np.array([0, 1]),
            offsets=np.array([0, len(asked), 2 * len(asked)]),
            items=np.concatenate([asked, asked]),
            victims=met,
            entropies=self.entropies[met],
            hidden=np.zeros(0, np.int64),
            hidden_entropies=lambda a: np.zeros((0, len(asked)), np.float32),
        )

    def state(self, now):
        return {"entropies": self.entropies}

    def restore(self, state):
        self.entropies = state["entropies"]
