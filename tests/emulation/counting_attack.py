"""An attack that ranks nobody and reports numbers of its own: how many messages each node has received."""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.options import Options


class CountingOptions(Options):
    """Options of the attack."""

    least: tuple[int, ...] = (1, 2)


class Counting(Attack):
    """Counts arrivals; a finding for each `least`: the share of the nodes with as many."""

    Options = CountingOptions
    measures = ("heard",)

    @property
    def nodes(self):
        return np.arange(self.context.n_users)

    def allocate(self, meetings):
        self._time, self._receiver = meetings.time, meetings.receiver

    def observe(self, seen):
        """What was announced is enough."""

    def findings(self, now):
        count = np.bincount(self._receiver[self._time <= now], minlength=self.context.n_users)
        for least in self.options.least:
            share = float((count >= least).mean())
            nodes = np.arange(len(count))
            yield Finding("heard", {"observer": "everybody", "least": least}, share, (nodes, count / 1.0))

    def state(self, now):
        return {}

    def restore(self, state):
        """There is nothing to take over."""
