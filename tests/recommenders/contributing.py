"""Similarities and users to contribute with."""

from __future__ import annotations

import numpy as np

from gossiprec.base.ragged import Ragged
from gossiprec.rules.similarities import Similarity


class Given(Similarity):
    """The similarities of a table."""

    def __init__(self, table, sensitivity=1.0):
        super().__init__(None)
        self.table = np.asarray(table, np.float32)
        self.sensitivity = sensitivity

    def fit(self, split, *, seed):
        return self

    def rows(self, items):
        return self.table[items]


def alike(n_items, others=0.2):
    """Return a similarity of `others` between all items, and of 1 of each with itself."""
    return Given(np.where(np.eye(n_items) > 0, 1.0, others))


def drawn_at_random(n_items, seed=0):
    """Return symmetric similarities from 0 to 1, and of 1 of each item with itself."""
    half = np.triu(np.random.default_rng(seed).random((n_items, n_items)), 1)
    return Given(half + half.T + np.eye(n_items))


def users_with(sizes, n_items, seed=0):
    """Return so many items of each user, drawn uniformly."""
    draw = np.random.default_rng(seed)
    rows = [np.sort(draw.choice(n_items, size, replace=False)).astype(np.int32) for size in sizes]
    return Ragged.from_parts(rows)
