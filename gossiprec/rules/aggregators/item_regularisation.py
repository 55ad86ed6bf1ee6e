"""Item regularisation, PIECK's defence, its part on items: unpopular items are drawn towards popular ones.

References
----------
J. Zhang et al., "Preventing the popular item embedding based attack in federated recommendations", ICDE 2024
(arXiv 2502.12958); published code: junzhang-zj/PIECK, MF-FRS/client.py.

Notes
-----
**A port**, by the behaviour of the code: there, clients add two terms to their losses, and find popular items by the
versions that they receive. The term on items depends on versions and touched items only, so that here the coordinator
adds its gradient to each answer, also to poisoners' answers. The term on users' rows needs clients: it is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Options
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, ModelDelta
from gossiprec.rules.aggregators.deltas import How, add_deltas, drop_nonfinite, row_norms


class ItemRegularisationOptions(Options):
    """Options of item regularisation."""

    popular: int = Field(default=10, ge=1, le=10**6)
    """number of popular items: those that changed most so far"""
    weight: float = Field(default=0.01, gt=0)
    """weight of the term times the clients' learning rate"""
    then: How = "touched-mean"
    """reduction of the deltas"""


@AGGREGATORS.register("item-regularisation")
class ItemRegularisation(Aggregator):
    """The own model plus the reduced deltas, to each of which a step up the similarity with popular items is added.

    The similarity is the mean over the client's unpopular items of the weighted cosines between their rows and those of
    popular items; the weight falls with the square of the rank. The first inbox is reduced as it is.
    """

    Options = ItemRegularisationOptions
    options: ItemRegularisationOptions
    uses_deltas = True
    is_robust = False
    checkpointed = ("last", "moved")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._last: F32 | None = None
        self._moved: F64 | None = None

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the regularised deltas."""
        inbox = drop_nonfinite(inbox)
        if not inbox.deltas:
            return own
        width = max(inbox.deltas[0].rows.shape[1], 1)
        end = len(own) - len(inbox.deltas[0].shared)
        table = own[:end].reshape(-1, width)
        if self._last is not None:
            moved = row_norms(table - self._last[:end].reshape(-1, width))
            self._moved = moved if self._moved is None else self._moved + moved
        self._last = own.copy()
        if self._moved is None:
            return add_deltas(own, inbox, self.options.then)
        best = np.argsort(-self._moved, kind="stable")[: self.options.popular]
        steps = self.options.weight * similarity_slopes(table, best)
        changes = []
        for change in inbox.deltas:
            unpopular = ~np.isin(change.items, best)
            share = unpopular / max(int(unpopular.sum()), 1)
            rows = change.rows + share[:, None] * steps[change.items]
            changes.append(ModelDelta(change.items, rows.astype(np.float32), change.shared))
        return add_deltas(
            own, Inbox(inbox.rows, inbox.row_index, inbox.weights, deltas=changes), self.options.then
        )


def similarity_slopes(table: F32, best: I64) -> F64:
    """Return the gradient of each row's weighted cosines with the rows of popular items, which come in their order."""
    weights = np.square(np.arange(len(best), 0, -1, dtype=np.float64))
    rows = table.astype(np.float64)
    norms = np.maximum(row_norms(table), 1e-12)[:, None]
    units = rows / norms
    wanted = (weights / weights.sum()) @ units[best]
    return (wanted - (units @ wanted)[:, None] * units) / norms
