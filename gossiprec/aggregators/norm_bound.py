"""Norm bounding: no model moves the receiver's further than a bound.

References
----------
Z. Sun, P. Kairouz, A. T. Suresh, H. B. McMahan, "Can you really backdoor federated learning?", 2019, section 3: updates
are scaled down to a norm, then averaged. That the bound can follow the inbox is ours.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32, F64
from gossiprec.options import Options


class NormBoundOptions(Options):
    """Options of norm bounding."""

    bound: Annotated[float, Field(gt=0)] | Literal["median"] = Field(
        default="median",
        description="largest Euclidean norm of a model's difference to the own; median: that of the inbox",
    )


@AGGREGATORS.register("norm-bound")
class NormBound(Aggregator):
    """The own model plus the mean, by weights, of what the received ones differ from it, each scaled down to the bound.

    In gossip the own model counts as a difference of zero. A model with a number that is not finite is left out; any
    inbox is large enough.
    """

    Options = NormBoundOptions
    options: NormBoundOptions

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the bounded mean; weights are used."""
        norms = self._norms(own, inbox)
        fit = np.isfinite(norms)
        if not fit.any():
            return own
        bound = np.median(norms[fit]) if self.options.bound == "median" else self.options.bound
        share = inbox.weights / (inbox.own_weight + inbox.weights[fit].sum())
        larger = np.maximum(norms[fit], bound)
        scale = share[fit] * np.divide(bound, larger, out=np.ones_like(larger), where=larger > 0)
        out = np.empty_like(own)
        for columns, received in inbox.received():
            difference = received[fit] - own[columns]
            out[columns] = own[columns] + (scale[:, None] * difference).sum(axis=0)
        return out

    def _norms(self, own: F32, inbox: Inbox) -> F64:
        """Return the norm of each model's difference to the own; inf or nan if it has a number that is not finite."""
        squares = np.zeros(len(inbox))
        with np.errstate(invalid="ignore", over="ignore"):
            for columns, received in inbox.received():
                squares += np.square(received.astype(np.float64) - own[columns]).sum(axis=1)
        norms: F64 = np.sqrt(squares)
        return norms
