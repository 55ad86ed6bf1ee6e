"""Data set `file`: a delimited table of users and items, or a list of items per user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from gossiprec.base.errors import DataError, suggestion
from gossiprec.base.inputs import open_regular_file
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, FilterOptions, apply_filters
from gossiprec.data.column_parsers import Convert, times
from gossiprec.data.delimited_text import InteractionTable, parse_texts, read_item_texts, to_interactions
from gossiprec.data.format_detection import MEANINGS, FormatHints, column_role
from gossiprec.data.parquet import is_parquet
from gossiprec.data.parsed_file import Doubt, ParsedFile, implausible_rows, parse_delimited, parse_parquet
from gossiprec.data.sources import FileSource, refuse_document, zip_members
from gossiprec.data.split import Interactions
from gossiprec.data.text_blocks import TextFormat, read_sample

DELIMITER = r"^[^\"'\r\n\x00\x01]+$"
"""Pattern of the texts that may separate columns."""


def check_column_roles(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of columns if they are valid (an option's check).

    Raises
    ------
    ValueError
        If they are not valid.
    """
    wrong = [
        name for name in MEANINGS if columns.count(name) > 1 or (name not in columns and name in MEANINGS[:2])
    ]
    if wrong:
        raise ValueError(
            f"found {list(columns)}; expected user and item once each, rating and time at most once, "
            f"any other name (such as '-') for a column to skip; wrong: {', '.join(wrong)}"
        )
    return columns


def check_named_columns(columns: dict[str, str]) -> dict[str, str]:
    """Return the names of columns by meaning if they are valid (an option's check).

    Raises
    ------
    ValueError
        If they are not valid.
    """
    strange = [key for key in columns if key not in MEANINGS]
    if strange or not {"user", "item"} <= columns.keys() or len({*columns.values()}) < len(columns):
        near = suggestion(strange[0], MEANINGS) if strange else ""
        raise ValueError(
            f"found {columns}; expected {{user: NAME, item: NAME}}, and rating and time if there are any, "
            f"each with a different name of the header{near}"
        )
    return columns


def check_encoding(encoding: str) -> str:
    """Return the name of an encoding if Python knows it (an option's check).

    Raises
    ------
    ValueError
        If Python does not know it.
    """
    try:
        "user,1".encode(encoding)
    except (LookupError, UnicodeError) as error:
        raise ValueError(
            f"{error}; expected an encoding that Python knows, such as latin-1 or utf-16"
        ) from error
    return encoding


