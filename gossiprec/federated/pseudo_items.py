"""Pseudo items: a share of a client's pairs uses items that it has never taken, so that an upload proves nothing.

References
----------
The PerFedRec++ paper (specification, section 5), as in its published code: pairs are replaced, so that some taken
items may be masked as well. That code draws a pseudo item and its negative among all items, so that either
may be one that the user has taken, and both may be the same (`among` all); otherwise neither is.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64
from gossiprec.models.feeds.base import Columns


def add_pseudo_items(
    samples: Columns,
    *,
    n_items: int,
    share: float,
    draw: np.random.Generator,
    positives: I32,
    among: Literal["others", "all"] = "others",
) -> Columns:
    """Replace a share of pairs by a pseudo item with a random negative.

    A pseudo item is uniform over the items that the user has not taken, its negative over the same items without the
    pseudo item; all are independent. Replaced pairs are uniform: of a positive with several negatives some may stay.

    Parameters
    ----------
    samples : mapping of str to ndarray, shape (n_pairs,)
        ``items`` and ``negatives``, int32, and possibly more columns, which stay as they are.
    n_items : int
    share : float
        From 0, for none, to 1: ``max(1, floor(share * n_pairs))`` pairs are replaced.
    draw : Generator
    positives : ndarray of int32, shape (n_positives,)
        The user's items, ascending, each once.
    among : {'others', 'all'}
        Others: see above. All: a pseudo item and its negative are independent and uniform over all items.

    Returns
    -------
    mapping of str to ndarray, shape (n_pairs,)
        New arrays of the same types. Nothing is replaced for users of a single item, who would lose their only pair,
        and for users with less than two items not taken: one as pseudo item, one as its negative.
    """
    found = {name: column.copy() for name, column in samples.items()}
    n_pairs, n_others = len(samples["items"]), n_items - len(positives)
    if not share or not n_pairs or len(positives) < 2 or (among == "others" and n_others < 2):
        return found
    number = max(1, int(share * n_pairs))
    replaced = draw.choice(n_pairs, number, replace=False)
    if among == "all":
        found["items"][replaced] = draw.integers(n_items, size=number)
        found["negatives"][replaced] = draw.integers(n_items, size=number)
        return found
    pseudo = draw.integers(n_others, size=number)
    negative = draw.integers(n_others - 1, size=number)
    negative += negative >= pseudo
    found["items"][replaced] = complement_by_rank(positives, pseudo)
    found["negatives"][replaced] = complement_by_rank(positives, negative)
    return found


def complement_by_rank(taken: npt.NDArray[np.integer], ranks: I64) -> I64:
    """Return nonnegative numbers that are not in `taken`, by their rank among such numbers.

    Parameters
    ----------
    taken : ndarray of int, shape (n,)
        Ascending, each once, from 0 on.
    ranks : ndarray of int64, any shape
        From 0 on: 0 is the least number that is not in `taken`.

    Returns
    -------
    ndarray of int64, of the shape of `ranks`
    """
    lower = taken.astype(np.int64) - np.arange(len(taken))  # numbers below each that are not taken
    return np.asarray(ranks + np.searchsorted(lower, ranks, side="right"), np.int64)
