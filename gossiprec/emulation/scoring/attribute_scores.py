"""Inferred attributes of users, checked and joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.adversaries.attacks.attributes import AttributeScores
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.rng import generator
from gossiprec.data.user_classes import user_classes
from gossiprec.emulation.scoring.item_scores import area_under_curve, rank_groups
from gossiprec.emulation.scoring.judges import JUDGES, Judge, Truth
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.emulation.scoring.result_checks import check_ids, check_once, check_shape, refuse
from gossiprec.measures.ranking import mean_by_user, nanmean

_RATES = ("balanced_accuracy", "auc", "accuracy", "majority_balanced_accuracy", "majority_accuracy")
DRAWS = 200
"""Number of draws of victims for an interval."""


def balanced_accuracy(probabilities: F64, truth: I64) -> float:
    """Return the mean over the classes that occur of the share of their users that is guessed right.

    The likeliest class is guessed, one of them at random on a tie.
    """
    right = _right(probabilities, truth)
    return float(np.mean([right[truth == code].mean() for code in np.unique(truth)]))


def _right(probabilities: F64, truth: I64) -> F64:
    """Return the probability with which each user's class is guessed right."""
    likeliest = probabilities == probabilities.max(axis=1, keepdims=True)
    own = likeliest[np.arange(len(truth)), truth]
    return np.asarray(own / likeliest.sum(axis=1), np.float64)


def macro_auc(probabilities: F64, truth: I64) -> float:
    """Return the mean over the classes that occur of the AUC of one class against the rest; NaN if only one occurs."""
    classes = np.unique(truth)
    if len(classes) < 2:
        return np.nan
    found = [area_under_curve(rank_groups(probabilities[:, code], truth == code)) for code in classes]
    return float(np.mean(found))


