"""Scores of single items, checked and joined with the truth, which no attack sees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import Attack, ItemScores
from gossiprec.adversaries.attacks.candidates import pair_equals
from gossiprec.adversaries.attacks.findings import Finding, Label
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import PluginError
from gossiprec.base.rng import generator, purpose_id, uniforms
from gossiprec.emulation.scoring.judges import JUDGES, Judge
from gossiprec.emulation.scoring.result_checks import check_ids, check_once, refuse, refuse_own
from gossiprec.measures.ranking import mean_by_user
from gossiprec.measures.selectors import ROC, ROC_MEASURES, USER_MEASURES


@JUDGES.register("item-scores")
class ItemScoreJudge(Judge):
    """The judge of scores of single items."""

    def check(self, subject: str, found: ItemScores, attack: Attack) -> None:
        """Refuse scores that cannot be joined with the truth."""
        split, own = self._truth.split, np.concatenate([attack.nodes, *attack.pools])
        check_item_scores(subject, found, (split.n_users, split.n_items), own)

    def findings(self, found: ItemScores, users: I64 | None = None) -> Iterator[Finding]:
        """Yield the results of scores; the further ones of candidates of all victims only."""
        is_member = self._truth.is_member
        of_users = found if users is None else found.of_victims(users)
        if users is None or len(of_users.victims):
            yield from item_findings(of_users, is_member)
        if users is None and found.are_candidates:
            yield from candidate_findings(found, is_member, self._truth.seed)

    def notes(self, per_node: Mapping[str, tuple[I64, F64]]) -> list[str]:
        """Return a note on each list of victims of which not more items are scored than a list is long."""
        notes = []
        for name, (_, values) in per_node.items():
            n = np.count_nonzero(np.isnan(values))
            if n and name.startswith("item_precision["):
                notes.append(
                    f"{name}: of {n:,} of {len(values):,} victims no more than k items are scored, so they are left out"
                )
        return notes


def check_item_scores(subject: str, found: ItemScores, shape: tuple[int, int], own: I64) -> None:
    """Refuse scores that cannot be joined with the truth.

    Parameters
    ----------
    subject : str
        The section and the name of the attack.
    found : ItemScores
    shape : (n_users, n_items)
    own : ndarray of int64
        The attack's own nodes.

    Raises
    ------
    PluginError
    """
    columns = ("victims", "items", "scores", *(() if found.adversaries is None else ("adversaries",)))
    shapes = {name: np.shape(getattr(found, name)) for name in columns}
    if len(set(shapes.values())) > 1 or len(shapes["victims"]) != 1:
        raise PluginError(
            f"{subject}: item_scores() returned arrays of shapes {shapes}; expected one victim, one item and one score "
            "for each pair; fix the attack"
        )
    names = f"{subject}: item_scores() names"
    check_ids(names, "victim", found.victims, shape[0])
    check_ids(names, "item", found.items, shape[1])
    if found.k < 1:
        refuse(f"{subject}: item_scores() has", f"k = {found.k}", "at least 1")
    unknown = np.flatnonzero(np.isnan(found.scores))
    if len(unknown):
        pair = f"victim {found.victims[unknown[0]]} and item {found.items[unknown[0]]}"
        raise PluginError(
            f"{subject}: the score of {pair} is NaN; expected a number; leave out pairs that the attack cannot score"
        )
    _check_nodes(subject, found, own)
    check_once(names, "a victim and item", _pairs(found, shape))


def _check_nodes(subject: str, found: ItemScores, own: I64) -> None:
    """Refuse adversaries that are no nodes of the attack, and victims of which it has the data."""
    if found.adversaries is None:
        known = found.victims[np.isin(found.victims, own)]
    else:
        others = found.adversaries[~np.isin(found.adversaries, own)]
        if len(others):
            found_one = f"adversary {others[0]}, which is no node of the attack"
            refuse(f"{subject}: item_scores() names", found_one, "one of its own nodes")
        known = found.victims[found.victims == found.adversaries]
    refuse_own(subject, known, "item_scores()")


def _pairs(found: ItemScores, shape: tuple[int, int]) -> I64:
    """Return a number for each victim and item, and each adversary if there are several."""
    pairs, adversaries = found.victims.astype(np.int64) * shape[1] + found.items, found.adversaries
    return pairs if adversaries is None else adversaries.astype(np.int64) * math.prod(shape) + pairs


def item_findings(found: ItemScores, is_member: Bools) -> Iterator[Finding]:
    """Yield the results of an attack's scores.

    Parameters
    ----------
    found : ItemScores
    is_member : ndarray of bool, shape (n_users, n_items)
        Whether each user has trained on each item.
    """
    labels: Mapping[str, Label] = {**found.labels, "k": found.k}
    truth = is_member[found.victims, found.items]
    groups = rank_groups(found.scores, truth)
    of_victims = aucs_of_victims(found, truth) if found.are_candidates else None
    yield Finding("item_auc", labels, area_under_curve(groups), per_node=of_victims)
    if found.are_candidates:
        by_popularity = rank_groups(other_users(found, truth, is_member).astype(np.float64), truth)
        yield Finding("item_auc_popularity", labels, area_under_curve(by_popularity))
        yield Finding("item_advantage", labels, advantage(groups))
    yield Finding("item_average_precision", labels, average_precision(groups))
    victims, precisions = _precisions(found, truth)
    known = precisions[~np.isnan(precisions)]
    mean = float(known.mean()) if len(known) else math.nan
    yield Finding("item_precision", labels, mean, per_node=(victims, precisions))
    yield Finding("item_tpr_at_1", labels, true_positive_rate(groups, 0.01))
    yield Finding("item_tpr_at_0.1", labels, true_positive_rate(groups, 0.001))
    yield Finding("item_members", labels, float(truth.mean()) if len(truth) else math.nan)


ROC_RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""False positive rates at which the ROC curve is reported."""
RESAMPLES = 200
"""Draws of victims for the intervals."""
_SETS = purpose_id("membership-sets")


