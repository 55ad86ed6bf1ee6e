"""Data set `movielens-1m`: your copy of MovieLens-1M."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gossiprec.base.features import FeatureTable, Kind
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, FilterOptions, apply_filters
from gossiprec.data.delimited_text import (
    parse_texts,
    parse_word_lists,
    read_interactions,
    read_item_texts,
    to_interactions,
)
from gossiprec.data.features import read_features
from gossiprec.data.sources import find_companion_file, resolve_data_file
from gossiprec.data.split import Interactions
from gossiprec.data.text_blocks import TextFormat

COLUMNS = ("user", "item", "rating", "time")
ORIGINAL = TextFormat(COLUMNS, delimiter="::")
COMMA_SEPARATED = TextFormat(COLUMNS, delimiter=",", header=True, quote='"')
PEOPLE = TextFormat(("user", "gender", "age", "occupation", "zip"), delimiter="::", encoding="latin-1")
MOVIES = TextFormat(("item", "title", "genres"), delimiter="::", encoding="latin-1")


@DATASETS.register("movielens-1m")
class MovieLens1M(Dataset):
    """MovieLens-1M from a folder, the original ml-1m.zip, ratings.dat or ratings.csv(.gz): 6,040 users.

    Notes
    -----
    Movies without a rating are not items (3,706 movies are). Dense ids follow the order of the original ids. Times of
    -1 are unknown. Titles and genres are read from ``movies.dat`` next to the ratings, if present. Attributes, read
    if a run needs them: ``gender``, ``age``, ``occupation`` and ``zip`` of users (``users.dat``; ages stand for ranges,
    and occupations are numbers), ``genres`` of items (``movies.dat``).
    """

    class Options(FilterOptions):
        """Path of the data, and filters."""

        path: Path

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the ratings that are kept, and the texts of their movies."""
        source = resolve_data_file(self.options.path, ["ratings.dat", "ratings.csv"])
        is_csv = (source.member or source.path.name).removesuffix(".gz").endswith(".csv")
        table = read_interactions(source, COMMA_SEPARATED if is_csv else ORIGINAL)
        data = apply_filters(
            replace(to_interactions(table, "movielens-1m"), draws_by_name=False), self.options
        )
        movies = find_companion_file(self.options.path, ["movies.dat"])
        if movies is None or data.item_names is None:
            return data
        columns = {"title": parse_texts, "genres": parse_word_lists}
        return replace(data, item_texts=read_item_texts(movies, MOVIES, data.item_names, columns))

    def user_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Read users.dat, if it is next to the ratings."""
        people = find_companion_file(self.options.path, ["users.dat"])
        kinds: dict[str, Kind] = {"gender": "label", "age": "number", "occupation": "label", "zip": "label"}
        return None if people is None else read_features(people, PEOPLE, names, kinds)

    def item_features(self, names: tuple[str, ...]) -> FeatureTable | None:
        """Read the genres in movies.dat, if it is next to the ratings."""
        movies = find_companion_file(self.options.path, ["movies.dat"])
        return None if movies is None else read_features(movies, MOVIES, names, {"genres": "labels"})

    def provenance(self) -> dict[str, str]:
        """Return the file that is read."""
        return {"source": str(resolve_data_file(self.options.path, ["ratings.dat", "ratings.csv"]))}
