"""The lower bound of epsilon from guesses about canaries, each of which a coin has put into the data or left out.

References
----------
T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, theorem 5.2: if an
algorithm has (epsilon, delta)-differential privacy towards each of m canaries, the number of right guesses among r is
hardly above that of r coins that show the right side with probability ``e^epsilon / (1 + e^epsilon)``.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64, Bools

SHARES = (1.0, 0.5, 0.2, 0.05)
"""Shares of the canaries, the surest first, that are guessed; the confidence is divided among them."""
LARGEST_EPSILON = 50.0


def chance_of_guesses(epsilon: float, delta: float, *, canaries: int, guesses: int, right: int) -> float:
    """Return an upper bound of the probability of at least `right` right guesses under (epsilon, delta)-privacy.

    Parameters
    ----------
    epsilon, delta : float
    canaries : int
        m: all canaries, each in the data with probability 1/2.
    guesses, right : int
        r: canaries that were guessed, and the right ones of them.
    """
    from scipy.stats import binom

    coin = 1.0 / (1.0 + np.exp(-epsilon))
    exact = float(binom.sf(right - 1, guesses, coin))
    # below `right` by at most i, with probability sum(...): delta moves that many guesses
    missing = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - missing, guesses, coin))
    return min(1.0, exact + 2.0 * canaries * delta * float((below / missing).max(initial=0.0)))


def lower_epsilon(delta: float, confidence: float, *, canaries: int, guesses: int, right: int) -> float:
    """Return the epsilon that the guesses refute at a confidence: every smaller one is false; 0 if none is.

    The largest value that is returned is :data:`LARGEST_EPSILON`.
    """

    def is_refuted(epsilon: float) -> bool:
        chance = chance_of_guesses(epsilon, delta, canaries=canaries, guesses=guesses, right=right)
        return chance < 1.0 - confidence

    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def audit_scores(scores: F64, members: Bools, delta: float, confidence: float) -> tuple[float, int, int]:
    """Return the largest lower bound from scores of canaries, and the guesses and right guesses that give it.

    The surest canaries are guessed: the highest scores as members, as many of the lowest as non-members.

    Parameters
    ----------
    scores : ndarray of float64, shape (m,)
        High for canaries that seem to be in the data.
    members : ndarray of bool, shape (m,)
    delta : float
    confidence : float
        Of the result, for all shares in :data:`SHARES` together.
    """
    order, best = np.argsort(-scores, kind="stable"), (0.0, 0, 0)
    for share in SHARES:
        half = max(1, round(share * len(scores) / 2))
        half = min(half, len(scores) // 2)
        right = int(members[order[:half]].sum() + (~members[order[len(order) - half :]]).sum())
        one = 1.0 - (1.0 - confidence) / len(SHARES)
        bound = lower_epsilon(delta, one, canaries=len(scores), guesses=2 * half, right=right)
        best = max(best, (bound, 2 * half, right))
    return best