def candidate_findings(found: ItemScores, is_member: Bools, seed: int) -> Iterator[Finding]:
    """Yield the further results of an attack's scores of candidates: ROC curve, intervals over victims, and the same
    for all items of a victim together.

    Parameters
    ----------
    found : ItemScores
    is_member : ndarray of bool, shape (n_users, n_items)
    seed : int
        Of the resamples. Intervals have 95 %: from the 2.5th to the 97.5th percentile of resampled victims.
    """
    labels: Mapping[str, Label] = {**found.labels, "k": found.k}
    truth = is_member[found.victims, found.items]
    groups = rank_groups(found.scores, truth)
    for rate in ROC_RATES:
        yield Finding(ROC, {**labels, "fpr": rate}, true_positive_rate(groups, rate))
    yield from _with_intervals("item", labels, found, truth, seed)
    sets, is_own = scores_of_sets(found, truth, other_users(found, truth, is_member), seed)
    for name, value in zip(USER_MEASURES, _rates(rank_groups(sets.scores, is_own)), strict=True):
        yield Finding(name, labels, value)
    yield from _with_intervals("user", labels, sets, is_own, seed)


def other_users(found: ItemScores, truth: Bools, is_member: Bools) -> I64:
    """Return the number of users other than the victim that have the item of each pair, shape (n_pairs,)."""
    return np.asarray(is_member.sum(axis=0)[found.items] - truth, np.int64)


def scores_of_sets(found: ItemScores, truth: Bools, others: I64, seed: int) -> tuple[ItemScores, Bools]:
    """Return the scores of two sets of items of each victim, and which of them are the training items.

    Each training item is paired with another candidate that exactly as many other users have, at random if there are
    several; items without a partner are left out. Over fifty items small differences would add up, and the number of
    other users would tell the sets apart. The score of a set is the mean over its items. Several adversaries score
    each set once.

    Parameters
    ----------
    found : ItemScores
    truth : ndarray of bool, shape (n_pairs,)
        Whether the victim has trained on the item.
    others : ndarray of int64, shape (n_pairs,)
        Number of other users that have the item.
    seed : int
    """
    owners = found.victims.astype(np.int64)
    if found.adversaries is not None:
        owners = found.adversaries.astype(np.int64) * (int(owners.max(initial=0)) + 1) + owners
    _, groups = np.unique(owners * (int(others.max(initial=0)) + 1) + others, return_inverse=True)
    order = np.argsort(uniforms(seed, found.items, found.victims, _SETS))
    halves = [order[truth[order] == kind] for kind in (True, False)]
    matched = pair_equals(*(groups[half] for half in halves))
    own, other = (half[which] for half, which in zip(halves, matched, strict=True))
    begins = np.flatnonzero(np.diff(owners[own], prepend=-1))
    n_items = np.diff(begins, append=len(own))
    with np.errstate(invalid="ignore", over="ignore"):
        of_halves = (found.scores[half].astype(np.float64) for half in (own, other))
        scores = [np.add.reduceat(values, begins) / n_items for values in of_halves]
    places = np.repeat(own[begins], 2)
    sets = replace(
        found,
        victims=found.victims[places],
        items=found.items[places],
        scores=np.stack(scores, axis=1).ravel(),
        adversaries=None,
    )
    return sets, np.arange(len(places)) % 2 == 0


