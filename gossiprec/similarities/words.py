"""The words of item texts."""

from __future__ import annotations

import re

from gossiprec.data.split import TrainingData
from gossiprec.errors import ScenarioError

WORD = re.compile(r"\w+")
"""A run of letters and digits."""


def words_of_items(split: TrainingData, name: str) -> list[list[str]]:
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
