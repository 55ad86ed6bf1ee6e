"""What a similarity of items is: how much each item is like each other, from what is public."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from gossiprec.arrays import F32, I64
from gossiprec.data.split import TrainingData
from gossiprec.errors import ScenarioError
from gossiprec.options import NoOptions, Options


class Similarity(ABC):
    """A similarity of items, registered in ``SIMILARITIES``; it is asked for rows once it is fitted.

    A mechanism that perturbs items by their similarity protects who has which item, and nothing that the similarity is
    made of: that is taken to be public.

    Parameters
    ----------
    options : Options
        An instance of the class's own `Options`.

    Attributes
    ----------
    modules : tuple of str
        Modules that it imports late: a run and its dry run import them first, to fail early.
    sensitivity : float or None
        The most by which the similarities of two items to one and the same item can differ: 1 where all values are
        between 0 and 1. None: not known, so that whoever perturbs by it must say.
    """

    Options: ClassVar[type[Options]] = NoOptions
    modules: ClassVar[tuple[str, ...]] = ()
    sensitivity: float | None = None

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def fit(self, split: TrainingData, *, seed: int) -> Self:
        """Learn what the items are; returns itself.

        Parameters
        ----------
        split : TrainingData
            Of all users: names and texts of items, and what users have, of which only what is declared public counts.
        seed : int
            Of the run.

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

        A row is the same, to the bit, whichever others are asked for. Larger is more similar, and nothing is more like
        an item than the item itself.
        """


WORD = re.compile(r"\w+")
"""A run of letters and digits."""


def item_words(split: TrainingData, name: str) -> list[list[str]]:
    """Return the words of each item's text, for a similarity called `name`.

    Raises
    ------
    ScenarioError
        If there are none.
    """
    found = [WORD.findall(text) for text in split.item_texts or ()]
    if not any(found):
        raise ScenarioError(
            f"similarity: {name} compares item texts, but {split.name} has none; expected movielens-1m with "
            "movies.dat next to the ratings, movielens-100k with u.item, or data set file with item_texts; "
            "or use similarity co-occurrence"
        )
    return found
