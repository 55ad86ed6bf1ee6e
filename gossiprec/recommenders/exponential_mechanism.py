"""The exponential mechanism on items: which item stands in for another, with what probability.

References
----------
F. McSherry, K. Talwar, "Mechanism design via differential privacy", FOCS 2007; the PDC-FRS paper (specification,
section 4), which perturbs each item by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gossiprec.arrays import F32, F64, I64
from gossiprec.errors import ScenarioError
from gossiprec.similarities import Similarity

BLOCK_CELLS = 1_000_000
"""Probabilities held at once: about 30 MB with the temporaries, however many items there are."""


class ExponentialMechanism:
    """Puts item j in the place of item i with probability proportional to exp(epsilon * sim(i, j) / (2 * sensitivity)).

    All items are candidates, the item itself among them. Whoever sees the outcome can tell two items that may have been
    there apart by a factor of exp(epsilon) at most.

    Parameters
    ----------
    similarity : Similarity
        Fitted.
    epsilon : float
        Budget of each item, above 0.
    sensitivity : float, optional
        The most by which the similarities of two items to a third can differ; by default the similarity's own.

    Raises
    ------
    ScenarioError
        If epsilon is not above 0, the sensitivity is not known, or is smaller than it is known to be.
    """

    def __init__(self, similarity: Similarity, *, epsilon: float, sensitivity: float | None = None) -> None:
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ScenarioError(f"epsilon: found {epsilon}; expected a finite number above 0, such as 5")
        self.similarity = similarity
        self.epsilon = epsilon
        self.sensitivity = _sensitivity(similarity, sensitivity)

    def blocks(self, items: I64) -> Iterator[tuple[slice, F32, F64]]:
        """Yield, for some of the items at a time, which they are, their similarities, and their probabilities.

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
    """Return the sensitivity that is stated, or known; see :class:`ExponentialMechanism`."""
    known, name = similarity.sensitivity, type(similarity).__name__
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
