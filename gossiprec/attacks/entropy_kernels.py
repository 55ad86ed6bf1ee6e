"""Entropy-based membership compiled: see :func:`gossiprec.attacks.relevance.members`."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.numerics.jit import inline, kernel


@inline
def entropy(score):
    """Return ``-(1 - p) log p`` of a logit."""
    surprise = np.log1p(np.exp(-abs(score)))
    if score < float32(0.0):
        surprise -= score
    return surprise / (float32(1.0) + np.exp(score))


@inline
def members(surprise, threshold):
    """Return the rule's number for the entropies of the targets."""
    count, total = 0, 0.0
    for e in surprise:
        count += e < threshold
        total += e
    return count + 0.5 / (1.0 + total / len(surprise))


@kernel
def rank_by_members(scores, victims, offsets, items, n_targets, thresholds, latest):
    """Fill ``latest[rule, target set, victim]``, one rule a threshold, from scores (n_victims, n_items)."""
    n = len(victims)
    columns = np.empty((scores.shape[1], n), float32)
    for item in range(len(columns)):
        for v in range(n):
            columns[item, v] = entropy(scores[v, item])
    total, count = np.empty(n), np.empty((len(thresholds), n), np.int32)
    for a in range(len(n_targets)):
        targets = items[offsets[a] : offsets[a] + n_targets[a]]
        total[:] = 0.0
        count[:] = 0
        for item in targets:
            column = columns[item]
            for v in range(n):
                total[v] += column[v]
            for r in range(len(thresholds)):
                for v in range(n):
                    count[r, v] += column[v] < thresholds[r]
        for r in range(len(thresholds)):
            for v in range(n):
                found = count[r, v] + 0.5 / (1.0 + total[v] / len(targets))
                latest[r, a, victims[v]] = -np.inf if np.isnan(found) else found
