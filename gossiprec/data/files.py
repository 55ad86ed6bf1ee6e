"""Split `files` and data set `files`: a division that comes in separate files."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator

from gossiprec.base.errors import DataError
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import DATASETS, SPLITS
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.column_parsers import IdEncoder
from gossiprec.data.delimited_text import InteractionTable, read_first_row, sort_positions
from gossiprec.data.file import Delimiter, Encoding, Quote, check_columns
from gossiprec.data.format_detection import refuse_comment, refuse_counts
from gossiprec.data.labels import ValueCounts
from gossiprec.data.other_formats import is_uniform, refuse_other_formats, refuse_sure_formats
from gossiprec.data.parsed_file import implausible_rows, list_doubts
from gossiprec.data.sources import FileSource, open_text_source
from gossiprec.data.split import Interactions, Split, display_name
from gossiprec.data.split_parts import (
    LIST_OVERRIDE,
    PARTS,
    SplitPart,
    build_split,
    count_repeated_pairs,
    has_colons,
    read_lists,
    read_pairs,
    refuse_enclosed,
    refuse_guessed_lists,
)
from gossiprec.data.text_blocks import TextFormat, read_sample, require_encoding

KEYS = ("header", "delimiter", "encoding", "columns", "quote")
"""Options of the format of files; the options of lists come first."""


class SplitFiles(OptionSet):
    """Paths and format of the parts."""

    train: Path
    test: Path
    validation: Path | None = None
    form: Literal["pairs", "lists"] = "pairs"
    """pairs: one user and one item per line; lists: one user and its items per line"""
    columns: Annotated[tuple[str, ...] | None, AfterValidator(check_columns)] = None
    """for pairs; null: the user, the item, and further columns to skip"""
    header: bool = False
    delimiter: Delimiter | None = None
    """null: a tab for pairs, blanks and tabs for lists"""
    encoding: Encoding = "utf-8"
    quote: Quote = '"'
    """quotes around cells of pairs; none: quotes are ordinary text"""
    doubtful_names: Literal["refuse", "keep"] = "refuse"
    """treatment of names such as 'nan', and of one number written in two ways; keep: as names"""

    def read(self) -> tuple[tuple[IdEncoder, IdEncoder], dict[str, SplitPart]]:
        """Return the encoders of users and items, and the parts with their codes.

        Raises
        ------
        DataError
            If a file is missing or damaged.
        """
        codes, parts = (IdEncoder(), IdEncoder()), {}
        for name in PARTS:
            path: Path | None = getattr(self, name)
            if path is not None:
                source = open_text_source(path, name)
                layout = self._layout(source)
                reader = self._read_pairs if self.form == "pairs" else read_lists
                parts[name] = reader(source, layout, codes)
        return codes, parts

    def _read_pairs(
        self, source: FileSource, layout: TextFormat, codes: tuple[IdEncoder, IdEncoder]
    ) -> SplitPart:
        """Read pairs, and refuse a further column without a name that may mark the lines that count."""
        n_more = len(layout.columns) - 2
        counts = ValueCounts.of(str(2 + k) for k in range(n_more) if self.columns is None)
        part = read_pairs(source, layout, codes, watch=counts.add)
        for place in counts.labels:
            raise part.error(
                0,
                f"only two values in column {int(place) + 1}, which may mark the lines that count",
                "columns that are named; to skip it, name all columns, such as columns: "
                f"[user, item{', -' * n_more}]",
            )
        return part

    def _layout(self, source: FileSource) -> TextFormat:
        require_encoding(source, self.encoding)
        sample = read_sample(source, self.encoding)
        refuse_sure_formats(sample)
        if self.form == "lists":
            if self.delimiter is None:
                refuse_guessed_lists(sample)
            delimiter = self.delimiter or " "
            rows = sample.rows(delimiter)[1 if self.header else 0 :]
            if self.delimiter is None:
                refuse_counts(sample, rows, (0, 1), f"; if each line is {LIST_OVERRIDE}")
            if self.doubtful_names == "refuse":
                refuse_enclosed(sample, rows)
            if self.delimiter is None and has_colons(rows):
                raise sample.error(
                    f"{rows[0][0]!r}, a user with a colon",
                    "blanks between the user and all items; replace the colon by a blank, or set delimiter: "
                    "' ' if it belongs to the name",
                )
            return TextFormat(("user", "items"), delimiter, self.header, sample.encoding, keys=KEYS[:3])
        quote = None if self.quote == "none" else self.quote
        layout = TextFormat(
            ("user", "item"), self.delimiter or "\t", self.header, sample.encoding, quote, KEYS
        )
        more = max(len(read_first_row(source, layout)) - 2, 0)
        rows = sample.rows(layout.delimiter, quote)[1 if self.header else 0 :]
        if not self.header:
            refuse_comment(sample, rows)
        if rows and not is_uniform(rows):
            refuse_other_formats(sample, (), "if it is a table, set its delimiter")
        return replace(layout, columns=self.columns or ("user", "item", *("-",) * more))


@DATASETS.register("files")
class FilesDataset(Dataset):
    """The files of a split as one data set; its split `published` is their division.

    Notes
    -----
    Dense ids follow the sorted names of all files (whole numbers by value, then words). Items may be new in validation
    and test, as in published splits; users may not.
    """

    Options = SplitFiles
    options: SplitFiles

    def load(self, seed: int) -> Interactions:
        """Return the interactions of all files."""
        return self._read[0]

    def published_split(self, interactions: Interactions) -> Split:
        """Return the parts as they are in the files."""
        return build_split(interactions, self._read[1])

    def provenance(self) -> dict[str, str]:
        """Return the files and their unusual properties."""
        parts = self._read[1]
        trained = np.unique(parts["train"].items)
        new = {
            f"{name}_items_not_trained": str(len(np.setdiff1d(parts[name].items, trained)))
            for name in parts
            if name != "train"
        }
        return split_provenance(parts) | new

    @cached_property
    def _read(self) -> tuple[Interactions, dict[str, SplitPart]]:
        codes, parts = self.options.read()
        users, items = (
            {name: int(rank) for name, rank in zip(code.ids, sort_positions(tuple(code.ids)), strict=True)}
            for code in codes
        )
        if self.options.doubtful_names == "refuse":
            _refuse_doubtful(codes, parts, lists=self.options.form == "lists")
        found = {name: part.with_ids(users, items, codes, "the data") for name, part in parts.items()}
        data = Interactions(
            name="files",
            users=np.concatenate([part.users for part in found.values()]),
            items=np.concatenate([part.items for part in found.values()]),
            n_users=len(users),
            n_items=len(items),
            user_names=tuple(sorted(users, key=users.__getitem__)),
            item_names=tuple(sorted(items, key=items.__getitem__)),
            draws_by_name=True,
        )
        _require_trained(data, found)
        return data, found


def _refuse_doubtful(codes: tuple[IdEncoder, IdEncoder], parts: dict[str, SplitPart], *, lists: bool) -> None:
    """Refuse implausible names in any part, such as a number that two parts write in two ways."""
    names = tuple(codes[0].ids), tuple(codes[1].ids)
    train, *_ = tables = [
        InteractionTable(*names, one.users, one.items, None, None) for one in parts.values()
    ]
    users, items = (np.concatenate([getattr(one, name) for one in tables]) for name in ("users", "items"))
    doubts = implausible_rows(InteractionTable(*names, users, items, None, None))
    for row, found, allowed in chain(doubts, list_doubts(train) if lists else ()):
        ends = np.cumsum([len(one.users) for one in tables])
        place = int(np.searchsorted(ends, row, "right"))
        raise [*parts.values()][place].error(
            row - int(ends[place] - len(tables[place].users)), found, allowed
        )


@SPLITS.register("files")
class FilesSplit(SplitRule):
    """The division of the data into files, in which published experiments often come.

    Notes
    -----
    The files use the names of the data set, or numbers from 0 if it has none. Pairs that are in no file are left out.
    """

    class Options(SplitFiles):
        """Paths and format of the parts, and the kind of their ids."""

        ids: Literal["names", "numbers"] = "names"
        """names: the names of users and items in the data; numbers: their numbers in gossiprec, from 0"""

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._notes: dict[str, str] = {}

    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Divide the interactions as the files do."""
        data = interactions
        codes, parts = self.options.read()
        by_name = self.options.ids == "names"
        users = _ids_by_name(by_name and data.user_names, data.n_users)
        items = _ids_by_name(by_name and data.item_names, data.n_items)
        found = {name: part.with_ids(users, items, codes, data.name) for name, part in parts.items()}
        _require_trained(data, found)
        split = build_split(data, found)
        placed = sum(int(part.sizes.sum()) for part in (split.train, split.validation, split.test))
        pairs = len(np.unique(data.users * data.n_items + data.items))
        self._notes = split_provenance(found) | {"pairs_in_no_file": str(pairs - placed)}
        return split

    def provenance(self) -> dict[str, str]:
        """Return the files, and the number of pairs that are in none of them."""
        return self._notes


