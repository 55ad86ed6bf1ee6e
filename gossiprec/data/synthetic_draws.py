"""Distinct items for each user from a mixture of communities, in memory proportional to the interactions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.machine import usable_cores
from gossiprec.ragged import Ragged
from gossiprec.rng import generator

USERS_PER_BLOCK = 4096
ROUNDS = 5
"""Rounds of drawing with rejection before the few users who lack popular items are completed one by one."""


def draw_items(seed: int, counts: I64, members: F64, tastes: F64) -> tuple[I64, I64]:
    """Draw `counts[u]` distinct items for each user u, as if one by one without replacement.

    Parameters
    ----------
    seed : int
    counts : ndarray of int, shape (n_users,)
        Each below n_items.
    members : ndarray, shape (n_users, n_communities)
        Proportions; rows add up to 1.
    tastes : ndarray, shape (n_communities, n_items)
        Item probabilities, all positive; rows add up to 1.

    Returns
    -------
    users, items : ndarray of int64, shape (counts.sum(),)
        Sorted by user, then item.
    """
    n_users, n_items = len(counts), tastes.shape[1]

    def keys(start: int) -> I64:
        rows, block = slice(start, start + USERS_PER_BLOCK), start // USERS_PER_BLOCK
        draws = generator(seed, "data.synthetic.draws", node=block)
        found: I64 = np.sort(_draw_block(draws, counts[rows], members[rows], tastes)) + start * n_items
        return found

    with ThreadPoolExecutor(usable_cores()) as threads:  # most of a block is numpy's, without the interpreter
        users, items = np.divmod(
            np.concatenate([*threads.map(keys, range(0, n_users, USERS_PER_BLOCK))]), n_items
        )
    return users, items


def _draw_block(draws: np.random.Generator, counts: I64, members: F64, tastes: F64) -> I64:
    """Return keys user * n_items + item; to reject repeated items is to draw without replacement."""
    n_users, n_items = len(counts), tastes.shape[1]
    member_table, taste_table = _stacked_cdf(members), _stacked_cdf(tastes)
    kept = np.empty(0, np.int64)
    missing = counts
    for attempt in range(ROUNDS):
        users = np.repeat(np.arange(n_users), np.where(missing > 0, missing * (2 * attempt + 3) // 2 + 8, 0))
        communities = _pick(draws, member_table, users, members.shape[1])
        drawn = users * n_items + _pick(draws, taste_table, communities, n_items)
        fresh = _first_seen(kept, drawn)
        owners = fresh // n_items
        rank = np.arange(len(fresh)) - np.searchsorted(owners, owners)
        kept = np.concatenate([kept, fresh[rank < missing[owners]]])
        missing = counts - np.bincount(kept // n_items, minlength=n_users)
        if not missing.any():
            break
    return _complete(draws, kept, missing, members, tastes)


def _stacked_cdf(probabilities: F64) -> F64:
    """Return the cumulative probabilities of row r plus r, back to back: one sorted array serves all rows."""
    cumulative = np.cumsum(probabilities, axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative + np.arange(len(cumulative))[:, None]).ravel()


def _pick(draws: np.random.Generator, table: F64, rows: I64, width: int) -> I64:
    found: I64 = np.searchsorted(table, rows + draws.random(len(rows)), side="right") - rows * width
    np.minimum(found, width - 1, out=found)  # a sum just below the next whole number may round up to it
    return found


def _first_seen(kept: I64, drawn: I64) -> I64:
    """Return the drawn keys that are neither kept nor repeated, in the order drawn."""
    _, first = np.unique(np.concatenate([kept, drawn]), return_index=True)
    return drawn[np.sort(first[first >= len(kept)]) - len(kept)]


def _complete(draws: np.random.Generator, kept: I64, missing: I64, members: F64, tastes: F64) -> I64:
    """Draw what users still miss by an exponential race over all items: the least arrival times win."""
    n_items = tastes.shape[1]
    keys, own = [kept], Ragged.from_pairs(kept // n_items, kept % n_items, len(missing))
    for user in np.flatnonzero(missing).tolist():
        arrival = draws.standard_exponential(n_items) / (members[user] @ tastes)
        arrival[own[user]] = np.inf
        keys.append(user * n_items + np.argsort(arrival, kind="stable")[: missing[user]])
    return np.concatenate(keys)
