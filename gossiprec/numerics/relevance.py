"""Relevance rules: how well a model serves a set of target items.

Each rule takes the scores (logits) of the target items, shape (n_models, n_targets), and of the reference items, shape
(n_models, n_references), which the target set does not contain. It returns one number per model, never NaN, for NaN
marks a victim that was not met. A model with NaN scores (its training diverged) is ranked last.

Compiled observers know rules by their codes; the compiled forms are in :mod:`gossiprec.numerics.relevance_kernels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64
from gossiprec.measures.ranking import CUTOFF, candidate_ranks, discounted_gains


def mean_score(targets: F32, references: F32) -> F32:
    """Return the mean predicted probability of the target items (CDA paper, eq. 4)."""
    with np.errstate(over="ignore"):
        return _last_if_nan((1.0 / (1.0 + np.exp(-targets))).mean(axis=1))


def ndcg(targets: F32, references: F32) -> F32:
    """Return the mean NDCG@20 of each target item among itself and the references (published code).

    Ties count against the target, as in that code: a model that gives all items the same score serves no target.
    """
    ranks = candidate_ranks(targets, references[:, None, :])
    return np.asarray(np.where(ranks < CUTOFF, discounted_gains(ranks), 0.0).mean(axis=1), np.float32)


def standardized(targets: F32, references: F32) -> F32:
    """Return the mean target score in deviations from the model's own mean over the references.

    Models of different users are calibrated differently; this compares each with itself, in logits: probabilities of
    a long-trained model crowd at 0 and 1. A model that gives all references the same score is worth 0.
    """
    wide = references.astype(np.float64)
    with np.errstate(invalid="ignore"):  # of infinite scores
        gap = targets.mean(axis=1, dtype=np.float64) - wide.mean(axis=1)
        deviation = wide.std(axis=1)
    return _last_if_nan(np.divide(gap, deviation, out=np.zeros_like(gap), where=deviation != 0))


def entropy(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return ``-(1 - p) log p`` for logits: the model's surprise that the item is a positive.

    References
    ----------
    arXiv 2306.08929, eq. 11: modified entropy with the label 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        surprise = np.maximum(-scores, 0) + np.log1p(np.exp(-np.abs(scores)))
        return np.asarray(surprise / (1.0 + np.exp(scores)))


def count_members(targets: F32, references: F32, *, threshold: float) -> F32:
    """Return the number of target items judged members of the training set, plus a tie-break below 1/2.

    An item is a member if its :func:`entropy` is below the threshold (eq. 12). Among models with equal numbers the
    one with the lower mean entropy comes first: ``0.5 / (1 + mean)`` is added.
    """
    surprise = entropy(targets).astype(np.float32)
    with np.errstate(invalid="ignore"):
        count = (surprise < np.float32(threshold)).sum(axis=1)
        return _last_if_nan(count + 0.5 / (1.0 + surprise.mean(axis=1, dtype=np.float64)))


def _last_if_nan(values: npt.NDArray[np.floating]) -> F32:
    return np.where(np.isnan(values), -np.inf, values).astype(np.float32)


def mean_raw_score(targets: F32, references: F32) -> F32:
    """Return the mean raw score of the targets: ``mean_score`` for models that predict no probability.

    PRME-G's score is ``-D``; a sigmoid of it would say nothing more and be 0 for all that is far away.
    """
    with np.errstate(invalid="ignore"):  # of infinite scores
        return _last_if_nan(targets.mean(axis=1, dtype=np.float64))


RELEVANCE: dict[str, Callable[[F32, F32], F32]] = {
    "mean_score": mean_score,
    "ndcg": ndcg,
    "standardized": standardized,
}
"""The rules that a scenario of CDA can name; the code of a rule is its place here."""

MEAN_SCORE, NDCG, STANDARDIZED = range(3)
MEMBERS, CLOSENESS = -1, -2
"""Codes of :func:`count_members` and of :func:`mean_raw_score`, which no scenario names."""
MIA = "mia-"
"""Prefix of the names of membership rules; the threshold follows, as in ``mia-0.4``."""


def get_rule(name: str, *, probabilities: bool = True) -> Callable[[F32, F32], F32]:
    """Return the rule of a name; for models without probabilities ``mean_score`` is the mean raw score."""
    code, threshold = rule_code(name, probabilities=probabilities)
    if code == MEMBERS:
        return functools.partial(count_members, threshold=threshold)
    return mean_raw_score if code == CLOSENESS else RELEVANCE[name]


def rule_code(name: str, *, probabilities: bool = True) -> tuple[int, float]:
    """Return the code of a rule and its threshold."""
    if name.startswith(MIA):
        return MEMBERS, float(name.removeprefix(MIA))
    if name == "mean_score" and not probabilities:
        return CLOSENESS, 0.0
    return list(RELEVANCE).index(name), 0.0


def rule_codes(names: Sequence[str], *, probabilities: bool) -> tuple[I64, F32]:
    """Return the codes and the thresholds of several rules."""
    codes, thresholds = zip(*(rule_code(name, probabilities=probabilities) for name in names), strict=True)
    return np.array(codes), np.array(thresholds, np.float32)
