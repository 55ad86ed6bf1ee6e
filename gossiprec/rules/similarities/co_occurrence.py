"""Similarity `co-occurrence`: items that the same people have, among people with public data."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import DataError
from gossiprec.base.options import Options as OptionSet
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.data.column_parsers import IdEncoder
from gossiprec.data.sources import open_text_source
from gossiprec.data.split_parts import read_lists
from gossiprec.data.text_blocks import TextFormat
from gossiprec.data.training_data import TrainingData
from gossiprec.rules.similarities import SIMILARITIES, Similarity

PUBLIC = purpose_id("public-users")


@SIMILARITIES.register("co-occurrence")
class CoOccurrence(Similarity):
    """Cosine of items as sets of the people who have them, among people with public data. Needs no texts.

    Notes
    -----
    Values are from 0 to 1; an item that none of these people has is similar only to itself. The public users
    (`public_users`) have published all their training items: privacy statements about the others do not hold for
    them.
    """

    class Options(OptionSet):
        """The source of public data: one of the two."""

        path: Path | None = None
        """file of public data, with a user and one or more items per line"""
        public_users: float | None = Field(None, gt=0, le=1)
        """fraction of the users of the run with public data, drawn with the seed"""

        @model_validator(mode="after")
        def _one_of_two(self) -> CoOccurrence.Options:
            if (self.path is None) == (self.public_users is None):
                raise ValueError(
                    f"found path {self.path} and public_users {self.public_users}; set exactly one of them"
                )
            return self

    options: Options
    sensitivity = 1.0

    def fit(self, split: TrainingData, *, seed: int) -> Self:
        """Count the items of the public users."""
        path, share = self.options.path, self.options.public_users
        public = _drawn(split, share, seed) if share is not None else _read(path, split)  # type: ignore[arg-type]
        ones = np.ones(len(public.values))
        self._has = sparse.csr_matrix(
            (ones, public.values, public.offsets), shape=(len(public), split.n_items)
        )
        self._sizes = np.bincount(public.values, minlength=split.n_items)
        return self

    def rows(self, items: I64) -> F32:
        """Return the cosines."""
        common = (self._has[:, items].T @ self._has).toarray()
        lengths = np.sqrt(self._sizes[items, None] * self._sizes)
        found = np.divide(common, lengths, out=np.zeros_like(common), where=lengths > 0)
        found[np.arange(len(items)), items] = 1
        return np.asarray(found, np.float32)


def _drawn(split: TrainingData, share: float, seed: int) -> Ragged:
    """Return the items of the public users, at least one; the choice depends only on the seed and the data."""
    number = max(1, round(share * split.n_users))
    users = np.argsort(uniforms(seed, 0, np.arange(split.n_users), PUBLIC), kind="stable")[:number]
    return Ragged.from_parts([split.train[user] for user in np.sort(users)])


def _read(path: Path, split: TrainingData) -> Ragged:
    """Return the items of the people in a file, restricted to the items of the data."""
    source, users, items = open_text_source(path, None), IdEncoder(), IdEncoder()
    part = read_lists(source, TextFormat(("user", "items"), " "), (users, items))
    names = map(str, range(split.n_items)) if split.item_names is None else split.item_names
    id_of = {name: item for item, name in enumerate(names)}
    ids = np.array([id_of.get(name, -1) for name in items.ids])[part.items]
    if (ids < 0).all():
        raise DataError(
            f"{source}: found none of the items of {split.name}; expected a user and one or more items per "
            f"line, named as in the data, such as {next(iter(id_of))}"
        )
    return Ragged.sets_from_pairs(part.users[ids >= 0], ids[ids >= 0], len(users.ids))
