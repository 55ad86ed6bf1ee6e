"""The geometric median: the point with the smallest sum of distances to the models.

References
----------
K. Pillutla, S. M. Kakade, Z. Harchaoui, "Robust aggregation for federated learning", IEEE Transactions on Signal
Processing 70, 2022, algorithm 2 (RFA, the smoothed Weiszfeld algorithm). There the first point is the mean; here it is
the median of each number, which no minority of models can move far, so that few iterations are enough.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule, TouchedRuleOptions
from gossiprec.rules.aggregators.median import median_of_sorted


class GeometricMedianOptions(TouchedRuleOptions):
    """Options of the geometric median."""

    iterations: int = Field(default=10, ge=1, le=1000)
    """number of iterations"""
    smoothing: float = Field(default=1e-6, gt=0)
    """smallest distance that a model's weight is divided by"""
    weighting: Literal["equal", "samples"] = "equal"
    """equal: every model counts the same; samples: by its node's number of positives, as RFA does"""


@AGGREGATORS.register("geometric-median")
class GeometricMedian(TouchedRule):
    """The smoothed geometric median of the models, by a fixed number of Weiszfeld iterations.

    Weights are used for whole models. A non-finite model is left out. Over touched items every client counts the same.
    """

    Options = GeometricMedianOptions
    options: GeometricMedianOptions

    @property
    def enough(self) -> int:
        """Three, because every point between two models has the same sum of distances to them."""
        return 3

    def breakdown(self, n: int) -> int:
        """Return the largest number below half of the models."""
        return (n - 1) // 2

    def weights(self, n_positives: I64) -> F64:
        """Return ones, or the number of positives."""
        return np.ones(len(n_positives)) if self.options.weighting == "equal" else n_positives.astype(float)

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the geometric median."""
        finite = np.ones(len(inbox.model_weights), np.bool_)
        for _, models in inbox.models(own):
            finite &= np.isfinite(models).all(axis=1)
        if not finite.any():
            return own
        weights, point = inbox.model_weights[finite], np.empty(len(own))
        for columns, models in inbox.models(own):
            point[columns] = median_of_sorted(np.sort(models[finite], axis=0))
        for _ in range(self.options.iterations):
            squares = np.zeros(len(weights))
            for columns, models in inbox.models(own):
                squares += np.square(models[finite] - point[columns]).sum(axis=1)
            shares = self._shares(weights, squares)
            for columns, models in inbox.models(own):
                point[columns] = shares @ models[finite]
        return point.astype(np.float32)

    def combine(self, values: F32) -> F32:
        """Return the geometric median of each item's deltas."""
        by_upload = np.ascontiguousarray(
            np.moveaxis(values, 0, -1), dtype=np.float64
        )  # (n_items, width, n_uploads)
        point = median_of_sorted(np.sort(values, axis=0)).astype(np.float64)
        for _ in range(self.options.iterations):
            squares = np.square(np.moveaxis(by_upload, 1, -1) - point[:, None]).sum(axis=-1)
            shares = self._shares(np.ones_like(squares), squares)
            point = (by_upload * shares[:, None]).sum(axis=-1)
        return point.astype(np.float32)

    def _shares(self, weights: F64, squares: F64) -> F64:
        """Return the share of each model in the next point, given its squared distance from the present one."""
        inverse = weights / np.maximum(np.sqrt(squares), self.options.smoothing)
        shares: F64 = inverse / inverse.sum(axis=-1, keepdims=True)
        return shares
