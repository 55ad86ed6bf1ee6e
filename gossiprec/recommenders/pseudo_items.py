"""Pseudo items: a part of a client's pairs is about items that it has never taken, so that an upload proves nothing.

References
----------
The PerFedRec++ paper (specification, section 5), as its published code has it: pairs are replaced, so that some items
that were taken may be masked as well. That code draws a pseudo item and its negative among all items, so that either
may be one that the user has taken, and both may be the same (`among` all); else neither is.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I32, I64
from gossiprec.feeds.base import Columns


def add_pseudo_items(
    samples: Columns,
    *,
    n_items: int,
    share: float,
    draw: np.random.Generator,
    positives: I32,
    among: Literal["others", "all"] = "others",
) -> Columns:
    """Replace a share of pairs by a pseudo item beside a random negative.

    A pseudo item is uniform over the items that are not the user's, its negative over these but the pseudo item; all
    are independent. Which pairs go is uniform: of a positive with several negatives some pairs may stay.

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
        Others: see above. All: a pseudo item and its negative are uniform over all items, each by itself.

    Returns
    -------
    mapping of str to ndarray, shape (n_pairs,)
        New arrays of the same types. Nothing is replaced for users of a single item, whose only pair would go, and for
        those who lack less than two items, one to pretend and one to set against it.
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
    """Return numbers from 0 on that are not among some, by their rank among these.

    Parameters
    ----------
    taken : ndarray of int, shape (n,)
        Ascending, each once, from 0 on.
    ranks : ndarray of int64, any shape
        From 0 on: 0 is the least number that is not taken.

    Returns
    -------
    ndarray of int64, of the shape of `ranks`
    """
    lower = taken.astype(np.int64) - np.arange(len(taken))  # numbers below each that are not taken
    return np.asarray(ranks + np.searchsorted(lower, ranks, side="right"), np.int64)
