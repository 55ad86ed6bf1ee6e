"""Similarity `titles`: words that item texts share, weighted by their rarity."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Options as OptionSet
from gossiprec.data.training_data import TrainingData
from gossiprec.rules.similarities import (
    SIMILARITIES,
    Similarity,
    item_words,
    rounded_unit_vectors,
    shifted_cosines,
)


@SIMILARITIES.register("titles")
class Titles(Similarity):
    """Cosine of titles and kinds by the main dimensions of their TF-IDF. Needs texts.

    References
    ----------
    It replaces the word vectors, of an unnamed model, of the PDC-FRS paper (specification, section 4): nothing is
    downloaded. Values are ``(1 + cos) / 2``; an item without a text, or with no word in the dimensions kept, has 0 to
    all others.
    """

    class Options(OptionSet):
        """Options of the similarity."""

        dim: int = Field(64, ge=1, le=1000)
        """number of dimensions kept (all, if there are fewer)"""

    options: Options
    sensitivity = 1.0
    modules = ("sklearn.decomposition", "sklearn.feature_extraction.text")

    def fit(self, split: TrainingData, *, seed: int) -> Self:
        """Compute the main dimensions of the texts."""
        self._unit = rounded_unit_vectors(_reduced(item_words(split, "titles"), self.options.dim))
        return self

    def rows(self, items: I64) -> F32:
        """Return ``(1 + cos) / 2``."""
        return shifted_cosines(self._unit, items)


def _reduced(words: list[list[str]], dim: int) -> F64:
    """Return TF-IDF of the texts in `dim` dimensions, unreduced if it has no more; the solver draws nothing."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer=list).fit_transform(words)
    if dim >= min(weights.shape):
        return np.asarray(weights.toarray(), np.float64)
    return np.asarray(
        TruncatedSVD(dim, algorithm="arpack", random_state=0).fit_transform(weights), np.float64
    )
