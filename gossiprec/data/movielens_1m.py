"""Data set `movielens-1m`: a user's own copy of MovieLens-1M."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset
from gossiprec.data.blocks import Layout
from gossiprec.data.columns import interactions_from, read_table
from gossiprec.data.kept import KeptOptions, kept
from gossiprec.data.sources import beside, locate
from gossiprec.data.split import Interactions
from gossiprec.data.texts import listed, plain, read_texts

COLUMNS = ("user", "item", "rating", "time")
ORIGINAL = Layout(COLUMNS, delimiter="::")
COMMA_SEPARATED = Layout(COLUMNS, delimiter=",", header=True, quote='"')
MOVIES = Layout(("item", "title", "genres"), delimiter="::", encoding="latin-1")


@DATASETS.register("movielens-1m")
class MovieLens1M(Dataset):
    """MovieLens-1M from a folder, the original ml-1m.zip, ratings.dat or ratings.csv(.gz): 6,040 users.

    Notes
    -----
    Movies nobody rated are not items (3,706 are). Dense ids follow the order of the original ids. A time of
    -1 is unknown. Titles and genres are those of ``movies.dat`` beside the ratings, where it is.
    """

    class Options(KeptOptions):
        """Where the data are, and which of them are kept."""

        path: Path

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the ratings that are kept, and what their movies are."""
        source = locate(self.options.path, ["ratings.dat", "ratings.csv"])
        is_csv = (source.member or source.path.name).removesuffix(".gz").endswith(".csv")
        table = read_table(source, COMMA_SEPARATED if is_csv else ORIGINAL)
        data = kept(replace(interactions_from(table, "movielens-1m"), draws_by_name=False), self.options)
        movies = beside(self.options.path, ["movies.dat"])
        if movies is None or data.item_names is None:
            return data
        columns = {"title": plain, "genres": listed}
        return replace(data, item_texts=read_texts(movies, MOVIES, data.item_names, columns))

    def provenance(self) -> dict[str, str]:
        """Tell the file that is read."""
        return {"source": str(locate(self.options.path, ["ratings.dat", "ratings.csv"]))}
