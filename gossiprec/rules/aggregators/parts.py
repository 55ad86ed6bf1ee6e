"""Aggregation of models of which some numbers were not sent: each number is reduced over those that sent it."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, Bools
from gossiprec.rules.aggregators.base import BLOCK, Aggregator, Inbox
from gossiprec.rules.aggregators.median import Median
from gossiprec.rules.aggregators.trimmed_mean import TrimmedMean


def takes_parts(rule: Aggregator) -> bool:
    """Return whether a rule reduces each number by itself: a mean, the median, or the trimmed mean."""
    return rule.streaming or (isinstance(rule, (Median, TrimmedMean)) and not rule.uses_deltas)


def are_valid_parts(inbox: Inbox, is_partial: Bools) -> Bools:
    """Return whether each received model has no infinite number, and NaN only if its sender sends parts."""
    valid = np.ones(len(inbox), np.bool_)
    for _, received in inbox.received():
        valid &= (np.isfinite(received) | (np.isnan(received) & is_partial[:, None])).all(axis=1)
    return valid


def reduce_parts(rule: Aggregator, own: F32, inbox: Inbox) -> F32:
    """Return the reduced model; a number that no model has keeps the receiver's value."""
    out = own.copy()
    reduce_block = _mean if rule.streaming else _robust
    width = max(1, BLOCK // (16 * max(len(inbox), 1)))
    for columns, models in inbox.models(own):
        for low in range(0, models.shape[1], width):
            some = slice(low, low + width)
            reduce_block(rule, out[columns][some], models[:, some], inbox)
    return out


def _mean(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    there = ~np.isnan(models)
    weights = inbox.model_weights[:, None] * there
    mass = weights.sum(axis=0)
    share = np.divide(weights, mass, out=np.zeros_like(weights), where=mass > 0)
    total = (share * np.where(there, models, np.float32(0.0))).sum(axis=0)
    np.copyto(out, total, casting="same_kind", where=mass > 0)


def _robust(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    """Reduce numbers that equally many models have together, as one item of one number each."""
    assert isinstance(rule, (Median, TrimmedMean))
    counts = (~np.isnan(models)).sum(axis=0)
    for n in np.unique(counts[counts > 0]).tolist():
        places = np.flatnonzero(counts == n)
        some = models[:, places]
        values = some.T[~np.isnan(some).T].reshape(len(places), n)
        out[places] = rule.combine(np.ascontiguousarray(values)[:, :, None].transpose(1, 0, 2))[:, 0]
