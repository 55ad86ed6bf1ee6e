"""HiCS, a reconstruction: clipped deltas are accumulated; only the items that have accumulated most are updated.

References
----------
CL4FedRec names it among its defences (specification, section 3.5), as gradient clipping with sparsification. This
implementation is reconstructed from a description: no code or equation was available, and the default rules for the
bounds and the share are ours. Do not take its figures for the original's.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Options
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, deltas
from gossiprec.rules.aggregators.deltas import Bound, How, add_deltas

LOOKS_BENIGN = 3.0
"""Norms up to this multiple of the median are assumed to be benign."""


class HiCSOptions(Options):
    """Options of HiCS."""

    c1: Bound = "median"
    """largest norm of a changed row of a client; median: half of the median of the first inbox, then the median over
    the inboxes so far (of norms up to 3 medians)"""
    c2: Annotated[float, Field(gt=0)] | Literal["mean"] = "mean"
    """largest norm of the sum gathered by an item; mean: the mean over the updated items"""
    top: float = Field(default=0.1, gt=0, le=1)
    """fraction of all items that are updated, rounded up"""
    shared_bound: Bound = "median"
    """like c1, for the shared weights of a client"""
    gather: How = "touched-mean"
    """reduction of the clipped deltas"""


@AGGREGATORS.register("hics")
class HiCS(Aggregator):
    """A reconstruction: deltas, clipped to c1, accumulate in a memory, from which the largest items are updated.

    A share `top` of all items, those with the largest norms in the memory, is clipped to c2, added to the version and
    reset to zero; the others continue to accumulate. Shared weights are clipped and added at once.
    """

    Options = HiCSOptions
    options: HiCSOptions
    checkpointed = ("gathered", "medians", "shared_medians")
    uses_deltas = True

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._gathered: F32 | None = None
        self._medians: list[float] = []
        self._shared_medians: list[float] = []

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model plus the released deltas."""
        inbox = deltas.drop_nonfinite(inbox)
        if not inbox.deltas:
            return own
        rows, shared = deltas.delta_norms(inbox.deltas)
        bound = _bound(self.options.c1, rows, self._medians)
        of_shared = _bound(self.options.shared_bound, shared, self._shared_medians)
        change = add_deltas(
            np.zeros_like(own), deltas.clip_inbox(inbox, bound, of_shared), self.options.gather
        )
        end, width = len(own) - len(inbox.deltas[0].shared), inbox.deltas[0].rows.shape[1]
        gathered = change[:end].reshape(-1, max(width, 1))
        self._gathered = gathered if self._gathered is None else self._gathered + gathered
        out = own.copy()
        chosen = self._most(deltas.row_norms(self._gathered))
        out[:end].reshape(gathered.shape)[chosen] += self._let_go(self._gathered[chosen])
        out[end:] += change[end:]
        self._gathered[chosen] = 0.0
        return out

    def _most(self, norms: F64) -> I64:
        """Return the items that have accumulated most, in ascending order; the first one on ties."""
        count = math.ceil(self.options.top * len(norms) - 1e-9)
        most = np.argsort(-norms, kind="stable")[:count]
        return np.sort(most[norms[most] > 0])

    def _let_go(self, rows: F32) -> F32:
        c2 = self.options.c2
        if not len(rows):
            return rows
        return deltas.clip_rows(rows, float(deltas.row_norms(rows).mean()) if c2 == "mean" else c2)


def _bound(bound: Bound, norms: F64, medians: list[float]) -> float:
    """Return a bound, and record the median from which it follows."""
    if bound != "median":
        return bound
    norms = norms[norms > 0]
    if len(norms):
        medians.append(float(np.median(norms[norms <= LOOKS_BENIGN * np.median(norms)])))
    if len(medians) <= 1:
        return 0.5 * sum(medians)
    return float(np.median(medians))