def open_text_source(path: Path) -> FileSource:
    """Return the source of a text file: plain, .gz, or the only member of a .zip.

    Raises
    ------
    DataError
        If there is no such file, or a .zip does not hold exactly one.
    """
    try:
        with open_regular_file(path) as file:
            is_archive = file.read(4) == b"PK\3\4"
    except OSError as error:
        reason = (
            "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        )
        raise DataError(
            f"{path}: {reason}; pass the path of a delimited text file, plain, .gz or .zip"
        ) from error
    if path.suffix != ".zip":
        if is_archive:
            refuse_document(path, zip_members(path))
        return FileSource(path)
    held = zip_members(path)
    if len(held) != 1:
        named = ", ".join(held[:5]) or "none"
        raise DataError(
            f"{path}: found {len(held)} files ({named}); expected an archive of exactly one file; "
            "unpack the file that you need"
        )
    return FileSource(path, held[0])


@DATASETS.register("file")
class DelimitedFile(Dataset):
    """A text file, plain, .gz or .zip; one pair per line, or one user and its items per line.

    Notes
    -----
    Users and items may have any names. Dense ids follow the sorted names (whole numbers by value, then
    words). The order of the lines decides only between equal times.
    """

    class Options(FilterOptions):
        """Path and format of the file."""

        path: Path
        form: Literal["pairs", "lists"] = Field(
            "pairs",
            description="pairs: one user and one item per line; lists: a user and its items, in order of time, "
            "per line",
        )
        columns: tuple[str, ...] | dict[str, str] | None = Field(
            None,
            description="for pairs: meanings of the columns in order, or "
            "{user: its name in the header, item: ...}; null: detected",
        )
        header: bool | None = Field(
            None, description="whether the first line names the columns; null: detected"
        )
        delimiter: str | None = Field(None, pattern=DELIMITER, description="null: recognised")
        user_delimiter: str | None = Field(
            None,
            pattern=DELIMITER,
            description="for lists: delimiter after the user, such as ':' in '7:3 9 4'; null: detected",
        )
        doubtful_names: Literal["refuse", "keep"] = Field(
            "refuse",
            description="how to treat names such as 'nan', and one number written in two ways; keep: as names",
        )
        encoding: str = "utf-8"
        quote: Literal['"', "'", "none"] = Field(
            '"', description="quotes around cells of pairs; none: quotes are ordinary text"
        )
        time_unit: Literal["s", "ms", "us", "ns"] = Field(
            "s", description="unit of numeric times, counted from 1970"
        )
        item_texts: Path | None = Field(
            None,
            description="for pairs: a table of items and texts, with the same header, delimiter, encoding and quote",
        )

        @field_validator("columns")
        @classmethod
        def _name_user_and_item_once(
            cls, columns: tuple[str, ...] | dict[str, str] | None
        ) -> tuple[str, ...] | dict[str, str] | None:
            if isinstance(columns, dict):
                return check_named_columns(columns)
            return None if columns is None else check_column_roles(columns)

        @field_validator("encoding")
        @classmethod
        def _can_be_read(cls, encoding: str) -> str:
            return check_encoding(encoding)

        @model_validator(mode="after")
        def _belong_to_the_form(self) -> DelimitedFile.Options:
            fields = type(self).model_fields
            of_pairs = ("columns", "quote", "time_unit", "item_texts", "min_rating")
            wrong = [name for name in of_pairs if getattr(self, name) != fields[name].default]
            if self.form == "lists" and wrong:
                raise ValueError(
                    f"found {', '.join(wrong)} with form: lists; expected only path, header, delimiter, "
                    "encoding, min_items, min_interactions; remove the others, or set form: pairs"
                )
            if self.form == "pairs" and self.user_delimiter is not None:
                raise ValueError("found user_delimiter with form: pairs; it requires form: lists")
            if self.min_rating is not None and self.columns is not None and "rating" not in self.columns:
                raise ValueError(
                    f"min_rating is {self.min_rating:g}, columns are {list(self.columns)}; expected columns "
                    "with a rating; name it, or remove min_rating"
                )
            if self.header is False and isinstance(self.columns, dict):
                raise ValueError(
                    "found header: false, but columns by name; remove header, or list columns in order"
                )
            return self

        @property
        def asked(self) -> FormatHints:
            """The format that the options specify; None values are detected."""
            quote = None if self.quote == "none" else self.quote
            return FormatHints(
                self.columns, self.header, self.delimiter, self.encoding, quote, self.user_delimiter
            )

        @property
        def time(self) -> Convert:
            """The parser of times."""
            return times(self.time_unit)

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the whole file, and the texts of items."""
        options, understood = self.options, self.understood
        name = options.path.name.split(".")[0] or "file"
        found = replace(to_interactions(understood.table, name), source_summary=understood.summary)
        data = apply_filters(found, options)
        if options.item_texts is None or data.item_names is None:
            return data
        texts = open_text_source(options.item_texts)
        layout = understood.layout or TextFormat((), options.delimiter or "\t", False, options.encoding)
        layout = replace(layout, columns=("item", "text"), header=_has_header(texts, layout, options.header))
        return replace(
            data, item_texts=read_item_texts(texts, layout, data.item_names, {"text": parse_texts})
        )

    @cached_property
    def understood(self) -> ParsedFile:
        """The parsed file, with its detected format.

        Raises
        ------
        DataError
            If it is damaged, or can be parsed in two ways.
        """
        options, source = self.options, open_text_source(self.options.path)
        if source.member is None and is_parquet(options.path):
            return self._parquet(source)
        lists = options.form == "lists"
        found = parse_delimited(source, options.asked, lists=lists, time=options.time, check=self._check)
        return found

    def _check(self, table: InteractionTable, by_place: bool, header: Sequence[str]) -> Iterator[Doubt]:
        """Yield the implausible rows of a table, except those that options allow."""
        options = self.options
        yield from implausible_rows(
            table,
            header,
            by_place=by_place,
            names=options.doubtful_names == "refuse",
            ratings=options.min_rating is None,
        )

    def _parquet(self, source: FileSource) -> ParsedFile:
        options = self.options
        fields = type(options).model_fields
        of_text = ("form", "header", "delimiter", "user_delimiter", "encoding", "quote")
        wrong = [name for name in of_text if getattr(options, name) != fields[name].default]
        if wrong:
            raise DataError(
                f"{source}: found a Parquet file and {', '.join(wrong)}; these options are for text; "
                "remove them"
            )
        return parse_parquet(source, options.columns, time=options.time, check=self._check)

    def provenance(self) -> dict[str, str]:
        """Return the file that is read, and how it was parsed."""
        return {"source": str(open_text_source(self.options.path)), "read_as": self.understood.summary}


def _has_header(texts: FileSource, layout: TextFormat, stated: bool | None) -> bool:
    if stated is not None:
        return stated
    rows = read_sample(texts, layout.encoding).rows(layout.delimiter, layout.quote)
    return bool(rows) and column_role(rows[0][0]) == "item"