def auc_interval(probabilities: F64, truth: I64, draw: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % interval of the macro AUC, by drawing victims with replacement, each class its own size."""
    classes = np.unique(truth)
    if len(classes) < 2:
        return np.nan, np.nan
    own = [np.flatnonzero(truth == code) for code in classes]
    weights = np.zeros((DRAWS, len(truth)))
    for users in own:
        weights[:, users] = draw.multinomial(len(users), np.full(len(users), 1 / len(users)), size=DRAWS)
    total = np.zeros(DRAWS)
    for code, users in zip(classes, own, strict=True):
        _, place = np.unique(-probabilities[:, code], return_inverse=True)
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        is_own = np.isin(order, users)
        members = np.add.reduceat(weights[:, order] * is_own, starts, axis=1)
        others = np.add.reduceat(weights[:, order] * ~is_own, starts, axis=1)
        below = others.sum(axis=1, keepdims=True) - np.cumsum(others, axis=1) + others / 2
        total += (members * below).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1))
    low, high = np.percentile(total / len(classes), [2.5, 97.5])
    return float(low), float(high)


@JUDGES.register("attribute-scores")
class AttributeJudge(Judge):
    """The judge of inferred attributes, which also finds what the raw data say about them."""

    def __init__(self, truth: Truth, rankings: RankingScores) -> None:
        super().__init__(truth, rankings)
        self._split = truth.split
        self._ceilings: dict[tuple[object, ...], F64] = {}
        self._raw: tuple[bytes, F32, F32] | None = None

    def findings(self, found: AttributeScores, users: I64 | None = None) -> Iterator[Finding]:
        """Yield the results of what an attack has inferred; of a group of users only those that are known.

        Raises
        ------
        PluginError
            If a victim is known or unknown to the data, or a number is not finite.
        """
        for finding in self._findings(found, users):
            if users is None or not np.isnan(finding.value):
                yield finding

    def _findings(self, found: AttributeScores, users: I64 | None) -> Iterator[Finding]:
        known = found.known
        _, codes = user_classes(self._split, known.name, known.bins)
        asked = np.setdiff1d(np.flatnonzero(codes >= 0), known.users)
        self._check(found)
        is_in = np.ones(len(codes), np.bool_) if users is None else np.isin(np.arange(len(codes)), users)
        scored = (codes >= 0)[found.victims] & is_in[found.victims]
        victims, probabilities = found.victims[scored], found.probabilities[scored]
        observers, truth = found.observers[scored], codes[victims]
        of_asked = is_in[asked]
        inferred = len(np.unique(victims)) / of_asked.sum() if of_asked.any() else np.nan
        yield Finding("attribute_inferred", found.labels, inferred)
        by_name: dict[str, list[float]] = {name: [] for name in _RATES}
        low = high = np.nan
        of_victims = None
        if len(victims):
            of_victims = mean_by_user(victims, _right(probabilities, truth))
            parts = [np.flatnonzero(observers == one) for one in np.unique(observers)]
            rates = [_rates(probabilities[own], truth[own]) for own in parts]
            rates += [_guessing(known.codes, truth[own]) for own in parts]
            for each in rates:
                for name, value in each.items():
                    by_name[name].append(value)
            low, high = self._interval(probabilities, truth, parts)
        for name, values in by_name.items():
            mean = nanmean(np.array(values, np.float64))
            per_node = of_victims if name == "accuracy" else None
            yield Finding(f"attribute_{name}", found.labels, mean, per_node=per_node)
        yield Finding("attribute_auc_low", found.labels, low)
        yield Finding("attribute_auc_high", found.labels, high)
        ceiling = dict.fromkeys(_RATES, np.nan)
        if of_asked.any():
            ceiling = _rates(self._ceiling(found, asked)[of_asked], codes[asked[of_asked]])
        yield Finding("attribute_ceiling_balanced_accuracy", found.labels, ceiling["balanced_accuracy"])
        yield Finding("attribute_ceiling_auc", found.labels, ceiling["auc"])

    def _check(self, found: AttributeScores) -> None:
        subject, known = f"observers: inference of {found.known.name} has", found.known.users
        shape = len(found.victims), len(found.known.classes)
        check_shape(subject, "probabilities", found.probabilities, shape)
        check_shape(subject, "observers", found.observers, found.victims.shape)
        check_ids(subject, "victim", found.victims, self._split.n_users)
        if len(wrong := found.victims[np.isin(found.victims, known)]):
            refuse(subject, f"victim {wrong[0]}", "users of whom the attack does not know it")
        check_once(subject, "a victim of an observer", found.observers * self._split.n_users + found.victims)
        if not np.isfinite(found.probabilities).all():
            refuse(subject, "a probability that is not a number", "one")

    def _interval(self, probabilities: F64, truth: I64, parts: list[I64]) -> tuple[float, float]:
        """Return an interval over the victims of one observer, or over the observers if there are several."""
        draw = generator(0, "attribute-interval")
        if len(parts) == 1:
            return auc_interval(probabilities, truth, draw)
        values = np.array([macro_auc(probabilities[own], truth[own]) for own in parts])
        values = values[~np.isnan(values)]
        if len(values) < 2:
            return np.nan, np.nan
        means = values[draw.integers(len(values), size=(DRAWS, len(values)))].mean(axis=1)
        low, high = np.percentile(means, [2.5, 97.5])
        return float(low), float(high)

    def _ceiling(self, found: AttributeScores, asked: I64) -> F64:
        """Return the probabilities of classes that the same classifier infers from the items of all users."""
        known = found.known
        strength = getattr(found.classify, "strength", None)
        key = (known.name, known.bins, known.users.tobytes(), strength)
        if key not in self._ceilings:
            whose = known.users.tobytes() + asked.tobytes()
            # the same arrays let a classifier reuse its coordinates
            if self._raw is None or self._raw[0] != whose:
                train = self._split.train
                items = np.zeros((self._split.n_users, self._split.n_items), np.float32)
                items[train.row_of_each_value, train.values] = 1
                self._raw = whose, items[known.users], items[asked]
            self._ceilings[key] = found.classify(self._raw[1], known.codes, self._raw[2], len(known.classes))
        return self._ceilings[key]


def _rates(probabilities: F64, truth: I64) -> dict[str, float]:
    return {
        "balanced_accuracy": balanced_accuracy(probabilities, truth),
        "auc": macro_auc(probabilities, truth),
        "accuracy": float(_right(probabilities, truth).mean()),
    }


def _guessing(known: I64, truth: I64) -> dict[str, float]:
    """Return the rates of always guessing the most frequent class among known users, one of them at random on a tie."""
    counts = np.bincount(known, minlength=truth.max() + 1).astype(np.float64)
    guess = np.tile(counts, (len(truth), 1))
    balanced, accuracy = balanced_accuracy(guess, truth), float(_right(guess, truth).mean())
    return {"majority_balanced_accuracy": balanced, "majority_accuracy": accuracy}
