"""Candidates of membership inference: training items of each user, and equally many items it has not trained on.

The emulator draws them, since it knows the training items; an attack gets the items without the answer. How the others
are drawn decides what a result means: against uniform items, an attacker that knows only which items are popular does
better than chance. So by default each training item has a counterpart that exactly as many other users have, and
training items without one are no candidates. The user itself does not count: otherwise a training item would have one
other user fewer than its counterpart.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gossiprec.base.arrays import I64, Bools
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator

NonMembers = Literal["popularity", "uniform", "held-out"]
PURPOSE = "membership-candidates"


def draw_candidates(
    train: Ragged, held_out: Ragged, n_items: int, pairs: int, non_members: NonMembers, seed: int
) -> Ragged:
    """Return the candidates of every user, items ascending: up to `pairs` training items, and as many others.

    Parameters
    ----------
    train : Ragged of int32
        Training items of each user.
    held_out : Ragged of int32
        Other items of each user, which are drawn from if `non_members` is ``held-out``.
    n_items : int
    pairs : int
        Largest number of training items of a user among its candidates. Users with fewer others have fewer.
    non_members : {"popularity", "uniform", "held-out"}
        How the others are drawn: for each training item one that exactly as many other users have, at random, or from
        `held_out`.
    seed : int
    """
    popularity = np.bincount(train.values, minlength=n_items)
    found = []
    for user in range(len(train)):
        draw, members = generator(seed, PURPOSE, user), train[user]
        pool = np.setdiff1d(
            held_out[user] if non_members == "held-out" else np.arange(n_items, dtype=np.int32), members
        )
        chosen = draw.permutation(members)
        if non_members == "popularity":
            of_others = popularity[chosen] - 1  # the user has no item of the pool
            others = draw.permutation(pool[np.isin(popularity[pool], of_others)])
            own, partners = pair_equals(of_others, popularity[others])
            first = np.argsort(own)[:pairs]
            chosen, others = chosen[own[first]], others[partners[first]]
        else:
            n = min(pairs, len(members), len(pool))
            chosen, others = chosen[:n], draw.permutation(pool)[:n]
        found.append(np.sort(np.concatenate([chosen, others])).astype(np.int32))
    return Ragged.from_parts(found) if found else train


def pair_equals(first: I64, second: I64) -> tuple[I64, I64]:
    """Return the places of as many pairs of equal numbers as there are, in ascending order of the numbers.

    Parameters
    ----------
    first, second : ndarray of int64
        Numbers from 0. The k-th occurrence of a number in `first` is paired with its k-th occurrence in `second`.
    """
    most, keys = max(len(first), len(second)), []
    for numbers in (first, second):
        order = np.argsort(numbers, kind="stable")
        ordered, occurrence = numbers[order], np.empty(len(order), np.int64)
        occurrence[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        keys.append(numbers * (most + 1) + occurrence)
    _, of_first, of_second = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    return of_first, of_second


def membership_of(train: Ragged, candidates: Ragged) -> Bools:
    """Return whether each candidate is a training item of its user, shape (n_candidates,)."""
    n = int(max(train.values.max(initial=-1), candidates.values.max(initial=-1))) + 1
    keys = [sets.row_of_each_value * np.int64(n) + sets.values for sets in (candidates, train)]
    return np.isin(*keys)