def _with_intervals(
    unit: str, labels: Mapping[str, Label], found: ItemScores, truth: Bools, seed: int
) -> Iterator[Finding]:
    """Yield the ends of the intervals of the rates of items, or of sets of a user's items."""
    for rate, values in zip(ROC_MEASURES, _resampled(found, truth, seed).T, strict=True):
        known = values[~np.isnan(values)]
        low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (math.nan, math.nan)
        yield Finding(f"{unit}_{rate}_low", labels, float(low))
        yield Finding(f"{unit}_{rate}_high", labels, float(high))


def _rates(groups: RankedGroups) -> tuple[float, float, float, float]:
    """Return AUC, advantage, and true positive rates at 1 % and 0.1 % false positives."""
    at_1, at_01 = (true_positive_rate(groups, share) for share in (0.01, 0.001))
    return area_under_curve(groups), advantage(groups), at_1, at_01


def _resampled(found: ItemScores, truth: Bools, seed: int) -> F64:
    """Return the rates of resampled victims, shape (RESAMPLES, 4)."""
    victims, of_pair = np.unique(found.victims, return_inverse=True)
    place = np.unique(-found.scores, return_inverse=True)[1]
    size = int(place.max(initial=-1)) + 1
    draw = generator(seed, "membership-intervals")
    values = np.full((RESAMPLES, len(ROC_MEASURES)), math.nan)
    for k in range(RESAMPLES if len(victims) else 0):
        times = np.bincount(draw.integers(len(victims), size=len(victims)), minlength=len(victims))[of_pair]
        members, others = (
            np.asarray(np.bincount(place, weights=times * kind, minlength=size), np.float64)
            for kind in (truth, ~truth)
        )
        values[k] = _rates(RankedGroups(members, others))
    return values


def aucs_of_victims(found: ItemScores, truth: Bools) -> tuple[I64, F64]:
    """Return the victims, ascending, and the AUC of each; several adversaries' scores are pooled."""
    order = np.argsort(found.victims, kind="stable")
    victims, begins = np.unique(found.victims[order], return_index=True)
    parts = np.split(order, begins[1:]) if len(order) else []
    aucs = [area_under_curve(rank_groups(found.scores[own], truth[own])) for own in parts]
    return victims.astype(np.int64), np.array(aucs, np.float64)


def _precisions(found: ItemScores, truth: Bools) -> tuple[I64, F64]:
    """Return the victims, ascending, and the precision at k of each: NaN if not more than k items are scored.

    A victim that several adversaries score has the mean over them.
    """
    list_of = found.victims.astype(np.int64)
    if found.adversaries is not None:
        list_of = list_of * (int(found.adversaries.max(initial=0)) + 1) + found.adversaries
    order = np.argsort(list_of, kind="stable")
    lists = np.split(order, np.flatnonzero(np.diff(list_of[order])) + 1) if len(order) else []
    values = np.array([precision_at(found.scores[own], truth[own], found.k) for own in lists])
    owners = np.array([found.victims[own[0]] for own in lists], np.int64)
    return mean_by_user(owners, values)


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


def advantage(groups: RankedGroups) -> float:
    """Return the largest difference between true and false positive rate at a threshold; NaN if one is missing."""
    members, others = (np.cumsum(part) for part in groups)
    if not len(members) or not members[-1] or not others[-1]:
        return np.nan
    return max(0.0, float((members / members[-1] - others / others[-1]).max()))


def precision_at(scores: F32 | F64, is_member: Bools, k: int) -> float:
    """Return the share of members among the k highest scores; NaN if there are not more than k."""
    if len(scores) <= k:
        return np.nan
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, tied = scores > border, scores == border
    hits = np.count_nonzero(is_member & above)
    return float((hits + (k - np.count_nonzero(above)) * is_member[tied].mean()) / k)
