"""Success of the community detection attack, and its bounds.

Ties carry no information: if scores tie at the border of the K best, each tied victim is guessed with its probability
under random tie-breaking. The accuracy is the expected share of the true community, in which users may be fractional
members (:class:`gossiprec.measures.communities.Communities`). The denominator is always the community size, even if
fewer users were met.

References
----------
arXiv:2306.08929, section 5: attack accuracy, average attack accuracy (AAC), best 10 % AAC, both bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F64, I64, Floats
from gossiprec.base.rounding import difference
from gossiprec.measures.communities import Communities

BLOCK_CELLS = 4_000_000
"""Scores of victims that are ranked at once: about 60 MB with the temporaries, for any number of adversaries."""


class Guess(NamedTuple):
    """The K victims that each adversary scores highest; victims tied at the border are guessed by a fraction.

    Attributes
    ----------
    border : ndarray, shape (n_adversaries,)
        The K-th best score. Victims with a better score are guessed.
    share : ndarray of float64, shape (n_adversaries,)
        Probability that a victim at the border is guessed.
    number : ndarray of int64, shape (n_adversaries,)
        Number of victims that are guessed: K, or the number of victims met if that is lower.
    """

    border: Floats
    share: F64
    number: I64

    def of_adversaries(self, low: int, high: int) -> Guess:
        """Return the guesses of some adversaries, without a copy."""
        return Guess(self.border[low:high], self.share[low:high], self.number[low:high])

    def guess_probabilities(self, scores: Floats, adversaries: I64) -> F64:
        """Return the probability that victims with these scores are guessed by these adversaries."""
        known = np.maximum(scores, np.finfo(scores.dtype).min)  # keeps NaN, which compares as false
        border = self.border[adversaries]
        return np.asarray((known > border) + self.share[adversaries] * (known == border))


def guess_top_victims(scores: Floats, k: int) -> Guess:
    """Return the `k` victims that each adversary scores highest.

    Parameters
    ----------
    scores : ndarray, shape (n_adversaries, n_victims)
        Relevance of each victim; NaN if the adversary has met no model of it (always so for itself).
    k : int
    """
    lowest, n = np.finfo(scores.dtype).min, len(scores)
    found = Guess(np.full(n, lowest, scores.dtype), np.ones(n), np.zeros(n, np.int64))
    for rows in _blocks(scores):
        some = scores[rows]
        # Negated: past many equal numbers, as of users never met, numpy takes ten times as long.
        ordered = -np.fmax(some, -np.inf)
        ordered.partition(k - 1, axis=1)
        border = np.maximum(-ordered[:, k - 1], lowest)
        number = np.count_nonzero(some >= border[:, None], axis=1)
        few = np.flatnonzero(border == lowest)  # all that were met, even at -inf
        number[few] = np.count_nonzero(~np.isnan(some[few]), axis=1)
        crowded = np.flatnonzero(number > k)
        better = np.count_nonzero(some[crowded] > border[crowded, None], axis=1)
        found.share[rows.start + crowded] = (k - better) / (number[crowded] - better)
        found.border[rows], found.number[rows] = border, np.minimum(number, k)
    return found


def accuracies(scores: Floats, guesses: Guess, communities: Communities) -> F64:
    """Return the expected share of each community that its adversary guesses, shape (n_adversaries,).

    Parameters
    ----------
    scores : ndarray, shape (n_adversaries, n_victims)
    guesses : Guess
        From :func:`guess_top_victims`.
    communities : Communities
        The true community of each adversary.
    """
    found = np.zeros(len(scores))
    for rows in _blocks(scores):
        some = communities.select_range(rows.start, rows.stop)
        listed = scores[rows][some.row_of_each_value, some.values]
        found[rows] = accuracies_from_member_scores(
            listed, guesses.of_adversaries(rows.start, rows.stop), some
        )
    return found


def accuracies_from_member_scores(member_scores: Floats, guesses: Guess, communities: Communities) -> F64:
    """Return :func:`accuracies` from the scores of the listed users only, in the order of ``communities.values``."""
    owners = communities.row_of_each_value
    weights = guesses.guess_probabilities(member_scores, owners) * (
        communities.share - communities.rest[owners]
    )
    found = np.add.reduceat(weights, communities.offsets[:-1]) + communities.rest * guesses.number
    return np.asarray(np.clip(found / communities.k, 0.0, 1.0))  # rounding may exceed either bound


def overlap_fractions(true: Communities, found: Communities) -> F64:
    """Return the expected share of each community that the other community of its centre contains, shape (n,)."""
    shared = np.zeros(len(true))
    height = max(1, BLOCK_CELLS // true.n_users)
    for low in range(0, len(true), height):
        some = low, min(low + height, len(true))
        shared[slice(*some)] = (
            true.select_range(*some).membership_matrix() * found.select_range(*some).membership_matrix()
        ).sum(axis=1)
    return shared / true.k


def community_fractions_met(scores: Floats, communities: Communities) -> F64:
    """Return the share of each community that its adversary has met, shape (n_adversaries,).

    Its mean is an upper bound: no ranking of the victims met can find more.
    """
    owners = communities.row_of_each_value
    met = ~np.isnan(scores[owners, communities.values])
    found = np.add.reduceat(met * (communities.share - communities.rest[owners]), communities.offsets[:-1])
    spread = np.flatnonzero(communities.rest)
    found[spread] += communities.rest[spread] * np.count_nonzero(~np.isnan(scores[spread]), axis=1)
    return np.asarray(np.clip(found / communities.k, 0.0, 1.0))


def certain_hits(scores: Floats, guesses: Guess, communities: Communities) -> tuple[I64, I64]:
    """Return pairs of an adversary (its row) and a community member that it guesses without ties."""
    owners = communities.row_of_each_value
    weights = guesses.guess_probabilities(scores[owners, communities.values], owners)
    hits = (weights == 1.0) & (communities.share == 1.0)
    return owners[hits], communities.values[hits].astype(np.int64)


def exposures(scores: Floats, guesses: Guess, communities: Communities) -> F64:
    """Return the exposure of each victim: the share of its adversaries that found it.

    Returns
    -------
    ndarray of float64, shape (n_victims,)
        NaN for a victim that belongs to no adversary's community. The adversaries of a victim are those to the
        community of which it belongs.
    """
    n_victims = communities.n_users
    n_adversaries, found = np.zeros(n_victims), np.zeros(n_victims)
    for rows in _blocks(scores):
        some = communities.select_range(rows.start, rows.stop)
        mine = guesses.of_adversaries(rows.start, rows.stop)
        sparse, dense = np.flatnonzero(some.rest == 0.0), np.flatnonzero(some.rest > 0.0)
        few = some.select(sparse) if len(dense) else some
        weights = mine.guess_probabilities(
            scores[rows][sparse[few.row_of_each_value], few.values], sparse[few.row_of_each_value]
        )
        n_adversaries += np.bincount(few.values, few.share, n_victims)
        found += np.bincount(few.values, few.share * weights, n_victims)
        if not len(dense):
            continue
        members = some.select(dense).membership_matrix()
        n_adversaries += members.sum(axis=0)
        adversaries = np.repeat(dense[:, None], n_victims, axis=1)
        found += (members * mine.guess_probabilities(scores[rows][dense], adversaries)).sum(axis=0)
    return np.asarray(
        np.divide(found, n_adversaries, out=np.full(n_victims, np.nan), where=n_adversaries > 0)
    )


LINK_CELLS = 200_000_000
"""Products of profiles per pair of views in :func:`linked_share`: about a fifth of a second."""


def linked_share(views: Sequence[Floats]) -> float:
    """Return how often a victim of one view resembles itself in another view most, among all victims there.

    A profile is a victim's relevance for all adversaries, standardised over the victims and then over the adversaries.

    Parameters
    ----------
    views : sequence of ndarray, shape (n_adversaries, n_victims)
        Relevance of each virtual node for each adversary, in the order of the victims; NaN if it was not met.

    Returns
    -------
    float
        Ties count by the probability of a random choice. Guessing has one over the number of victims met. In large
        runs evenly spaced victims are judged; NaN if no victim was met in two views.
    """
    met = [~np.isnan(view).all(axis=0) for view in views]
    profiles = [np.ascontiguousarray(_standardized(_standardized(view.T).T).T) for view in views]
    found: list[F64] = []
    for one, other in itertools.permutations(range(len(views)), 2):
        asked, known = np.flatnonzero(met[one] & met[other]), np.flatnonzero(met[other])
        most = max(1, LINK_CELLS // max(1, views[0].shape[0] * len(known)))
        asked = asked[:: -(-len(asked) // most) or 1]
        # without BLAS, of which the order of summation depends on the threads
        alike = np.einsum("ia,ja->ij", profiles[one][asked], profiles[other][known])
        own = alike[np.arange(len(asked)), np.searchsorted(known, asked)]
        ties = (alike == own[:, None]).sum(axis=1)
        found.append((alike.max(axis=1, initial=-np.inf) == own) / ties)
    shares = np.concatenate(found) if found else np.zeros(0)
    return float(shares.mean()) if len(shares) else math.nan


def _standardized(values: Floats) -> F64:
    """Return each column less its mean, over its standard deviation; unknown and equal values are zero."""
    known, wide = ~np.isnan(values), values.astype(np.float64)
    count = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, difference(wide, np.where(known, wide, 0.0).sum(axis=0) / count), 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0), np.float64)


def _blocks(scores: Floats) -> list[slice]:
    """Return slices of the rows of a table of scores, each small enough to rank at once."""
    height = max(1, BLOCK_CELLS // max(1, scores.shape[1]))
    return [slice(low, min(low + height, len(scores))) for low in range(0, len(scores), height)]


def average_attack_accuracy(accuracies: F64) -> float:
    """Return the average attack accuracy over all adversaries."""
    return float(np.mean(accuracies))


def best_decile(accuracies: F64) -> tuple[float, float]:
    """Return the minimum and the mean accuracy of the best tenth, ``ceil(n / 10)`` adversaries.

    Notes
    -----
    The paper defines "best 10 % AAC" as the minimum, which is a multiple of 1/K; some of its published values are
    not, so both are returned.
    """
    best = np.sort(accuracies)[-math.ceil(accuracies.size / 10) :]
    return float(best[0]), float(best.mean())


def random_bound(k: int, n: int) -> float:
    """Return the accuracy of guessing a community of `k` among `n` users, ``k / n``.

    Notes
    -----
    This is the paper's K/N; a guesser that excludes itself reaches K/(N - 1).
    """
    return k / n
