"""Moves between items, from how an update of ``prme-g`` moved their rows in the space of sequences.

A move from i to k pulls the rows S_i and S_k together, and pushes S_i and a sampled negative apart. So the change of an
item's row is a sum over its partners i of ``w_i (S_i - S_k)``, and a part along S_k from the penalty, where
w_i is above 0 for moves and below 0 for negatives. An item has few partners, which orthogonal matching pursuit finds if
the version before the update is known. This is gradient inversion, exact for one step of plain gradient descent in more
dimensions than items moved, and an approximation otherwise.

The pull has no direction. But an item is pushed away from negatives as often as a move leaves it, and pulled as often
as a move leaves or reaches it. The direction of each move follows from the flow through the graph of pulls that leaves
and reaches each item as often.

References
----------
Y. C. Pati, R. Rezaiifar, P. S. Krishnaprasad, "Orthogonal matching pursuit: recursive function approximation with
applications to wavelet decomposition", Asilomar 1993; here that of scikit-learn.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64

PARTNERS = 12
"""Largest number of partners of an item."""
MOST_ITEMS = 400
"""Largest number of items between which moves are looked for: those that moved furthest."""


def split_amounts(amounts: F64) -> float:
    """Return the border, at least 0, between two groups of ascending amounts of which the means differ most (Otsu)."""
    if len(amounts) < 2:
        return 0.0
    low = np.arange(1, len(amounts))
    sums = np.cumsum(amounts)
    apart = sums[:-1] / low - (sums[-1] - sums[:-1]) / (len(amounts) - low)
    at = int(np.argmax(apart**2 * low * (len(amounts) - low)))
    return max(0.0, float(amounts[at] + amounts[at + 1]) / 2)


class MovedItems(NamedTuple):
    """The items that an update moved furthest, their rows before it, and how it moved them."""

    items: I32
    rows: F32
    changes: F32

    @classmethod
    def of(cls, rows: F32, changes: F32) -> MovedItems:
        """Return them, given the rows of all items in the space of sequences, shape (n_items, dim)."""
        lengths = np.square(changes).sum(axis=1)
        moved = np.flatnonzero(lengths)
        if len(moved) > MOST_ITEMS:
            moved = np.sort(moved[np.argsort(-lengths[moved], kind="stable")[:MOST_ITEMS]])
        return cls(moved.astype(np.int32), rows[moved], changes[moved])


def estimate_moves(moved: MovedItems) -> tuple[I32, I32]:
    """Return the item before and the item after each move that an update probably learned."""
    if len(moved.items) < 2:
        return moved.items[:0], moved.items[:0]
    pulls = _pulls(moved.rows.astype(np.float64), moved.changes.astype(np.float64))
    one, other = np.triu_indices(len(moved.items), 1)
    strengths = np.maximum(pulls[one, other], 0.0)
    chosen = strengths > split_amounts(np.sort(strengths[strengths > 0]))
    one, other = one[chosen], other[chosen]
    height = _heights(pulls, one, other)
    forward = height[one] > height[other]
    ends = np.where(forward, one, other), np.where(forward, other, one)
    return moved.items[ends[0]], moved.items[ends[1]]


def _pulls(rows: F64, changes: F64) -> F64:
    """Return how far each pair of items was pulled together, below 0 if it was pushed apart; symmetric."""
    from sklearn.linear_model import orthogonal_mp

    n, dim = rows.shape
    found = np.zeros((n, n))
    for place in range(n):
        partners = np.vstack([rows - rows[place], rows[place]])
        norms = np.linalg.norm(partners, axis=1)
        norms[norms == 0] = np.inf
        with warnings.catch_warnings():  # partners of which the rows depend on one another end the pursuit
            warnings.simplefilter("ignore")
            weights = orthogonal_mp(
                (partners / norms[:, None]).T, changes[place], n_nonzero_coefs=min(PARTNERS, n, dim)
            )
        found[place] = (weights / norms)[:n]
    np.fill_diagonal(found, 0.0)
    return np.asarray((found + found.T) / 2)


def _heights(pulls: F64, one: I64, other: I64) -> F64:
    """Return a number per item; moves go from the higher to the lower end of a pull."""
    joined = np.zeros(pulls.shape)
    joined[one, other] = joined[other, one] = pulls[one, other]
    left_more_than_reached = 2 * np.maximum(-pulls, 0.0).sum(axis=1) - joined.sum(axis=1)
    links = joined > 0
    return np.asarray(
        np.linalg.pinv(np.diag(links.sum(axis=1)) - links.astype(float)) @ left_more_than_reached
    )