def _ids_by_name(names: tuple[str, ...] | Literal[False] | None, n: int) -> dict[str, int]:
    """Return the id of each name; without names, ids are known by their numbers."""
    return {name: number for number, name in enumerate(names or map(str, range(n)))}


def split_provenance(parts: dict[str, SplitPart]) -> dict[str, str]:
    """Return the name of each file, and the number of pairs that it repeats."""
    files = {f"{name}_file": str(part.source) for name, part in parts.items()}
    return files | {f"{name}_pairs_repeated": str(count_repeated_pairs(part)) for name, part in parts.items()}


def _require_trained(data: Interactions, parts: dict[str, SplitPart]) -> None:
    """Refuse users without a training item, naming a line with another item of theirs if any."""
    trained = np.bincount(parts["train"].users, minlength=data.n_users) > 0
    source = parts["train"].source
    for part in parts.values():
        lacking = ~trained[part.users]
        if lacking.any():
            place = int(np.argmax(lacking))
            user = display_name(data.user_names, int(part.users[place]))
            raise part.error(
                place, f"user {user}", f"users of {source}, because other users have no training items"
            )
    if not trained.all():
        user = display_name(data.user_names, int(np.argmin(trained)))
        raise DataError(
            f"{source}: holds nothing of user {user} of {data.name} ({int((~trained).sum())} such users); "
            "take dataset: {name: files, ..., split: {name: published}}, which uses only the files, or "
            "remove such users"
        )
