"""Contributions of users to the coordinator: the exponential mechanism, perturbed sets and their report.

References
----------
The PDC-FRS paper (specification, section 4). Epsilon is the budget of one item; the budget of a user's whole set is
epsilon times its number of items (sequential composition), which the paper does not mention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.rules.similarities import Similarity

BLOCK_CELLS = 1_000_000
"""Probabilities in memory at the same time: about 30 MB with the temporaries, for any number of items."""


class ExponentialMechanism:
    """The mechanism that replaces item i by j with probability ~ exp(epsilon * sim(i, j) / (2 * sensitivity)).

    All items are candidates, the item itself among them. The probability of an outcome differs between any two items by
    a factor up to exp(epsilon).

    Parameters
    ----------
    similarity : Similarity
        Fitted.
    epsilon : float
        Budget of each item, above 0.
    sensitivity : float, optional
        Largest difference between the similarities of two items to a third; by default the similarity's own.

    Raises
    ------
    ScenarioError
        If epsilon is not above 0, or the sensitivity is unknown or smaller than the known one.
    """

    def __init__(self, similarity: Similarity, *, epsilon: float, sensitivity: float | None = None) -> None:
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ScenarioError(f"epsilon: found {epsilon}; expected a finite number above 0, such as 5")
        self.similarity = similarity
        self.epsilon = epsilon
        self.sensitivity = _sensitivity(similarity, sensitivity)

    def blocks(self, items: I64) -> Iterator[tuple[slice, F32, F64]]:
        """Yield blocks of the items as slices, with their similarities and their probabilities.

        Parameters
        ----------
        items : ndarray of int64, shape (n,)

        Yields
        ------
        slice
            Of `items`.
        ndarray of float32, shape (height, n_items)
            Similarities to all items.
        ndarray of float64, shape (height, n_items)
            Probabilities of all items; each row's sum is 1.

        Raises
        ------
        ScenarioError
            If similarities are further apart than the sensitivity.
        """
        low, high = np.float32(np.inf), np.float32(-np.inf)
        height = max(1, BLOCK_CELLS // self.similarity.rows(items[:0]).shape[1])
        for start in range(0, len(items), height):
            part = slice(start, min(start + height, len(items)))
            rows = self.similarity.rows(items[part])
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            self._require_near(float((high - low).max()))
            yield part, rows, self._probabilities(rows)

    def _probabilities(self, rows: F32) -> F64:
        """Return the softmax of each row; the largest exponent is 0, however large epsilon is."""
        exponents = rows.astype(np.float64) * (self.epsilon / (2 * self.sensitivity))
        exponents -= exponents.max(axis=1, keepdims=True)
        weights = np.exp(exponents)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _require_near(self, spread: float) -> None:
        if not spread <= self.sensitivity * (1 + 1e-6):
            raise ScenarioError(
                f"sensitivity: found {self.sensitivity:g}, but similarities of two items to a third differ "
                f"by {spread:g}, so epsilon would not hold; expected at least their largest possible "
                "difference"
            )


def _sensitivity(similarity: Similarity, stated: float | None) -> float:
    """Return the given or the known sensitivity; see :class:`ExponentialMechanism`."""
    known, name = similarity.sensitivity, registry_name(similarity)
    if stated is None:
        if known is None:
            raise ScenarioError(
                f"sensitivity: found none, and the sensitivity of the similarity {name} is unknown; expected "
                "a number above 0, the largest difference between the similarities of two items to a third"
            )
        return known
    if not (stated > 0 and math.isfinite(stated) and stated >= (known or 0)):
        least = (
            "a finite number above 0"
            if known is None
            else f"at least {known:g}, the largest difference of {name}"
        )
        raise ScenarioError(f"sensitivity: found {stated}; expected {least}")
    return stated


DRAW = purpose_id("contribution")
BARE = 0.99
"""Share of kept items from which on the report says that a contribution is the training data."""


class ReleasedSets(NamedTuple):
    """The part of a contribution that users release to the coordinator.

    Attributes
    ----------
    mechanism : ExponentialMechanism
        Public.
    sets : Ragged of int32, one row a user
    """

    mechanism: ExponentialMechanism
    sets: Ragged


class ContributionKnowledge(NamedTuple):
    """The knowledge of a coordinator that collects contributions and trains a model on them.

    Attributes
    ----------
    released : ReleasedSets
    popularity : ndarray of int64, shape (n_items,)
        Number of users who have each item, which the papers count as public.
    scores : callable
        Yields each user's scores of all items by the coordinator's present model, shape (n_items,).
    """

    released: ReleasedSets
    popularity: I64
    scores: Callable[[], Iterable[F32]]


@dataclass(frozen=True, eq=False)
class Contribution:
    """All users' contributions, with measures of how much they differ from the training items.

    Attributes
    ----------
    mechanism : ExponentialMechanism
    sets : Ragged of int32, one row a user
        The sets that the coordinator receives: ascending, each item once.
    drawn : ndarray of int32, shape (n_training_items,)
        The replacement of each training item, in the order of ``train.values``. Only the user knows it.
    kept : float
        Share of training items that were kept.
    similarity : float
        Mean similarity of the drawn items to the items that they replace.
    expected_keep : float
        The expected value of `kept`: the mean probability that a training item is kept.
    epsilon_set : ndarray of float64, shape (n_users,)
        Budget of each user's whole set.
    """

    mechanism: ExponentialMechanism
    sets: Ragged
    drawn: I32
    kept: float
    similarity: float
    expected_keep: float
    epsilon_set: F64

    @property
    def released(self) -> ReleasedSets:
        """The part that the coordinator receives."""
        return ReleasedSets(self.mechanism, self.sets)

    @property
    def epsilon_item(self) -> float:
        """Budget of each item."""
        return self.mechanism.epsilon

    def report(self) -> dict[str, float | str]:
        """Return the section of a run's summary, with a note if nearly nothing is perturbed."""
        section: dict[str, float | str] = {
            "epsilon_item": self.epsilon_item,
            "sensitivity": self.mechanism.sensitivity,
            "epsilon_set_mean": float(self.epsilon_set.mean()),
            "epsilon_set_max": float(self.epsilon_set.max()),
            "kept": self.kept,
            "expected_keep": self.expected_keep,
            "similarity": self.similarity,
            "items_mean": float(self.sets.sizes.mean()),
        }
        if self.expected_keep >= BARE:
            section["note"] = (
                f"{self.expected_keep:.1%} of the contributed items are unchanged: they reveal most "
                "of the training data"
            )
        return section


