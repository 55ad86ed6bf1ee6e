"""Similarity `word-vectors`: the mean of the word vectors of an item's text, from your own file."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Self

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import DataError
from gossiprec.base.options import Options as OptionSet
from gossiprec.data.sources import FileSource, open_text_source
from gossiprec.data.training_data import TrainingData
from gossiprec.rules.similarities import (
    SIMILARITIES,
    Similarity,
    item_words,
    rounded_unit_vectors,
    shifted_cosines,
)


@SIMILARITIES.register("word-vectors")
class WordVectors(Similarity):
    """Cosine of the mean word vector of titles and kinds. Needs texts, and a text file of word vectors like GloVe's.

    References
    ----------
    The PDC-FRS paper (specification, section 4), which does not name its vectors: J. Pennington, R. Socher, C. Manning,
    "GloVe: Global vectors for word representation", EMNLP 2014. Values are ``(1 + cos) / 2``; an item without any
    word that has a vector has 0 to all others.
    """

    class Options(OptionSet):
        """Options of the similarity."""

        path: Path

    options: Options
    sensitivity = 1.0

    def fit(self, split: TrainingData, *, seed: int) -> Self:
        """Read the vectors of the words in the texts."""
        texts = item_words(split, "word-vectors")
        vectors = read_vectors(
            open_text_source(self.options.path, None), {word for text in texts for word in text}
        )
        zero = np.zeros_like(next(iter(vectors.values())))
        means = [
            np.mean([vectors[word] for word in text if word in vectors] or [zero], axis=0) for text in texts
        ]
        self._unit = rounded_unit_vectors(np.stack(means))
        return self

    def rows(self, items: I64) -> F32:
        """Return ``(1 + cos) / 2``."""
        return shifted_cosines(self._unit, items)


def read_vectors(source: FileSource, words: Container[str]) -> dict[str, F64]:
    """Return the vectors of some words, from lines of a word and its numbers, separated by blanks, in UTF-8.

    Raises
    ------
    DataError
        If the source is damaged, the line of a word has other cells than numbers or not as many as the first line, or
        no word is found.
    """
    found: dict[str, F64] = {}
    dim = 0
    with source.open() as stream:
        for line, raw in enumerate(stream, start=1):
            cells = raw.rstrip().split(b" ")
            dim = dim or len(cells) - 1
            word = cells[0].decode("utf-8", "replace")
            if word in words and word not in found:
                found[word] = _numbers(source, line, cells[1:], dim)
    if not found:
        raise DataError(
            f"{source}: found no vector of a word in the item texts; expected text with a word and its "
            "numbers per line, such as glove.6B.100d.txt, in the language of the texts"
        )
    return found


def _numbers(source: FileSource, line: int, cells: list[bytes], dim: int) -> F64:
    allowed = f"a word and {dim} finite numbers, as many as in the first line"
    if len(cells) != dim:
        raise source.error(line, f"{len(cells)} cells after the word", allowed)
    try:
        vector = np.array([float(cell) for cell in cells])
    except ValueError as error:
        raise source.error(line, str(error), allowed) from error
    if not np.isfinite(vector).all():
        raise source.error(line, "a NaN or infinite number", allowed)
    return vector
