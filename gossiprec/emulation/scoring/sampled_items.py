"""The items that each test item is ranked among."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I32, I64
from gossiprec.data.split import Split, name_of
from gossiprec.errors import DataError
from gossiprec.measures.metric import SAMPLED
from gossiprec.measures.ranking import PADDING
from gossiprec.rng import generator

MANY = 10_000
"""Items above which candidates are drawn one by one: with 38,333, a test item takes 9 us instead of 1.8 ms."""


def drawn_candidates(split: Split, users: I64, seed: int) -> I32:
    """Return fixed candidates for every test item, the test item first.

    Parameters
    ----------
    split : Split
    users : ndarray of int64, shape (n,)
        Users with test items, at least one.
    seed : int

    Returns
    -------
    ndarray of int32, shape (n_test, 1 + n_negatives)
        Negatives are :data:`SAMPLED` items with which the user has not interacted, or all of them if there are fewer.
        A row of fewer candidates ends in :data:`PADDING`.

    Raises
    ------
    DataError
        If a user leaves none.

    Notes
    -----
    By one thread: calls are so short that two wait for one another's interpreter, and mostly take twice as long.
    """
    n_negatives = sampled_negatives(split, users)
    if n_negatives.min() < 1:
        user = name_of(split.user_names, int(users[np.argmin(n_negatives)]))
        raise DataError(
            f"{split.name}: user {user} has all {split.n_items} items, so no item is left to rank the test "
            "items against; remove such users, or evaluate recall@K and full_ndcg@K"
        )
    first = np.concatenate([[0], np.cumsum(split.test.sizes[users])])
    candidates = np.full((int(first[-1]), 1 + int(n_negatives.max())), PADDING, np.int32)
    every = np.arange(split.n_items, dtype=np.int32)
    for place, (user, count) in enumerate(zip(users.tolist(), n_negatives.tolist(), strict=True)):
        tests = split.test[user]
        others = np.delete(every, np.concatenate([split.train[user], split.validation[user], tests]))
        drawn = _distinct(generator(seed, "candidates", user), len(others), len(tests), count)
        rows = candidates[first[place] : first[place + 1]]
        rows[:, 0], rows[:, 1 : 1 + count] = tests, others[drawn]
    return candidates


def sampled_negatives(split: Split, users: I64) -> I64:
    """Return the number of negatives that each user's test items are ranked against, shape (n,)."""
    known = (split.train.sizes + split.validation.sizes + split.test.sizes)[users]
    return np.asarray(np.minimum(SAMPLED, split.n_items - known))


def _distinct(rng: np.random.Generator, bound: int, n_rows: int, count: int) -> I64:
    """Draw `count` distinct numbers below `bound` for each row; for many items without a key for each item."""
    if bound > MANY:
        return np.stack([rng.choice(bound, count, replace=False) for _ in range(n_rows)])
    keys = rng.random((n_rows, bound))
    return np.asarray(np.argpartition(keys, count - 1, axis=1)[:, :count], np.int64)