def perturb_items(
    train: Ragged, similarity: Similarity, *, epsilon: float, sensitivity: float | None = None, seed: int
) -> Contribution:
    """Replace each training item by the exponential mechanism, independently of all others.

    Parameters
    ----------
    train : Ragged of int32, one row a user
    similarity : Similarity
        Fitted.
    epsilon : float
        Budget of each item, above 0.
    sensitivity : float, optional
        By default the similarity's own.
    seed : int
        A draw depends only on (seed, user, item).

    Raises
    ------
    ScenarioError
        As :class:`ExponentialMechanism`.
    """
    mechanism = ExponentialMechanism(similarity, epsilon=epsilon, sensitivity=sensitivity)
    at = uniforms(seed, train.values, train.row_of_each_value, DRAW)
    items, counts = np.unique(train.values, return_counts=True)
    owners_of = Ragged.from_sizes(counts, np.argsort(train.values, kind="stable"))
    drawn = np.empty(len(train.values), np.int32)
    near, keeps = 0.0, 0.0
    for part, rows, probabilities in mechanism.blocks(items.astype(np.int64)):
        for k, row, chances in zip(range(part.start, part.stop), rows, probabilities, strict=True):
            those = owners_of[k]
            drawn[those] = _inverse(np.cumsum(chances), at[those])
            near += float(row[drawn[those]].sum(dtype=np.float64))
            keeps += float(chances[items[k]] * counts[k])
    return Contribution(
        mechanism=mechanism,
        sets=Ragged.sets_from_pairs(train.row_of_each_value, drawn, len(train)),
        drawn=drawn,
        kept=float(np.mean(drawn == train.values)),
        similarity=near / len(drawn),
        expected_keep=keeps / len(drawn),
        epsilon_set=np.asarray(epsilon * train.sizes, np.float64),
    )


def _inverse(bounds: F64, at: F64) -> I64:
    """Return the indices of draws from 0 to 1 among cumulative probabilities; never one with probability 0."""
    below = np.minimum(at * bounds[-1], np.nextafter(bounds[-1], 0))
    return np.asarray(np.searchsorted(bounds, below, side="right"), np.int64)
