"""Membership inference by a classifier that is trained on shadow models with known training items.

References
----------
Shokri, Stronati, Song and Shmatikov, "Membership inference attacks against machine learning models", S&P 2017; for
recommenders Zhang, Ren, Wang, Ren, Chen, Hu and Zhang, "Membership inference attacks against recommender systems", CCS
2021, which asks whether a user took part, from its list of recommendations.

Notes
-----
Here single items are asked about, as in the first paper. It trains a network per class on predicted probabilities; the
classes would be items here, of which most have too few scores. So there is one logistic regression for all items, on
four features: the standardised score, its rank among the candidates, the mean score of the item for known users that
have not trained on it, and the difference of the two scores.
"""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.reference_models import (
    ReferenceAttack,
    ReferenceScores,
    item_means,
)
from gossiprec.base.arrays import F64, I32, Bools

RIDGE = 1e-3
"""Weight of the squared coefficients of the classifier per sample."""


@ATTACKS.register("shadow-mia")
class ShadowMIA(ReferenceAttack):
    """Membership inference by a classifier, by coalitions or the coordinator."""

    name = "shadow-mia"
    uses_torch = True  # not torch, but LAPACK: its last digits also differ between processors

    def fitted(self, references: ReferenceScores) -> tuple[F64, F64]:
        """Return the mean score of each item for others, and the coefficients of the classifier."""
        means = item_means(references, self.context.scorer.layout.n_items, members=False)
        found = features(means[references.items], references.scores, references.ranks)
        return means, fit_logistic(found, references.is_member)

    def judged(self, learnt: tuple[F64, F64], items: I32, scores: F64, ranks: F64) -> F64:
        """Return the classifier's logits."""
        means, coefficients = learnt
        return np.asarray((features(means[items], scores, ranks) * coefficients).sum(axis=1), np.float64)


def features(means: F64, scores: F64, ranks: F64) -> F64:
    """Return the features of candidates, and a constant, shape (n, 5)."""
    return np.stack([scores, ranks, means, scores - means, np.ones_like(scores)], axis=1)


def fit_logistic(inputs: F64, is_member: Bools) -> F64:
    """Return the coefficients of a logistic regression with a small penalty; zeros if all are members, or none is."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    if is_member.all() or not is_member.any():
        return np.zeros(inputs.shape[1])
    model = LogisticRegression(C=1 / (RIDGE * len(inputs)), fit_intercept=False, max_iter=1000)
    with threadpool_limits(limits=1):
        found: F64 = model.fit(inputs, is_member).coef_[0]
    return found
