"""Orders of the items that no model has learnt: what recommendations are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.data.split import Split
from gossiprec.ragged import Ragged
from gossiprec.rng import generator

PAIRS = 2**26
"""Users times items above which users share permutations: 30,000 users of 40,000 items take 23 s otherwise."""
SHARED_BY = 64
"""Users with consecutive ids that share a permutation."""


class Order(ABC):
    """Scores of all items for a user, no two of them alike: the number of items that come after it.

    Parameters
    ----------
    split : Split
    seed : int
    """

    def __init__(self, split: Split, seed: int) -> None:
        self._n_items = split.n_items
        self._seed = seed

    @abstractmethod
    def of_user(self, user: int) -> F32:
        """Return the scores of all items, shape (n_items,)."""

    def of_all(self, users: I64) -> F32:
        """Return the scores of all items for some users, shape (n_users, n_items)."""
        return np.stack([self.of_user(user) for user in users.tolist()])

    def before(self, users: I64, part: str) -> F32:
        """Return the same, before whichever part of the split."""
        return self.of_all(users)

    def of_candidates(self, users: I64, candidates: Ragged) -> F32:
        """Return the scores of each user's candidates, in their order.

        Parameters
        ----------
        users : ndarray of int64, shape (n,)
        candidates : Ragged of int32, a row for each of `users`
        """
        parts = [self.of_user(user)[candidates[place]] for place, user in enumerate(users.tolist())]
        return np.concatenate(parts)


class Popularity(Order):
    """The items that most users have trained on come first, of equals those of lower id; the same for everybody."""

    def __init__(self, split: Split, seed: int) -> None:
        super().__init__(split, seed)
        trained = np.bincount(split.train.values, minlength=split.n_items)
        self._scores = _descending(np.argsort(-trained, kind="stable"))

    def of_user(self, user: int) -> F32:
        """Return the same scores for every user."""
        return self._scores


class Random(Order):
    """An order drawn for each user, from the seed of the run: the same at all reports.

    Notes
    -----
    In large data (:data:`PAIRS`) some users share a permutation, and each begins at a place of its own. Every single
    order is still uniform, so that expected values are the same, but those of different users are not independent.
    """

    def __init__(self, split: Split, seed: int) -> None:
        super().__init__(split, seed)
        self._shares = split.n_users * split.n_items > PAIRS
        self._permutation = lru_cache(maxsize=2)(self._drawn)
        if self._shares:
            self._twice = np.tile(np.arange(split.n_items, dtype=np.float32), 2)
            self._starts = generator(seed, "random-start").integers(split.n_items, size=split.n_users)

    def of_user(self, user: int) -> F32:
        """Return scores that depend on the seed, the user and the number of items."""
        return self._of_items(user, slice(None)) if self._shares else _descending(self._drawn(user))

    def of_candidates(self, users: I64, candidates: Ragged) -> F32:
        """Return the scores of each user's candidates, in their order."""
        if not self._shares:
            return super().of_candidates(users, candidates)
        return np.concatenate(
            [self._of_items(user, candidates[place]) for place, user in enumerate(users.tolist())]
        )

    def _of_items(self, user: int, items: I32 | slice) -> F32:
        start = self._starts[user]
        turned: F32 = self._twice[start : start + self._n_items]
        return turned[self._permutation(user // SHARED_BY)[items]]

    def _drawn(self, number: int) -> I64:
        return generator(self._seed, "random-order", number).permutation(self._n_items)


ORDERS: dict[str, type[Order]] = {"popularity": Popularity, "random": Random}
"""By the names under which ``evaluate.beside`` asks for them."""


def _descending(items: I64 | I32) -> F32:
    """Return scores by which these items, all there are, come in this order; exact below 2^24 items."""
    scores = np.empty(len(items), np.float32)
    scores[items] = np.arange(len(items) - 1, -1, -1)
    return scores
