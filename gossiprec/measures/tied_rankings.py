"""Measures of rankings with ties: each is its expectation over random orders of what ties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, Bools


class RankedGroups(NamedTuple):
    """The numbers of members and of others at each distinct score, highest score first."""

    members: F64
    others: F64


def rank_groups(scores: F32 | F64, is_member: Bools) -> RankedGroups:
    """Return the groups of equal scores."""
    _, place = np.unique(-scores, return_inverse=True)
    members = np.bincount(place[is_member], minlength=place.max(initial=-1) + 1)
    return RankedGroups(members.astype(np.float64), np.bincount(place).astype(np.float64) - members)


def area_under_curve(groups: RankedGroups) -> float:
    """Return how often a member ranks above another pair, ties counting half; NaN if one of the two is missing."""
    members, others = groups
    pairs = members.sum() * others.sum()
    below = others.sum() - np.cumsum(others) + others / 2
    return float((members * below).sum() / pairs) if pairs else np.nan


def average_precision(groups: RankedGroups) -> float:
    """Return the mean over members of the precision at their rank; NaN if there is none.

    Notes
    -----
    A group of g pairs with m members after N pairs with M members: at its place i, a member is expected with
    probability m / g, and then M + 1 + (i - 1) (m - 1) / (g - 1) members among N + i pairs. The sums over i are
    differences of harmonic numbers (McSherry and Najork, "Computing information retrieval performance measures
    efficiently in the presence of tied scores", ECIR 2008).
    """
    members, sizes = groups.members, groups.members + groups.others
    if not members.sum():
        return np.nan
    after = np.cumsum(sizes).astype(np.int64)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, after[-1] + 1))])
    before, found = after - sizes, np.cumsum(members) - members
    inverse = harmonic[after] - harmonic[before.astype(np.int64)]
    step = np.maximum(members - 1, 0) / np.maximum(sizes - 1, 1)
    parts = members / sizes * ((found + 1) * inverse + step * (sizes - (before + 1) * inverse))
    return float(parts.sum() / members.sum())


def true_positive_rate(groups: RankedGroups, false_positive_rate: float) -> float:
    """Return the share of members above the threshold that lets through a share of the others; NaN if one is missing.

    Pairs at the threshold are let through at random, so that exactly this share is reached.
    """
    members, others = (np.concatenate([[0.0], np.cumsum(part)]) for part in groups)
    if not members[-1] or not others[-1]:
        return np.nan
    allowed = false_positive_rate * others[-1] * (1 + 1e-12)
    at = int(np.searchsorted(others, allowed, side="right")) - 1
    if at + 1 == len(others):
        return 1.0
    share = (allowed - others[at]) / (others[at + 1] - others[at])
    return float((members[at] + share * (members[at + 1] - members[at])) / members[-1])


def precision_at(scores: F32 | F64, is_member: Bools, k: int) -> float:
    """Return the share of members among the k highest scores; NaN if there are not more than k."""
    if len(scores) <= k:
        return np.nan
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, tied = scores > border, scores == border
    hits = np.count_nonzero(is_member & above)
    return float((hits + (k - np.count_nonzero(above)) * is_member[tied].mean()) / k)
