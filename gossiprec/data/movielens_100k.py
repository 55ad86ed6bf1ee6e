"""Data set `movielens-100k`: your copy of MovieLens-100k.

References
----------
F. M. Harper, J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable, Kind
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, FilterOptions, apply_filters
from gossiprec.data.column_parsers import IdEncoder
from gossiprec.data.delimited_text import (
    flag_parser,
    parse_texts,
    read_first_row,
    read_interactions,
    read_item_texts,
)
from gossiprec.data.features import label_column, read_features
from gossiprec.data.sources import FileSource, find_companion_file, resolve_data_file
from gossiprec.data.split import Interactions, Split
from gossiprec.data.split_parts import SplitPart, build_split, read_pairs
from gossiprec.data.text_blocks import TextFormat

CANONICAL_SHA256 = "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
"""Digest of the unpacked u.data that GroupLens publishes."""

RATINGS = TextFormat(("user", "item", "rating", "time"))
GENRES = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy", "Film-Noir",
    "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
"""The last columns of u.item, in the order of u.genre; *unknown*, the one before them, is not a genre."""
MOVIES = TextFormat(("item", "title", "-", "-", "-", "-", *GENRES), delimiter="|", encoding="latin-1")
PEOPLE = TextFormat(("user", "age", "gender", "occupation", "zip"), delimiter="|", encoding="latin-1")


@DATASETS.register("movielens-100k")
class MovieLens100k(Dataset):
    """MovieLens-100k from a folder, the original ml-100k.zip, or u.data(.gz): 943 users, 1,682 items.

    Notes
    -----
    Dense ids are the original ids minus one if nothing is left out, else they follow the order of the original ids.
    The published split is read from ``pepper/`` next to the data (files ``ml-100k.{train,validation,test}.rating``,
    plain or .gz, ids from 0). If that is absent, it is read from the original ``ua.base`` and ``ua.test``, which have
    the same test items but no validation items. Titles and genres are read from ``u.item`` next to the data, if
    present; the one movie without a title has no text. Attributes, read if a run needs them: ``age``, ``gender``,
    ``occupation`` and ``zip`` of users (``u.user``), ``genres`` of items (``u.item``).
    """

    class Options(FilterOptions):
        """Path of the data, and filters."""

        path: Path

    options: Options

    @cached_property
    def _source(self) -> FileSource:
        return resolve_data_file(self.options.path, ["u.data"])

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the unpacked u.data."""
        return self._source.sha256()

    def provenance(self) -> dict[str, str]:
        """Return the file and its digest, with a note if it is not the canonical file."""
        known = {"source": str(self._source), "sha256": self.checksum}
        if self.checksum != CANONICAL_SHA256:
            known["note"] = (
                f"u.data differs from the published file (sha256 {CANONICAL_SHA256[:8]}...): results may not "
                "be comparable"
            )
        return known

    def load(self, seed: int) -> Interactions:
        """Read the ratings that are kept, and the texts of all movies."""
        table = read_interactions(self._source, RATINGS)
        users = _numbers(self._source, "user", table.user_names, 1)[table.users]
        items = _numbers(self._source, "item", table.item_names, 1)[table.items]
        n_users, n_items = int(users.max()) + 1, int(items.max()) + 1
        user_names, item_names = (tuple(map(str, range(1, n + 1))) for n in (n_users, n_items))
        data = Interactions(
            name="movielens-100k",
            users=users,
            items=items,
            n_users=n_users,
            n_items=n_items,
            ratings=table.ratings,
            times=table.times,
            fractions=table.fractions,
            user_names=user_names,
            item_names=item_names,
            item_texts=self._texts(item_names),
        )
        return apply_filters(data, self.options)

    def _texts(self, item_names: tuple[str, ...]) -> tuple[str, ...] | None:
        movies = find_companion_file(self.options.path, ["u.item"])
        if movies is None:
            return None
        columns = {"title": parse_texts, **{genre: flag_parser(genre) for genre in GENRES}}
        found = read_item_texts(movies, MOVIES, item_names, columns)
        return tuple("" if text == "unknown" else text for text in found)

    def user_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Read u.user, if it is next to the data."""
        people = find_companion_file(self.options.path, ["u.user"])
        kinds: dict[str, Kind] = {"age": "number", "gender": "label", "occupation": "label", "zip": "label"}
        return None if people is None else read_features(people, PEOPLE, names, kinds)

    def item_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Read the genres in u.item, if it is next to the data."""
        movies = find_companion_file(self.options.path, ["u.item"])
        if movies is None:
            return None
        flags = read_features(movies, MOVIES, names, dict.fromkeys(GENRES, "number"))
        held = np.stack([flags.numbers(genre).values == 1 for genre in GENRES], axis=1)
        sets = [[GENRES[place] for place in np.flatnonzero(row)] for row in held]
        return FeatureTable(("genres",), (label_column(sets),), flags.source_summary)

    def published_split(self, interactions: Interactions) -> Split:
        """Read the split of the community-detection work, or the original ua split.

        Raises
        ------
        DataError
            If there is neither, or filters remove part of what they divide.
        """
        if not self.options.all_kept:
            raise DataError(
                f"movielens-100k: found min_rating {self.options.min_rating}, min_items "
                f"{self.options.min_items}, min_interactions {self.options.min_interactions}; expected with "
                "split published, which divides all ratings: None, 1, 1; remove them, or use split "
                "leave_last_k"
            )
        parts = self._pepper() or self._ua()
        if parts is None:
            raise DataError(
                f"{self.options.path}: no published split; expected a folder pepper/ next to u.data with "
                "ml-100k.train.rating, ml-100k.validation.rating and ml-100k.test.rating, or the original "
                "ua.base and ua.test; or use split leave_last_k"
            )
        return build_split(interactions, parts)

    def _pepper(self) -> dict[str, SplitPart] | None:
        path = self.options.path
        folder = (path if path.is_dir() else path.parent) / "pepper"
        if not folder.is_dir():
            return None
        return {
            part: _read_split_file(resolve_data_file(folder, [f"ml-100k.{part}.rating"]), first_id=0)
            for part in ("train", "validation", "test")
        }

    def _ua(self) -> dict[str, SplitPart] | None:
        base, test = (find_companion_file(self.options.path, [name]) for name in ("ua.base", "ua.test"))
        if base is None or test is None:
            return None
        return {"train": _read_split_file(base, first_id=1), "test": _read_split_file(test, first_id=1)}


def _read_split_file(source: FileSource, *, first_id: int) -> SplitPart:
    """Read the pairs of a split file; further columns are (sometimes damaged) copies of u.data, and are skipped."""
    columns = ("user", "item", "-", "-")[: 2 if len(read_first_row(source, RATINGS)) == 2 else 4]
    codes = IdEncoder(), IdEncoder()
    part = read_pairs(source, TextFormat(columns), codes)
    users, items = (tuple(code.ids) for code in codes)
    return replace(
        part,
        users=_numbers(source, "user", users, first_id)[part.users],
        items=_numbers(source, "item", items, first_id)[part.items],
    )


def _numbers(source: FileSource, column: str, names: tuple[str, ...], first_id: int) -> I64:
    """Return the ids that names of the file denote, minus `first_id`."""
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) < 8 and int(name) >= first_id):
            raise DataError(f"{source}: found {column} {name!r}; expected whole numbers from {first_id}")
    return np.array([int(name) - first_id for name in names], np.int64)
