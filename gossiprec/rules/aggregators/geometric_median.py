"""The geometric median: the point with the smallest sum of distances to the models.

References
----------
K. Pillutla, S. M. Kakade, Z. Harchaoui, "Robust aggregation for federated learning", IEEE Transactions on Signal
Processing 70, 2022, algorithm 2 (RFA). There a few of Weiszfeld's iterations begin at the mean; here Newton's steps
begin at the median of each number, which no minority of models can move far, and end at a tolerance.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule, TouchedRuleOptions
from gossiprec.rules.aggregators.median import median_of_sorted


class GeometricMedianOptions(TouchedRuleOptions):
    """Options of the geometric median."""

    iterations: int = Field(default=1000, ge=1, le=100_000)
    """largest number of steps; a run ends if they do not reach the tolerance"""
    weighting: Literal["equal", "samples"] = "equal"
    """equal: every model counts the same; samples: by its node's number of positives, as RFA does"""


@AGGREGATORS.register("geometric-median")
class GeometricMedian(TouchedRule):
    """The geometric median of the models: their sum of distances is at most 1e-6, relatively, above the smallest one.

    Weights are used for whole models. A non-finite model is left out. Over touched items every client counts the same.
    """

    Options = GeometricMedianOptions
    options: GeometricMedianOptions
    enough = 3  # every point between two models has the same sum of distances to them

    def breakdown(self, n: int) -> int:
        """Return the largest number below half of the models."""
        return (n - 1) // 2

    def weights(self, n_positives: I64) -> F64:
        """Return ones, or the number of positives."""
        return np.ones(len(n_positives)) if self.options.weighting == "equal" else n_positives.astype(float)

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the geometric median.

        Raises
        ------
        ScenarioError
            If the option `iterations` is too small.
        """
        from gossiprec.numerics.geometric_median import add_products, shares_of_products

        finite = np.ones(len(inbox.model_weights), np.bool_)
        for _, models in inbox.models(own):
            finite &= np.isfinite(models).all(axis=1)
        if not finite.any():
            return own
        weights, out = inbox.model_weights[finite], np.empty_like(own)
        products, shares = np.zeros((len(weights), len(weights))), np.empty(len(weights))
        for _, models in inbox.models(own):
            kept = models[finite]
            add_products(kept.astype(np.float64) - median_of_sorted(np.sort(kept, axis=0)), products)
        self._check(shares_of_products(products, weights, self.options.iterations, shares))
        for columns, models in inbox.models(own):
            # without BLAS, of which the order of summation depends on the threads
            out[columns] = np.einsum("j,jk->k", shares, models[finite], dtype=np.float64)
        return out

    def combine(self, values: F32) -> F32:
        """Return the geometric median of each item's deltas.

        Raises
        ------
        ScenarioError
            If the option `iterations` is too small.
        """
        from gossiprec.numerics.geometric_median import medians_of_items

        by_item = np.ascontiguousarray(np.swapaxes(values, 0, 1), dtype=np.float64)
        start = median_of_sorted(np.sort(values, axis=0)).astype(np.float64)
        found = np.empty_like(start)
        self._check(medians_of_items(by_item, start, self.options.iterations, found))
        return found.astype(np.float32)

    def _check(self, is_found: bool) -> None:
        if not is_found:
            raise ScenarioError(
                f"geometric-median: found no point within the tolerance in {self.options.iterations} iterations; "
                "expected fewer to be enough; raise iterations"
            )
