"""Data set `file`: any delimited table of users and items, or lists of what each user did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset
from gossiprec.data.blocks import Layout
from gossiprec.data.cells import Codes
from gossiprec.data.columns import MEANINGS, Table, interactions_from, read_table
from gossiprec.data.kept import KeptOptions, kept
from gossiprec.data.parts import read_lists
from gossiprec.data.sources import Source, members
from gossiprec.data.split import Interactions
from gossiprec.data.texts import plain, read_texts
from gossiprec.errors import DataError

DELIMITER = r"^[^\"'\r\n\x00\x01]+$"
"""Texts that may stand between columns."""


def user_and_item_once(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of columns if they can be: what an option's check does.

    Raises
    ------
    ValueError
        If not.
    """
    wrong = [
        name for name in MEANINGS if columns.count(name) > 1 or (name not in columns and name in MEANINGS[:2])
    ]
    if wrong:
        raise ValueError(
            f"found {list(columns)}; allowed: user and item once each, rating and time at most once, "
            f"any other name (such as '-') for a column to skip; wrong: {', '.join(wrong)}"
        )
    return columns


def readable_encoding(encoding: str) -> str:
    """Return the name of an encoding if Python knows it: what an option's check does.

    Raises
    ------
    ValueError
        If not.
    """
    try:
        "user,1".encode(encoding)
    except (LookupError, UnicodeError) as error:
        raise ValueError(f"{error}; allowed: one that Python knows, such as latin-1, utf-16") from error
    return encoding


def source_of(path: Path) -> Source:
    """Return a text file, plain, .gz, or the one in a .zip.

    Raises
    ------
    DataError
        If there is none.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; give the path of a delimited text file, plain, .gz or .zip")
    if path.suffix != ".zip":
        return Source(path)
    held = members(path)
    if len(held) != 1:
        raise DataError(f"{path}: found {len(held)} files; allowed: an archive of exactly one")
    return Source(path, held[0])


def read_sequences(source: Source, layout: Layout) -> Table:
    """Read one user a line, before the user's items in the order of time: places in the line are the times.

    Raises
    ------
    DataError
        As :func:`~gossiprec.data.parts.read_lists`, or if a user has two lines.
    """
    codes = Codes(), Codes()
    part = read_lists(source, layout, codes, once=True)
    places = np.arange(len(part.users)) - np.searchsorted(part.users, part.users)
    return Table(tuple(codes[0].ids), tuple(codes[1].ids), part.users, part.items, None, places)


@DATASETS.register("file")
class DelimitedFile(Dataset):
    """A text file, plain, .gz or .zip; a line is a user, an item, maybe a rating and a time, or a user and its items.

    Notes
    -----
    Users and items may have any names. Dense ids follow the sorted names (whole numbers by value, then
    words), so the order of the lines does not matter.
    """

    class Options(KeptOptions):
        """Where the file is, and how it is written."""

        path: Path
        form: Literal["pairs", "lists"] = Field(
            "pairs",
            description="pairs: a user and an item a line; lists: a user and its items, in order of time, a line",
        )
        columns: tuple[str, ...] | None = Field(None, description="of pairs; null: user, item, rating, time")
        header: bool = False
        delimiter: str | None = Field(
            None, pattern=DELIMITER, description="null: a tab in pairs, blanks and tabs in lists"
        )
        encoding: str = "utf-8"
        quote: Literal['"', "'", "none"] = Field(
            '"', description="around cells of pairs; none: quotes are ordinary text"
        )
        item_texts: Path | None = Field(
            None,
            description="of pairs: a table of items and texts, with the same header, delimiter, encoding, quote",
        )

        @field_validator("columns")
        @classmethod
        def _name_user_and_item_once(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if columns is None else user_and_item_once(columns)

        @field_validator("encoding")
        @classmethod
        def _can_be_read(cls, encoding: str) -> str:
            return readable_encoding(encoding)

        @model_validator(mode="after")
        def _belong_to_the_form(self) -> DelimitedFile.Options:
            fields = type(self).model_fields
            of_pairs = ("columns", "quote", "item_texts", "min_rating")
            wrong = [name for name in of_pairs if getattr(self, name) != fields[name].default]
            if self.form == "lists" and wrong:
                raise ValueError(
                    f"found {', '.join(wrong)} with form: lists; allowed with it: path, header, delimiter, encoding, "
                    "min_items; leave the rest out, or set form: pairs"
                )
            if self.min_rating is not None and "rating" not in self.named:
                raise ValueError(
                    f"min_rating is {self.min_rating:g}, columns are {list(self.named)}; allowed: columns with a "
                    "rating; name it, or leave min_rating out"
                )
            return self

        @property
        def named(self) -> tuple[str, ...]:
            """What the columns of pairs are."""
            return MEANINGS if self.columns is None else self.columns

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the whole file, and the texts of items."""
        options, source = self.options, source_of(self.options.path)
        name = options.path.name.split(".")[0] or "file"
        if options.form == "lists":
            layout = Layout(("user", "items"), options.delimiter or " ", options.header, options.encoding)
            return kept(interactions_from(read_sequences(source, layout), name), options)
        quote = None if options.quote == "none" else options.quote
        layout = Layout(options.named, options.delimiter or "\t", options.header, options.encoding, quote)
        data = kept(interactions_from(read_table(source, layout), name), options)
        if options.item_texts is None or data.item_names is None:
            return data
        texts, two = source_of(options.item_texts), replace(layout, columns=("item", "text"))
        return replace(data, item_texts=read_texts(texts, two, data.item_names, {"text": plain}))

    def provenance(self) -> dict[str, str]:
        """Tell the file that is read."""
        return {"source": str(source_of(self.options.path))}
