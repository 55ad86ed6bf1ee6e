"""Candidates of membership inference: training items of each user, and equally many items it has not trained on.

The emulator draws them, since it knows the training items; an attack gets the items without the answer. How the others
are drawn decides what a result means: against uniform items, an attacker that knows only which items are popular does
better than chance. So by default each training item has a counterpart of the same popularity.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gossiprec.base.arrays import I32, I64, Bools
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator

NonMembers = Literal["popularity", "uniform", "held-out"]
PURPOSE = "membership-candidates"


def draw_candidates(
    train: Ragged, held_out: Ragged, n_items: int, pairs: int, non_members: NonMembers, seed: int
) -> Ragged:
    """Return the candidates of every user, items ascending: at most `pairs` training items, and as many others.

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
        How the others are drawn: for each training item one of nearly the same popularity, at random, or from
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
        n = min(pairs, len(members), len(pool))
        chosen = draw.permutation(members)[:n]
        others = (
            _alike(popularity, chosen, pool, draw)
            if non_members == "popularity"
            else draw.permutation(pool)[:n]
        )
        found.append(np.sort(np.concatenate([chosen, others])).astype(np.int32))
    return Ragged.from_parts(found) if found else train


def _alike(popularity: I64, chosen: I32, pool: I32, draw: np.random.Generator) -> I32:
    """Return for each chosen item one of the pool that is nearest in popularity and not taken yet."""
    order = draw.permutation(pool)
    distance_to, free = popularity[order].astype(np.float64), np.ones(len(order), np.bool_)
    ties = draw.uniform(0.0, 0.5, len(order))  # neither lower nor higher popularity comes first
    places = np.zeros(len(chosen), np.int64)
    for k, item in enumerate(chosen.tolist()):
        distance = np.abs(distance_to - popularity[item]) + ties
        places[k] = np.argmin(np.where(free, distance, np.inf))
        free[places[k]] = False
    return np.asarray(order[places], np.int32)


def membership_of(train: Ragged, candidates: Ragged) -> Bools:
    """Return whether each candidate is a training item of its user, shape (n_candidates,)."""
    n = int(max(train.values.max(initial=-1), candidates.values.max(initial=-1))) + 1
    keys = [sets.row_of_each_value * np.int64(n) + sets.values for sets in (candidates, train)]
    return np.isin(*keys)
