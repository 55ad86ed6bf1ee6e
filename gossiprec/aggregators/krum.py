"""Krum and multi-Krum: the models that lie closest to others.

References
----------
P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine learning with adversaries: Byzantine tolerant gradient
descent", NeurIPS 2017, section 4 (Krum) and 6 (multi-Krum).
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32, F64, I64
from gossiprec.options import LARGEST, Options


class KrumOptions(Options):
    """Options of Krum."""

    byzantine: int = Field(default=1, ge=0, le=LARGEST, description="f: models that may be hostile")
    keep: int = Field(
        default=1, ge=1, le=LARGEST, description="m: models kept, whose mean is taken (multi-Krum)"
    )


@AGGREGATORS.register("krum")
class Krum(Aggregator):
    """The mean of the `keep` models with the least sum of squared distances to their n - f - 2 nearest.

    Weights are not used. With so few models that none would be near (n of 3 to f + 2) one is. Two models that are
    nearest to each other may then have equal sums: the one closer to all counts as less. Of one or two models it is
    the mean.
    """

    Options = KrumOptions
    options: KrumOptions

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the mean of the models kept."""
        kept, out = self._chosen(own, inbox), np.empty_like(own)
        for columns, models in inbox.models(own):
            out[columns] = models[kept].mean(axis=0)
        return out

    def _chosen(self, own: F32, inbox: Inbox) -> I64:
        n = len(inbox.model_weights)
        if n <= 2:
            return np.arange(n)
        nearest = max(1, n - self.options.byzantine - 2)
        distances = np.sort(_distances(own, inbox, n), axis=1)
        order = np.lexsort([distances.sum(axis=1), distances[:, 1 : 1 + nearest].sum(axis=1)])
        return np.sort(order[: self.options.keep])


def _distances(own: F32, inbox: Inbox, n: int) -> F64:
    """Return the squared distances between all models, shape (n, n); inf to one that is not finite."""
    from scipy.spatial.distance import pdist, squareform

    between = np.zeros(n * (n - 1) // 2)
    for _, models in inbox.models(own):
        between += pdist(models, "sqeuclidean")
    distances: F64 = squareform(np.where(np.isnan(between), np.inf, between))
    return distances
