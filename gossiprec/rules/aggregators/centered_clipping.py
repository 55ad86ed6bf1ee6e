"""Centered clipping: models are averaged after they were drawn towards what the receiver learnt before.

References
----------
S. P. Karimireddy, L. He, M. Jaggi, "Learning from history for Byzantine robust optimization", ICML 2021, section 4 and
algorithm 2. There workers send momenta, and the centre is the last aggregated one; here models arrive, and the centre
is the receiver's own model plus the change that the last inbox made. A radius that follows the inbox is ours.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox
from gossiprec.rules.aggregators.deltas import Bound
from gossiprec.rules.aggregators.norm_bound import bound_value, distances_from


class CenteredClippingOptions(Options):
    """Options of centered clipping."""

    radius: Bound = "median"
    """tau: largest distance from the centre at which a model counts in full; median: the median distance of the
    inbox"""
    iterations: int = Field(default=1, ge=1, le=100)
    """number of times that the centre moves to the clipped mean"""
    center: Literal["momentum", "own"] = "momentum"
    """first centre; momentum: the own model plus the change of the last inbox; own: the own model"""


@AGGREGATORS.register("centered-clipping")
class CenteredClipping(Aggregator):
    """The centre plus the weighted mean of the models' differences from it, each scaled down to the radius.

    In gossip the own model is one of the models. A non-finite model is left out; an inbox of any size is large enough.
    """

    Options = CenteredClippingOptions
    options: CenteredClippingOptions
    checkpointed = ("change",)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._change: F32 | None = None

    def breakdown(self, n: int) -> int:
        """Return all models for a given radius, and the largest number below half of them for the median radius."""
        return (n - 1) // 2 if self.options.radius == "median" else n

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the centre after the iterations, or the own model if no model is finite; weights are used."""
        center = own if self._change is None else own + self._change
        for _ in range(self.options.iterations):
            moved = self._moved(own, center, inbox)
            if moved is None:
                return own
            center = moved
        if self.options.center == "momentum":
            self._change = center - own
        return center

    def _moved(self, own: F32, center: F32, inbox: Inbox) -> F32 | None:
        """Return the centre moved by the mean of the clipped differences, or None if no model is finite."""
        distances = distances_from(center, inbox.models(own), len(inbox.model_weights))
        fit = np.isfinite(distances)
        if not fit.any():
            return None
        radius = bound_value(self.options.radius, distances[fit])
        weights = inbox.model_weights[fit]
        larger = np.maximum(distances[fit], radius)
        scale = (
            weights / weights.sum() * np.divide(radius, larger, out=np.ones_like(larger), where=larger > 0)
        )
        out = np.empty_like(center)
        for columns, models in inbox.models(own):
            out[columns] = center[columns] + scale @ (models[fit] - center[columns])
        return out
