"""Success of the community detection attack, and what bounds it.

Arrays of communities hold user ids, one row for each adversary. The denominator is always the community size, even
where fewer users were met.

References
----------
arXiv:2306.08929, section 5: attack accuracy, average attack accuracy (AAC), best 10 % AAC, both bounds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, Bools
from gossiprec.measures.top_k import in_top_k

BLOCK_CELLS = 4_000_000
"""Scores of victims that are ranked at once: some 60 MB with the temporaries, however many adversaries there are."""


def hits_of_scores(scores: npt.NDArray[np.floating], community: npt.NDArray[np.integer]) -> Bools:
    """Return which members of each community are among the K victims that its adversary scores highest.

    Parameters
    ----------
    scores : ndarray, shape (n_adversaries, n_victims)
        Relevance of each victim; NaN where the adversary has met no model of it (always so for itself).
    community : ndarray of int, shape (n_adversaries, K)
        Distinct ids in each row, the truth; of equal scores those of the lower ids are taken.

    Returns
    -------
    ndarray of bool, shape (n_adversaries, K)
    """
    hits = np.empty(community.shape, np.bool_)
    height = max(1, BLOCK_CELLS // max(1, scores.shape[1]))
    for low in range(0, len(scores), height):
        some = slice(low, low + height)
        found = in_top_k(_ranked(scores[some]), community.shape[1]) & ~np.isnan(scores[some])
        hits[some] = np.take_along_axis(found, community[some], axis=1)
    return hits


def accuracy_of_hits(hits: Bools) -> F64:
    """Return the share of each community that was found, ``|C ∩ Ĉ| / K``, shape (n_adversaries,)."""
    return np.asarray(hits.sum(axis=1) / hits.shape[1], np.float64)


def found_by(hits: Bools, community: npt.NDArray[np.integer], n_victims: int) -> F64:
    """Return how exposed each victim is: the share found it of those adversaries to whose community it belongs.

    Parameters
    ----------
    hits : ndarray of bool, shape (n_adversaries, K)
        From :func:`hits_of_scores`.
    community : ndarray of int, shape (n_adversaries, K)
    n_victims : int

    Returns
    -------
    ndarray of float64, shape (n_victims,)
        NaN for those who belong to no adversary's community.
    """
    asked = np.bincount(community.ravel(), minlength=n_victims)
    found = np.bincount(community[hits], minlength=n_victims)
    return np.asarray(np.divide(found, asked, out=np.full(n_victims, np.nan), where=asked > 0))


def _ranked(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the scores with those never met last: even a met victim at -inf comes before them."""
    # maximum keeps NaN, fmax takes the other number; to choose by a mask takes three times as long
    return np.asarray(np.fmax(np.maximum(scores, np.finfo(scores.dtype).min), -np.inf))


def aac(accuracies: F64) -> float:
    """Return the average attack accuracy over all adversaries."""
    return float(np.mean(accuracies))


def best_decile(accuracies: F64) -> tuple[float, float]:
    """Return the minimum and the mean accuracy of the best tenth, ``ceil(n / 10)`` adversaries.

    Notes
    -----
    The paper defines "best 10 % AAC" as the minimum, which is a multiple of 1/K; some of its printed values
    are not, so both are given.
    """
    best = np.sort(accuracies)[-math.ceil(accuracies.size / 10) :]
    return float(best[0]), float(best.mean())


def upper_bound(met: Bools, community: npt.NDArray[np.integer]) -> float:
    """Return the mean share of the communities that was met: no ranking of the met can find more.

    Parameters
    ----------
    met : ndarray of bool, shape (n_adversaries, n_victims)
    community : ndarray of int, shape (n_adversaries, K)
    """
    return float(np.take_along_axis(met, community, axis=1).mean())


def random_bound(k: int, n: int) -> float:
    """Return the accuracy of guessing a community of `k` among `n` users, ``k / n``.

    Notes
    -----
    The paper's K/N; a guesser who leaves itself out reaches K/(N - 1).
    """
    return k / n
