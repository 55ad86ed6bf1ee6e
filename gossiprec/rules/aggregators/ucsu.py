"""UCSU, a reconstruction: each user's change is clipped as a whole, and only the items that move most are updated.

References
----------
R. Zheng et al., "Poisoning decentralized collaborative recommender system and its countermeasures", SIGIR 2024
(arXiv 2404.01177): user-level gradient clipping with sparsified updating. Only the abstract could be read: the bounds
and the fraction are ours. Do not take its figures for the original's.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, ModelDelta, deltas
from gossiprec.rules.aggregators.deltas import Bound, How, ScopeOptions, add_deltas
from gossiprec.rules.aggregators.norm_bound import NormBound, NormBoundOptions, bound_value


class UCSUOptions(ScopeOptions):
    """Options of UCSU."""

    bound: Bound = "median"
    """largest norm of a user's change, over all its numbers; median: the median norm of the inbox"""
    top: float = Field(default=0.5, gt=0, le=1)
    """fraction of the changed items that are updated, rounded up (over: touched), or of the numbers of a model"""
    gather: How = "touched-mean"
    """reduction of the clipped deltas (over: touched)"""


@AGGREGATORS.register("ucsu")
class UCSU(Aggregator):
    """A reconstruction: the own model plus the clipped mean change, of which the smaller part is left out.

    Shared weights are clipped with the items of their user, and always added. Over all, the change of whole models is
    that of `norm-bound`; a receiver's own model counts in gossip. A non-finite model is left out.
    """

    Options = UCSUOptions
    options: UCSUOptions

    def breakdown(self, n: int) -> int:
        """Return all models for a given bound, and the largest number below half of them for a median bound."""
        return (n - 1) // 2 if self.options.bound == "median" else n

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the own model with the sparsified change."""
        if not self.uses_deltas:
            clipped = NormBound(NormBoundOptions(bound=self.options.bound)).reduce(own, inbox)
            kept = largest(np.abs(clipped.astype(np.float64) - own), self.options.top)
            out = own.copy()
            out[kept] = clipped[kept]
            return out
        inbox = deltas.drop_nonfinite(inbox)
        if not inbox.deltas:
            return own
        norms = user_norms(inbox)
        bound = bound_value(self.options.bound, norms)
        scale = np.divide(bound, norms, out=np.ones_like(norms), where=norms > bound)
        out = add_deltas(own, scaled_deltas(inbox, scale), self.options.gather)
        end = len(own) - len(inbox.deltas[0].shared)
        width = max(inbox.deltas[0].rows.shape[1], 1)
        moved = deltas.row_norms((out[:end] - own[:end]).reshape(-1, width))
        left_out = np.setdiff1d(np.arange(len(moved)), largest(moved, self.options.top))
        out[:end].reshape(-1, width)[left_out] = own[:end].reshape(-1, width)[left_out]
        return out


def user_norms(inbox: Inbox) -> F64:
    """Return the Euclidean norm of each delta, rows and shared weights together."""
    assert inbox.deltas is not None
    parts = [np.append(change.rows.ravel(), change.shared).astype(np.float64) for change in inbox.deltas]
    return np.array([np.linalg.norm(part) for part in parts])


def scaled_deltas(inbox: Inbox, scale: F64) -> Inbox:
    """Return an inbox with each delta multiplied by a factor."""
    assert inbox.deltas is not None
    changes = [
        ModelDelta(
            change.items,
            (factor * change.rows).astype(np.float32),
            (factor * change.shared).astype(np.float32),
        )
        for change, factor in zip(inbox.deltas, scale, strict=True)
    ]
    return Inbox(inbox.rows, inbox.row_index, inbox.weights, inbox.own_weight, changes)


def largest(sizes: F64, top: float) -> I64:
    """Return the places of a fraction of the sizes above 0, rounded up, the first ones on ties."""
    count = math.ceil(top * np.count_nonzero(sizes) - 1e-9)
    return np.argsort(-sizes, kind="stable")[:count]
