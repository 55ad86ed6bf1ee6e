"""Distributions of attack accuracy over the adversaries, at the best round of each attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64
from gossiprec.figures.attack_selection import AttackKey, attack_curves, run_names
from gossiprec.runs import Run


@dataclass(frozen=True)
class AccuracyDistribution:
    """The accuracies of the adversaries of one attack.

    Attributes
    ----------
    accuracy : ndarray of float64
        Distinct accuracies, ascending, as fractions.
    share : ndarray of float64
        Share of the adversaries with this accuracy or less.
    adversaries : int
    random_bound : float
        NaN if the run does not report it.
    """

    accuracy: F64
    share: F64
    adversaries: int
    random_bound: float


def accuracy_distribution(accuracies: npt.ArrayLike, random_bound: float) -> AccuracyDistribution:
    """Return the empirical distribution of these accuracies."""
    levels, counts = np.unique(np.asarray(accuracies, np.float64), return_counts=True)
    return AccuracyDistribution(levels, np.cumsum(counts) / counts.sum(), int(counts.sum()), random_bound)


def accuracy_distributions(runs: Sequence[Run]) -> dict[AttackKey, AccuracyDistribution]:
    """Return the distribution of each attack of each run that wrote its adversaries."""
    found = {}
    for run, name in zip(runs, run_names(runs), strict=True):
        curves = attack_curves(run, name)
        for label, (_, accuracies) in run.adversaries.items():
            key = AttackKey.read(name, label)
            bound = float(curves[key]["random_bound"][0]) if key in curves else float("nan")
            if accuracies.size:
                found[key] = accuracy_distribution(accuracies, bound)
    return found
