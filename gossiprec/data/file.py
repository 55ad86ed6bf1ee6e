"""Data set `file`: any delimited table of users and items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset
from gossiprec.data.blocks import Layout
from gossiprec.data.columns import MEANINGS, interactions_from, read_table
from gossiprec.data.sources import Source, members
from gossiprec.data.split import Interactions
from gossiprec.data.texts import plain, read_texts
from gossiprec.errors import DataError
from gossiprec.options import Options as OptionSet

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


@DATASETS.register("file")
class DelimitedFile(Dataset):
    """A delimited text file, plain, .gz or .zip: a user, an item, and maybe a rating and a time on each line.

    Notes
    -----
    Users and items may have any names. Dense ids follow the sorted names (whole numbers by value, then
    words), so the order of the lines does not matter.
    """

    class Options(OptionSet):
        """Where the file is and what its columns mean."""

        path: Path
        columns: tuple[str, ...] = ("user", "item", "rating", "time")
        header: bool = False
        delimiter: str = Field("\t", pattern=DELIMITER)
        encoding: str = "utf-8"
        quote: Literal['"', "'", "none"] = Field(
            '"', description="around cells; none: quotes are ordinary text"
        )
        item_texts: Path | None = Field(
            None,
            description="a table of items and their texts, with the same header, delimiter, encoding and quote",
        )

        @field_validator("columns")
        @classmethod
        def _name_user_and_item_once(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
            return user_and_item_once(columns)

        @field_validator("encoding")
        @classmethod
        def _can_be_read(cls, encoding: str) -> str:
            return readable_encoding(encoding)

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the whole file, and the texts of items."""
        options = self.options
        quote = None if options.quote == "none" else options.quote
        layout = Layout(options.columns, options.delimiter, options.header, options.encoding, quote)
        data = interactions_from(
            read_table(source_of(options.path), layout), options.path.name.split(".")[0] or "file"
        )
        if options.item_texts is None or data.item_names is None:
            return data
        texts, two = source_of(options.item_texts), replace(layout, columns=("item", "text"))
        return replace(data, item_texts=read_texts(texts, two, data.item_names, {"text": plain}))

    def provenance(self) -> dict[str, str]:
        """Tell the file that is read."""
        return {"source": str(source_of(self.options.path))}
