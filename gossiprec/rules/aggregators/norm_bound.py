"""Norm bounding: no model moves the receiver's model further than a bound.

References
----------
Z. Sun, P. Kairouz, A. T. Suresh, H. B. McMahan, "Can you really backdoor federated learning?", 2019, section 3: updates
are scaled down to a norm, then averaged. The bound that follows the inbox is ours. Item by item, with a bound of
0.5: published code of PIECK (specification, section 3.5).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pydantic import model_validator

from gossiprec.base.arrays import F32, F64
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, deltas
from gossiprec.rules.aggregators.deltas import Bound, How, ScopeOptions, add_deltas


class NormBoundOptions(ScopeOptions):
    """Options of norm bounding."""

    bound: Bound = "median"
    """largest Euclidean norm of the difference between a model and the node's own, or of the delta of a row (over:
    touched); median: the median norm of the inbox"""
    shared_bound: Bound | None = None
    """largest norm of the delta of a client's shared weights (over: touched); null: same as bound"""
    then: How | None = None
    """reduction of the scaled deltas (over: touched); null: touched-mean"""

    @model_validator(mode="after")
    def _of_changes(self) -> NormBoundOptions:
        if self.over == "all" and (self.shared_bound is not None or self.then is not None):
            found = "then" if self.shared_bound is None else "shared_bound"
            raise ValueError(f"{found} requires deltas; set over to touched, or remove it")
        return self


@AGGREGATORS.register("norm-bound")
class NormBound(Aggregator):
    """The own model plus the weighted mean of the received models' differences from it, scaled down to the bound.

    In gossip the own model counts as a difference of zero. A non-finite model is left out; an inbox of any size is
    large enough. Over touched items, each row that a client changed is scaled down, and so are its shared weights.
    """

    Options = NormBoundOptions
    options: NormBoundOptions

    def breakdown(self, n: int) -> int:
        """Return all models for given bounds, and the largest number below half of them for a median bound."""
        return (n - 1) // 2 if "median" in (self.options.bound, self.options.shared_bound) else n

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the bounded mean; weights are used."""
        if self.uses_deltas:
            return self._of_rows(own, deltas.drop_nonfinite(inbox))
        norms = distances_from(own, inbox.received(), len(inbox))
        fit = np.isfinite(norms)
        if not fit.any():
            return own
        bound = bound_value(self.options.bound, norms[fit])
        share = inbox.weights / (inbox.own_weight + inbox.weights[fit].sum())
        larger = np.maximum(norms[fit], bound)
        scale = share[fit] * np.divide(bound, larger, out=np.ones_like(larger), where=larger > 0)
        out = np.empty_like(own)
        for columns, received in inbox.received():
            difference = received[fit] - own[columns]
            out[columns] = own[columns] + (scale[:, None] * difference).sum(axis=0)
        return out

    def _of_rows(self, own: F32, inbox: Inbox) -> F32:
        if not inbox.deltas:
            return own
        rows, shared = deltas.delta_norms(inbox.deltas)
        options = self.options
        bound = bound_value(options.bound, rows)
        of_shared = bound_value(
            options.bound if options.shared_bound is None else options.shared_bound, shared
        )
        return add_deltas(own, deltas.clip_inbox(inbox, bound, of_shared), options.then or "touched-mean")


def distances_from(point: F32, blocks: Iterable[tuple[slice, F32]], n: int) -> F64:
    """Return the distance of each of n models from a point; infinite or NaN for non-finite models.

    `blocks` are columns with the models, shape (n, n_columns of the block).
    """
    squares = np.zeros(n)
    with np.errstate(invalid="ignore", over="ignore"):
        for columns, models in blocks:
            squares += np.square(models.astype(np.float64) - point[columns]).sum(axis=1)
    return np.sqrt(squares)


def bound_value(bound: Bound, norms: F64) -> float:
    """Return the bound as a number; the median of no norms is 0."""
    if bound == "median":
        return float(np.median(norms)) if len(norms) else 0.0
    return bound
