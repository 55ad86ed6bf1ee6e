"""Compiled relevance rules: how well a model's scores serve a set of target items.

The plain forms, and the codes by which :func:`compute_relevance` knows them, are in
:mod:`gossiprec.numerics.relevance`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.measures.ranking import CUTOFF, discounted_gains
from gossiprec.native.jit import inline, strict_math
from gossiprec.native.tiles import LANES, count_not_below
from gossiprec.numerics.relevance import CLOSENESS, MEAN_SCORE, MEMBERS, NDCG

GAINS = discounted_gains(np.arange(CUTOFF))
WORTH = np.append(GAINS, 0.0)
"""Gains at ranks 0 to CUTOFF."""
MANY = 500
"""Number of references above which only the best are compared with the targets."""
SCRATCH = 2 * LANES + CUTOFF
"""Length of the working array of a relevance."""
FLAT = 1e-20
"""Relative spread below which float32 scores are equal: two that differ do so by 2**-24, squared and halved 2**-49."""


@inline
def mean_float64(values):
    """Return the mean, summed in double precision."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


@inline
def probability(score):
    """Return the predicted probability of a logit."""
    return float32(1.0) / (float32(1.0) + np.exp(-score))


@inline
def mean_probability(scores):
    """Return the mean predicted probability (``mean_score``)."""
    total = 0.0
    for score in scores:
        total += probability(score)
    return total / len(scores)


@inline
def select_top(scores, best):
    """Fill `best` with the CUTOFF best scores from the best down, NaN first; return their number."""
    count = 0
    for score in scores:
        if np.isnan(score):
            score = float32(np.inf)
        if count < CUTOFF or score > best[count - 1]:
            place = count if count < CUTOFF else CUTOFF - 1
            while place > 0 and best[place - 1] < score:
                best[place] = best[place - 1]
                place -= 1
            best[place] = score
            count = min(count + 1, CUTOFF)
    return count


@strict_math
def add_gains(ranks, count, total):
    """Return `total` plus the gains at the first `count` ranks, added in order."""
    for k in range(count):
        rank = np.int64(ranks[k])
        total += WORTH[rank if rank < CUTOFF else CUTOFF]
    return total


@inline
def mean_ndcg(targets, references, scratch):
    """Return the mean NDCG; ties, and references that are NaN, count against a target.

    `scratch` is an array of SCRATCH numbers. A target's rank is the number of references not below it; of many, only
    the best are compared.
    """
    n_targets, n_references, total = len(targets), len(references), 0.0
    if n_references > MANY:
        best = scratch[2 * LANES :]
        n_references, references = select_top(references, best), best
    for at in range(0, n_targets, LANES):
        count = min(LANES, n_targets - at)
        if count == LANES:
            count_not_below(scratch, 0, references, n_references, targets, at)
        else:
            for k in range(count):
                scratch[LANES + k] = targets[at + k]
            count_not_below(scratch, 0, references, n_references, scratch, LANES)
        total = add_gains(scratch, count, total)
    return total / n_targets


@inline
def standardized(targets, references):
    """Return the mean target score in deviations from the mean over the references."""
    middle = mean_float64(references)
    spread = 0.0
    for score in references:
        spread += (score - middle) ** 2
    if spread <= FLAT * middle**2:
        return 0.0
    return (mean_float64(targets) - middle) / math.sqrt(spread / len(references))


@inline
def entropy(score):
    """Return ``-(1 - p) log p`` of a logit."""
    surprise = np.log1p(np.exp(-abs(score)))
    if score < float32(0.0):
        surprise -= score
    return surprise / (float32(1.0) + np.exp(score))


@inline
def count_members(surprise, threshold):
    """Return the number of entropies below the threshold, plus the tie-break of the plain form."""
    count, total = 0, 0.0
    for e in surprise:
        count += e < threshold
        total += e
    return count + 0.5 / (1.0 + total / len(surprise))


@inline
def nan_to_lowest(value):
    """Return the value, or minus infinity for NaN, so that it ranks last."""
    return -np.inf if np.isnan(value) else value


@inline
def compute_relevance(rule, threshold, targets, references, scratch):
    """Return the relevance by the rule's code; for the rule ``members``, `targets` are entropies.

    `scratch` is an array of SCRATCH numbers of float32.
    """
    if rule == MEAN_SCORE:
        return nan_to_lowest(mean_probability(targets))
    if rule == NDCG:
        return mean_ndcg(targets, references, scratch)
    if rule == MEMBERS:
        return nan_to_lowest(count_members(targets, threshold))
    if rule == CLOSENESS:
        return nan_to_lowest(mean_float64(targets))
    return nan_to_lowest(standardized(targets, references))
