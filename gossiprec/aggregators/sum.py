"""The sum of changes: every client moves the model as far as it would alone.

References
----------
Published code of PoisonFedDLRS (specification, section 3.1), which adds up the gradients of a slice.
"""

from __future__ import annotations

import numpy as np

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32


@AGGREGATORS.register("sum")
class Sum(Aggregator):
    """Adds all changes. Weights are not used, so that staleness is not either."""

    of_changes = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with all changes added."""
        assert inbox.changes is not None
        out = own.astype(np.float64)
        for change in inbox.changes:
            n_shared = len(change.shared)
            items = out[: len(out) - n_shared].reshape(-1, change.rows.shape[1])
            items[change.items] += change.rows
            out[len(out) - n_shared :] += change.shared
        return out.astype(np.float32)
