"""What the nodes have spent of their privacy: events for the log, and a line of the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.eventlog.checkpoints import Stateful
from gossiprec.policies import Policy, Privacy


class Ledger(Stateful):
    """Follows the policies that account for privacy.

    Parameters
    ----------
    policies : sequence of Policy
    n_nodes : int
    """

    changing = ("told", "updates", "pushes")

    def __init__(self, policies: Sequence[Policy], n_nodes: int) -> None:
        self._policies = policies
        self._told = np.zeros(n_nodes)
        self._updates = self._pushes = np.zeros(n_nodes, np.int64)

    def changes(self, updates: I64, pushes: I64) -> tuple[I64, F64]:
        """Return the nodes that have spent more since the last call, ascending, and the epsilon of each so far."""
        self._updates, self._pushes = updates, pushes
        now = self._told.copy()
        for privacy in self._spent():
            now[privacy.nodes] = privacy.epsilon
        changed = np.flatnonzero(now != self._told)
        self._told = now
        return changed, now[changed]

    def summary(self) -> dict[str, Any] | None:
        """Return the run's privacy in numbers, as it was last told; None where no policy accounts for any."""
        spent = self._spent()
        if not spent:
            return None
        epsilon = np.concatenate([privacy.epsilon for privacy in spent])
        noise = np.concatenate([privacy.noise_multiplier for privacy in spent])
        return {
            "nodes": len(epsilon),
            "delta": max(privacy.delta for privacy in spent),
            "epsilon_max": epsilon.max(),
            "epsilon_mean": epsilon.mean(),
            "noise_multiplier_min": noise.min(),
            "noise_multiplier_max": noise.max(),
        }

    def _spent(self) -> list[Privacy]:
        found = (policy.spent(self._updates, self._pushes) for policy in self._policies)
        return [privacy for privacy in found if privacy is not None]
