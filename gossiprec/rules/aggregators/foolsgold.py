"""FoolsGold-like: models that resemble one another count less, because poisoners with one aim do.

References
----------
C. Fung, C. J. M. Yoon, I. Beschastnikh, "The limitations of federated learning in Sybil settings", RAID 2020,
algorithm 1. There, cosines are of each client's sum of updates over all rounds; here they are of the present inbox,
for the rule does not know its senders. All numbers are features of equal importance.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.native import jit_cached
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, deltas
from gossiprec.rules.aggregators.deltas import How, ScopeOptions, StackedDeltas, add_deltas
from gossiprec.rules.aggregators.ucsu import scaled_deltas


class FoolsGoldOptions(ScopeOptions):
    """Options of the similarity weighting."""

    confidence: float = Field(default=1.0, gt=0)
    """kappa: slope of the logit that spreads the weights"""
    then: How = "touched-mean"
    """reduction of the weighted deltas (over: touched)"""


@AGGREGATORS.register("foolsgold")
class FoolsGold(Aggregator):
    """The own model plus the mean of the models' differences from it, weighted by how little each resembles another.

    If all resemble one another, the own model stays. A non-finite model is left out. Size does not count, so the rule
    does not withstand a single huge model.
    """

    Options = FoolsGoldOptions
    options: FoolsGoldOptions
    is_robust = False
    enough = 3  # two models resemble only each other

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the weighted mean, or the own model if no model has a weight."""
        if self.uses_deltas:
            return self._of_deltas(own, deltas.drop_nonfinite(inbox))
        fit = inbox.is_finite
        products = np.zeros((int(fit.sum()),) * 2)
        for columns, received in inbox.received():
            difference = received[fit].astype(np.float64) - own[columns]
            products += np.einsum("ik,jk->ij", difference, difference)
        share = inbox.weights[fit] * weights_by_similarity(products, self.options.confidence)
        if not share.any():
            return own
        out, share = own.copy(), share / (inbox.own_weight + share.sum())
        for columns, received in inbox.received():
            out[columns] += share @ (received[fit].astype(np.float64) - own[columns])
        return out

    def _of_deltas(self, own: F32, inbox: Inbox) -> F32:
        if not inbox.deltas:
            return own
        weights = weights_by_similarity(delta_products(inbox), self.options.confidence)
        if self.options.then == "sum":
            return add_deltas(own, scaled_deltas(inbox, weights), "sum")
        kept = np.flatnonzero(weights)
        if not len(kept):
            return own
        changes = [inbox.deltas[place] for place in kept.tolist()]
        some = Inbox(inbox.rows, inbox.row_index[kept], inbox.weights[kept] * weights[kept], deltas=changes)
        return add_deltas(own, some, self.options.then)


def delta_products(inbox: Inbox) -> F64:
    """Return the inner products of all pairs of deltas, in which an untouched item is zero."""
    stacked = StackedDeltas.of(inbox)
    products: F64 = np.einsum("ik,jk->ij", stacked.shared.astype(np.float64), stacked.shared)
    offsets = stacked.items.offsets[1:]  # the first delta is empty
    jit_cached(_add_products)(offsets, stacked.items.values, stacked.rows, products)
    return products


def _add_products(offsets: I64, items: I32, rows: F32, products: F64) -> None:
    """Add the inner products of pairs of deltas, the items of which ascend, to ``products``."""
    for one in range(len(products)):
        for other in range(one + 1):
            total = 0.0
            left, right = offsets[one], offsets[other]
            while left < offsets[one + 1] and right < offsets[other + 1]:
                if items[left] == items[right]:
                    for column in range(rows.shape[1]):
                        total += np.float64(rows[left, column]) * np.float64(rows[right, column])
                    left += 1
                    right += 1
                elif items[left] < items[right]:
                    left += 1
                else:
                    right += 1
            products[one, other] += total
            if other < one:
                products[other, one] += total


def weights_by_similarity(products: F64, confidence: float) -> F64:
    """Return a weight from 0 to 1 for each model, given the inner products of all pairs."""
    n = len(products)
    if n < 2:
        return np.ones(n)
    norms = np.sqrt(np.diagonal(products))
    scale = np.outer(norms, norms)
    cosines = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    np.fill_diagonal(cosines, -np.inf)
    most = cosines.max(axis=1)
    # pardoning: a model that resembles one with more resemblance than its own is not to blame
    ratio = np.divide(
        most[:, None], most[None], out=np.ones_like(cosines), where=most[None] > np.maximum(most[:, None], 0)
    )
    np.fill_diagonal(cosines, 0.0)
    cosines *= np.maximum(ratio, 0.0)
    np.fill_diagonal(cosines, -np.inf)
    weights = np.clip(1.0 - cosines.max(axis=1), 0.0, 1.0)
    if weights.max() < 1e-6:
        return np.zeros(n)
    weights /= weights.max()
    with np.errstate(divide="ignore"):
        logits = confidence * (np.log(weights / np.maximum(1.0 - weights, 1e-5)) + 0.5)
    return np.clip(logits, 0.0, 1.0)
