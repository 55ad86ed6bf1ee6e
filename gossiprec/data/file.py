"""Data set `file`: a delimited table of users and items, or a list of items per user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, model_validator

from gossiprec.base.errors import DataError, did_you_mean
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, FilterOptions, apply_filters
from gossiprec.data.column_parsers import time_column_parser
from gossiprec.data.delimited_text import (
    InteractionTable,
    parse_texts,
    read_interactions,
    read_item_texts,
    to_interactions,
)
from gossiprec.data.format_detection import MEANINGS, FormatHints, column_role, detect_format, named_columns
from gossiprec.data.labels import ValueCounts, label_message
from gossiprec.data.other_formats import is_uniform, refuse_other_formats
from gossiprec.data.parquet import ParquetBatch, is_parquet, read_parquet
from gossiprec.data.parsed_file import ParsedFile, implausible_rows
from gossiprec.data.sources import FileSource, open_text_source
from gossiprec.data.split import Interactions
from gossiprec.data.split_parts import detect_list_format, read_item_lists
from gossiprec.data.text_blocks import TextFormat, find_line_of_row, read_sample, require_encoding

DELIMITER = r"^[^\"'\r\n\x00\x01]+$"
"""Pattern of the texts that may separate columns."""


Delimiter = Annotated[str, Field(pattern=DELIMITER)]
Quote = Literal['"', "'", "none"]
Columns = TypeVar("Columns", bound=tuple[str, ...] | dict[str, str] | None)


def check_columns(columns: Columns) -> Columns:
    """Return the meanings of columns in order, or their names by meaning, if they are valid (an option's check).

    Raises
    ------
    ValueError
        If they are not valid.
    """
    if isinstance(columns, dict):
        _check_named_columns(columns)
    elif columns is not None:
        _check_column_roles(columns)
    return columns


def _check_column_roles(columns: tuple[str, ...]) -> None:
    wrong = [
        name for name in MEANINGS if columns.count(name) > 1 or (name not in columns and name in MEANINGS[:2])
    ]
    if wrong:
        raise ValueError(
            f"found {list(columns)}; expected user and item once each, rating and time once or not at all, "
            f"any other name (such as '-') for a column to skip; wrong: {', '.join(wrong)}"
        )


def _check_named_columns(columns: dict[str, str]) -> None:
    strange = [key for key in columns if key not in MEANINGS]
    if strange or not {"user", "item"} <= columns.keys() or len({*columns.values()}) < len(columns):
        near = did_you_mean(strange[0], MEANINGS) if strange else ""
        raise ValueError(
            f"found {columns}; expected {{user: NAME, item: NAME}}, and rating and time if there are any, "
            f"each with a different name of the header{near}"
        )


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


Encoding = Annotated[str, AfterValidator(check_encoding)]


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
        form: Literal["pairs", "lists"] = "pairs"
        """pairs: one user and one item per line; lists: a user and its items, in order of time, per line"""
        columns: Annotated[tuple[str, ...] | dict[str, str] | None, AfterValidator(check_columns)] = None
        """for pairs: meanings of the columns in order, or {user: its name in the header, item: ...}; null: detected
"""
        header: bool | None = None
        """whether the first line names the columns; null: detected"""
        delimiter: Delimiter | None = None
        """null: recognised"""
        user_delimiter: Delimiter | None = None
        """for lists: delimiter after the user, such as ':' in '7:3 9 4'; null: detected"""
        doubtful_names: Literal["refuse", "keep"] = "refuse"
        """how to treat names such as 'nan', and one number written in two ways; keep: as names"""
        encoding: Encoding = "utf-8"
        quote: Quote = '"'
        """quotes around cells of pairs; none: quotes are ordinary text"""
        time_unit: Literal["s", "ms", "us", "ns"] = "s"
        """unit of numeric times, counted from 1970"""
        item_texts: Path | None = None
        """for pairs: a table of items and texts, with the same header, delimiter, encoding and quote"""

        @model_validator(mode="after")
        def _belong_to_the_form(self) -> DelimitedFile.Options:
            wrong = self.changed("columns", "quote", "time_unit", "item_texts", "min_rating")
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

        def changed(self, *names: str) -> list[str]:
            """Return some options that differ from their defaults."""
            fields = type(self).model_fields
            return [name for name in names if getattr(self, name) != fields[name].default]

        @property
        def hints(self) -> FormatHints:
            """The format that the options specify; None values are detected."""
            quote = None if self.quote == "none" else self.quote
            return FormatHints(
                self.columns,
                self.header,
                self.delimiter,
                self.encoding,
                quote,
                self.user_delimiter,
                keep_names=self.doubtful_names == "keep",
            )

    options: Options

    def load(self, seed: int) -> Interactions:
        """Read the whole file, and the texts of items."""
        options, understood = self.options, self.parsed_file
        name = options.path.name.split(".")[0] or "file"
        found = replace(to_interactions(understood.table, name), source_summary=understood.summary)
        data = apply_filters(found, options)
        if options.item_texts is None or data.item_names is None:
            return data
        texts = open_text_source(options.item_texts, "dataset.item_texts")
        layout = understood.layout or TextFormat((), options.delimiter or "\t", False, options.encoding)
        layout = replace(layout, columns=("item", "text"), header=_has_header(texts, layout, options.header))
        return replace(
            data, item_texts=read_item_texts(texts, layout, data.item_names, {"text": parse_texts})
        )

    @cached_property
    def parsed_file(self) -> ParsedFile:
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
        how = (detect_list_format if lists else detect_format)(source, options.hints)
        layout = how.layout
        require_encoding(source, layout.encoding)
        if lists:
            table, line_of = read_item_lists(source, layout)
            self._check(table, lambda row, *words: source.error(line_of(row), *words), lists=True)
            return ParsedFile(source, table, how)
        skipped = [str(place) for place, role in enumerate(layout.columns) if role not in MEANINGS]
        counts = ValueCounts.of(skipped if options.columns is None else ())
        table = read_interactions(
            source, layout, time=time_column_parser(options.time_unit), watch=counts.add
        )
        for place in counts.labels:
            named = named_columns(layout.columns, how.names)
            found = label_message(how.names[int(place)], counts.counts[place], named)
            raise read_sample(source, layout.encoding).error(*found)
        self._check(
            table,
            lambda row, *words: source.error(find_line_of_row(source, layout, row), *words),
            header=[how.names[layout.columns.index(role)] for role in MEANINGS[:2] if how.names],
            by_place=options.columns is None and not how.names,
        )
        return ParsedFile(source, table, how)

    def _parquet(self, source: FileSource) -> ParsedFile:
        options = self.options
        wrong = options.changed("form", "header", "delimiter", "user_delimiter", "encoding", "quote")
        if wrong:
            raise DataError(
                f"{source}: found a Parquet file and {', '.join(wrong)}; these options are for text; "
                "remove them"
            )
        table, names, skipped = read_parquet(
            source.path, options.columns, time=time_column_parser(options.time_unit)
        )
        self._check(table, ParquetBatch(source.path, 1).error)
        return ParsedFile(source, table, None, names, skipped)

    def _check(
        self,
        table: InteractionTable,
        error: Callable[[int, str, str], DataError],
        **more: Any,
    ) -> None:
        """Refuse an implausible row, unless options allow it; `error` names the line of a row."""
        names, ratings = self.options.doubtful_names == "refuse", self.options.min_rating is None
        for doubt in implausible_rows(table, names=names, ratings=ratings, **more):
            raise error(*doubt)

    def provenance(self) -> dict[str, str]:
        """Return the file that is read, and how it was parsed."""
        return {"source": str(open_text_source(self.options.path)), "read_as": self.parsed_file.summary}


def _has_header(texts: FileSource, layout: TextFormat, stated: bool | None) -> bool:
    if stated is not None:
        return stated
    sample = read_sample(texts, layout.encoding)
    rows = sample.rows(layout.delimiter, layout.quote)
    if not is_uniform(rows):
        refuse_other_formats(sample, (), "")
    return bool(rows) and column_role(rows[0][0]) == "item"
