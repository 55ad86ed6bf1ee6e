"""Membership inference by a likelihood ratio: is a score likelier of a user that trained on the item, or that did not?

References
----------
Carlini, Chien, Nasr, Song, Terzis and Tramer, "Membership inference attacks from first principles", S&P 2022, and its
code, mi_lira_2021 in tensorflow/privacy.

Notes
-----
The online attack with a fixed variance, which the paper uses if there are few models: the score is the difference of
the logarithms of two normal densities, as in the code. (A distribution function in place of a density ranks by another
statistic: LeakPro, pull request 450.) Points that are left open, or differ because examples are items
(:mod:`~gossiprec.adversaries.attacks.reference_models`): means are those of an item, with the mean over all items as
one more score (the code has medians); the variance is that around the items' means, not that of all scores. The
confidence that the paper rescales to a logit is a logit here from the start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.reference_models import (
    ReferenceAttack,
    ReferenceScores,
    item_means,
)
from gossiprec.base.arrays import F64, I32

LEAST_DEVIATION = 1e-6


class Normals(NamedTuple):
    """Normal distributions of the scores of items: their means, and one deviation."""

    means: F64
    deviation: float

    def log_densities(self, items: I32, scores: F64) -> F64:
        """Return the logarithm of the density of each score, but for a constant."""
        from_mean = (scores - self.means[items]) / self.deviation
        return np.asarray(-0.5 * from_mean * from_mean - np.log(self.deviation), np.float64)


@ATTACKS.register("lira")
class LiRA(ReferenceAttack):
    """Membership inference by a likelihood ratio, by coalitions or the coordinator."""

    name = "lira"

    def fitted(self, references: ReferenceScores) -> tuple[Normals, Normals]:
        """Return the distributions of scores of members and of others."""
        return self._normals(references, members=True), self._normals(references, members=False)

    def _normals(self, references: ReferenceScores, *, members: bool) -> Normals:
        means = item_means(references, self.context.scorer.layout.n_items, members=members)
        some = references.is_member == members
        rest = references.scores[some] - means[references.items[some]]
        deviation = float(np.sqrt((rest * rest).mean())) if len(rest) else 0.0
        return Normals(means, max(deviation, LEAST_DEVIATION))

    def judged(self, learnt: tuple[Normals, Normals], items: I32, scores: F64, ranks: F64) -> F64:
        """Return the logarithm of the likelihood ratio of each score."""
        of_members, of_others = learnt
        return of_members.log_densities(items, scores) - of_others.log_densities(items, scores)
