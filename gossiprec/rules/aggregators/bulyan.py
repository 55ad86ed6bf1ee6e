"""Bulyan: Krum chooses models one by one; then each number is a mean of the values nearest to their median.

References
----------
E. M. El Mhamdi, R. Guerraoui, S. Rouault, "The hidden vulnerability of distributed learning in Byzantium", ICML 2018,
section 4.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import LARGEST
from gossiprec.rules import aggregators
from gossiprec.rules.aggregators import AGGREGATORS, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule, TouchedRuleOptions, mean_over_uploads
from gossiprec.rules.aggregators.krum import item_distances, model_distances
from gossiprec.rules.aggregators.median import median_of_sorted
from gossiprec.rules.aggregators.trimmed_mean import nearest_to_median


class BulyanOptions(TouchedRuleOptions):
    """Options of Bulyan."""

    byzantine: int = Field(default=1, ge=0, le=LARGEST)
    """f: number of models that may be malicious"""


@AGGREGATORS.register("bulyan")
class Bulyan(TouchedRule):
    """The mean of the n - 4f values nearest to the median of each number, of the n - 2f models that Krum chooses.

    Weights are not used. Krum chooses the model with the least sum of squared distances to its nearest others, n' - f -
    2 of the n' that are left (at least one), and leaves it out of the next choice. On ties it takes the one closer to
    all others that are left, then the first to arrive. A scenario in which fewer than 4f + 3 models come together is
    refused; if fewer arrive during a run, f is lowered to what they allow, and fewer than seven have their median.
    """

    Options = BulyanOptions
    options: BulyanOptions

    @property
    def min_models(self) -> int:
        """Number of models for which the guarantee holds."""
        return 4 * self.options.byzantine + 3

    @property
    def assumed_poisoners(self) -> int:
        """The option `byzantine`."""
        return self.options.byzantine

    def breakdown(self, n: int) -> int:
        """Return f, or the number that n models allow; fewer than seven withstand what their median does."""
        lowered = self._lowered(n)
        return lowered if lowered or not self.options.byzantine else (n - 1) // 2

    def _lowered(self, n: int) -> int:
        """Return f, or the largest number that n models allow."""
        return max(0, min(self.options.byzantine, (n - 3) // 4))

    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the mean of the values nearest to the median of the chosen models."""
        n, out = len(inbox.model_weights), np.empty_like(own)
        chosen = self._chosen(model_distances(own, inbox, n)[None])[0]
        for columns, models in inbox.models(own):
            out[columns] = self._near_median(np.sort(models[chosen], axis=0), n).mean(axis=0)
        return out

    def combine(self, values: F32) -> F32:
        """Return the mean of the values nearest to the median of each item's chosen deltas."""
        n, n_items = values.shape[:2]
        at_once = max(1, aggregators.BLOCK // n**2)
        chosen = np.concatenate(
            [
                self._chosen(item_distances(values[:, low : low + at_once]))
                for low in range(0, n_items, at_once)
            ]
        )
        kept = np.take_along_axis(values, chosen.T[:, :, None], axis=0)
        return mean_over_uploads(self._near_median(np.sort(kept, axis=0), n))

    def _chosen(self, distances: F64) -> I64:
        return choose_one_by_one(distances, self._lowered(distances.shape[-1]))

    def _near_median(self, ordered: F32, n: int) -> F32:
        """Return the values that are averaged, of the chosen ones of n models, in ascending order."""
        lowered = self._lowered(n)
        if self.options.byzantine and not lowered:
            return median_of_sorted(ordered)[None]
        return nearest_to_median(ordered, 2 * lowered)


def choose_one_by_one(distances: F64, byzantine: int) -> I64:
    """Return the models that repeated Krum chooses for each item, ascending, shape (n_items, n - 2 byzantine).

    Parameters
    ----------
    distances : ndarray of float64, shape (n_items, n, n)
        Squared distances between all models; overwritten.
    byzantine : int
        Number of models that may be malicious.
    """
    n_items, n, _ = distances.shape
    if not byzantine:
        return np.broadcast_to(np.arange(n), (n_items, n))
    items, left = np.arange(n_items), np.ones((n_items, n), np.bool_)
    diagonal = np.arange(n)
    distances[:, diagonal, diagonal] = np.inf  # a model is not its own neighbour
    for n_left in range(n, 2 * byzantine, -1):
        nearest = max(1, n_left - byzantine - 2)
        ordered = np.sort(distances, axis=2)
        keys = [ordered[..., : n_left - 1].sum(axis=2), ordered[..., :nearest].sum(axis=2), ~left]
        best = np.lexsort(keys, axis=1)[:, 0]
        left[items, best] = False
        distances[items, :, best] = np.inf
    return np.nonzero(~left)[1].reshape(n_items, -1)
