"""Relevance rules: how well a model serves a set of target items.

Each takes the scores (logits) of the target items, shape (n_models, n_targets), and of the reference items, shape
(n_models, n_references), which the target set does not contain; and returns one number per model, never NaN:
that stands for a victim not met. A model whose scores are not numbers (its training diverged) is ranked last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

CUTOFF = 20
"""Rank at which NDCG is cut, as in the published code."""


def mean_score(targets: F32, references: F32) -> F32:
    """Return the mean predicted probability of the target items (CDA paper, eq. 4)."""
    with np.errstate(over="ignore"):
        return _last_if_nan((1.0 / (1.0 + np.exp(-targets))).mean(axis=1))


def ndcg(targets: F32, references: F32) -> F32:
    """Return the mean NDCG@20 of each target item among itself and the references (published code).

    Ties count against the target, as there: a model that scores everything alike serves no one.
    """
    ranks = (~(references[:, None, :] < targets[:, :, None])).sum(axis=2)
    gains = np.where(ranks < CUTOFF, 1.0 / np.log2(ranks + 2.0), 0.0)
    return np.asarray(gains.mean(axis=1), np.float32)


def standardized(targets: F32, references: F32) -> F32:
    """Return the mean target score in deviations from the model's own mean over the references.

    Models of different users are calibrated differently; this compares each with itself, in logits: probabilities of
    a long-trained model crowd at 0 and 1. A model that gives all references the same score is worth 0.
    """
    wide = references.astype(np.float64)
    gap = targets.mean(axis=1, dtype=np.float64) - wide.mean(axis=1)
    deviation = wide.std(axis=1)
    return _last_if_nan(np.divide(gap, deviation, out=np.zeros_like(gap), where=deviation != 0))


def _last_if_nan(values: npt.NDArray[np.floating]) -> F32:
    return np.where(np.isnan(values), -np.inf, values).astype(np.float32)


RELEVANCE: dict[str, Callable[[F32, F32], F32]] = {
    "mean_score": mean_score,
    "ndcg": ndcg,
    "standardized": standardized,
}
