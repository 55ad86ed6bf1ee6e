"""Krum and multi-Krum: the models that are closest to others.

References
----------
P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine learning with adversaries: Byzantine tolerant gradient
descent", NeurIPS 2017, section 4 (Krum) and 6 (multi-Krum). Item by item: published code of PIECK and Spattack;
nearest to the mean: the rule that CL4FedRec calls Krum (specification, section 3.5).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import LARGEST
from gossiprec.native import jit_cached
from gossiprec.rules import aggregators
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule, TouchedRuleOptions, mean_over_uploads


class KrumOptions(TouchedRuleOptions):
    """Options of Krum."""

    byzantine: int = Field(default=1, ge=0, le=LARGEST)
    """f: number of models that may be malicious"""
    keep: int = Field(default=1, ge=1, le=LARGEST)
    """m: number of models kept and averaged (multi-Krum)"""
    mode: Literal["classical", "nearest-to-mean"] = "classical"
    """classical: keep the models closest to the other models; nearest-to-mean: closest to the mean of all (requires
    over: touched; byzantine is not used)"""

    @model_validator(mode="after")
    def _by_item(self) -> KrumOptions:
        if self.mode == "nearest-to-mean" and self.over == "all":
            raise ValueError(
                "mode nearest-to-mean works item by item; set over to touched, or mode to classical"
            )
        return self


@AGGREGATORS.register("krum")
class Krum(TouchedRule):
    """The mean of the `keep` models with the least sum of squared distances to their n - f - 2 nearest.

    Weights are not used. A scenario in which fewer than f + 3 models, or fewer than `keep`, come together is refused.
    If fewer arrive during a run, which its notes count, one neighbour is used instead of none (n of 3 to f + 2): two
    models that are nearest to each other may then have equal sums, and the one closer to all others is preferred. One
    or two models are averaged. On remaining ties, also between deltas equally near to the mean, the first to arrive
    is taken.
    """

    Options = KrumOptions
    options: KrumOptions

    @property
    def min_models(self) -> int:
        """Number of models kept; for classical Krum, at least enough to make n - f - 2 positive."""
        keep, classical = self.options.keep, self.options.mode == "classical"
        return max(keep, self.options.byzantine + 3) if classical else keep

    @property
    def assumed_poisoners(self) -> int | None:
        """The option `byzantine`; None for ``nearest-to-mean``."""
        return self.options.byzantine if self.options.mode == "classical" else None

    def breakdown(self, n: int) -> int:
        """Return f, or the largest number that n models allow; none for ``nearest-to-mean``, which trusts the mean."""
        classical = self.options.mode == "classical"
        return max(0, min(self.options.byzantine, (n - 3) // 2)) if classical else 0

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the mean of the models kept."""
        n, out = len(inbox.model_weights), np.empty_like(own)
        kept = np.arange(n) if n <= 2 else np.sort(self._order(model_distances(own, inbox, n)))
        for columns, models in inbox.models(own):
            out[columns] = models[kept].mean(axis=0)
        return out

    def combine(self, values: F32) -> F32:
        """Return the mean of the deltas kept of each item."""
        n = len(values)
        if self.options.mode == "nearest-to-mean":
            kept = _nearest_to_mean(values, self.options.keep)
        elif n <= 2:
            return mean_over_uploads(values)
        else:
            at_once = max(1, aggregators.BLOCK // n**2)
            starts = range(0, values.shape[1], at_once)
            kept = np.concatenate(
                [self._order(item_distances(values[:, low : low + at_once])) for low in starts]
            )
        kept = np.sort(kept, axis=-1).T
        return mean_over_uploads(np.take_along_axis(values, kept[:, :, None], axis=0))

    def _order(self, distances: F64) -> I64:
        """Return the models kept, shape (..., keep), given squared distances of all pairs, shape (..., n, n)."""
        nearest = max(1, distances.shape[-1] - self.options.byzantine - 2)
        distances = np.sort(distances, axis=-1)
        keys = [distances.sum(axis=-1), distances[..., 1 : 1 + nearest].sum(axis=-1)]
        return np.lexsort(keys, axis=-1)[..., : self.options.keep]


def model_distances(own: F32, inbox: Inbox, n: int) -> F64:
    """Return the squared distances between all models, shape (n, n); infinite to a model that is not finite."""
    from scipy.spatial.distance import pdist, squareform

    between = np.zeros(n * (n - 1) // 2)
    for _, models in inbox.models(own):
        between += pdist(models, "sqeuclidean")
    return squareform(np.where(np.isnan(between), np.inf, between))


def _nearest_to_mean(values: F32, keep: int) -> I64:
    """Return the deltas nearest to the mean of each item, shape (n_items, keep)."""
    wide = values.astype(np.float64)
    squares = np.square(wide - wide.mean(axis=0)).sum(axis=2)
    return np.argsort(squares, axis=0, kind="stable")[:keep].T


def item_distances(values: F32) -> F64:
    """Return the squared distances between all deltas of each item, shape (n_items, n, n)."""
    n, n_items, _ = values.shape
    out = np.zeros((n_items, n, n))
    jit_cached(_add_squares)(np.ascontiguousarray(values.transpose(1, 2, 0)), out)
    return out


def _add_squares(values: F32, out: F64) -> None:
    n_items, width, n = values.shape
    for item in range(n_items):
        for k in range(width):
            for i in range(n):
                for j in range(n):
                    difference = np.float64(values[item, k, j]) - np.float64(values[item, k, i])
                    out[item, i, j] += difference * difference
