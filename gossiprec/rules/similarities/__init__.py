"""Similarities of items: the likely replacements of an item in data that a recommender perturbs.

Similarities are computed from public data. Cosines are scaled to 0 to 1. They are symmetric, and bit-identical in any
grouping.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry
from gossiprec.data.training_data import TrainingData


class Similarity(ABC):
    """A similarity of items, registered in ``SIMILARITIES``; it returns rows once it is fitted.

    A mechanism that perturbs items by their similarity protects which user has which item. It does not protect the
    data from which the similarity is computed: these are assumed to be public.

    Parameters
    ----------
    options : Options
        An instance of the class's own `Options`.

    Attributes
    ----------
    modules : tuple of str
        Modules that are imported late; a run and its dry run import them first, to fail early.
    sensitivity : float or None
        Largest possible difference between the similarities of two items to the same item: 1 if all values are
        between 0 and 1. None if it is unknown, so that a mechanism that needs it must be given it.
    """

    Options: ClassVar[type[Options]] = NoOptions
    modules: ClassVar[tuple[str, ...]] = ()
    sensitivity: float | None = None

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def fit(self, split: TrainingData, *, seed: int) -> Self:
        """Fit the similarity to the items; returns itself.

        Parameters
        ----------
        split : TrainingData
            Names and texts of items, and items of all users, of which only those declared public count.
        seed : int
            Seed of the run.

        Raises
        ------
        ScenarioError
            If the data do not have what it compares.
        DataError
            If a file of its own is missing or damaged.
        """

    @abstractmethod
    def rows(self, items: I64) -> F32:
        """Return the similarities of some items to all items, shape (n, n_items).

        A row is bit-identical whatever other rows are requested. Larger is more similar, and no item is more similar
        to an item than itself.
        """


WORD = re.compile(r"\w+")
"""A sequence of letters and digits."""


def item_words(split: TrainingData, name: str) -> list[list[str]]:
    """Return the words of each item's text, for a similarity called `name`.

    Raises
    ------
    ScenarioError
        If no item has a text.
    """
    found = [WORD.findall(text) for text in split.item_texts or ()]
    if not any(found):
        raise ScenarioError(
            f"similarity: {name} compares item texts, but {split.name} has none; expected movielens-1m with "
            "movies.dat next to the ratings, movielens-100k with u.item, or data set file with item_texts; "
            "or use similarity co-occurrence"
        )
    return found


GRID = 2.0**16
"""Directions are rounded to multiples of 1 / GRID, so that last bits of linear algebra do not matter."""
ZERO_LENGTH = 1e-9
"""Length up to which a vector counts as zero, because it is only rounding."""


def rounded_unit_vectors(vectors: F64) -> F32:
    """Return vectors of length 1, shape (n_items, dim), rounded; zeros for zero vectors."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > ZERO_LENGTH)
    return np.asarray(np.round(unit * GRID) / GRID, np.float32)


def shifted_cosines(unit: F32, items: I64) -> F32:
    """Return ``(1 + cos) / 2`` of some items and all items, shape (n, n_items).

    An item without a direction has 0 to all others. Every item has 1 to itself.

    Notes
    -----
    The sum is taken dimension by dimension, because the order of a matrix product depends on the number of rows.
    """
    there = np.abs(unit).max(axis=1, initial=0) > 0
    found = np.zeros((len(items), len(unit)), np.float32)
    for column in np.ascontiguousarray(unit.T):
        found += column[items, None] * column
    found = np.clip((1 + found) / 2, 0, 1)
    found *= there[items, None] & there
    found[np.arange(len(items)), items] = 1
    return found


SIMILARITIES: Registry[type[Similarity]] = Registry("similarity", __name__, group="similarities")
