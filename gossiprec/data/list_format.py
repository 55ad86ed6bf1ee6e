"""Lists: one line per user, with the user's items in order of time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gossiprec.data.column_parsers import IdEncoder
from gossiprec.data.column_roles import column_role
from gossiprec.data.delimited_text import InteractionTable
from gossiprec.data.format_detection import (
    CALLED,
    DELIMITERS,
    DetectedFormat,
    FormatHints,
    Rows,
    read_sample,
    refuse_counts,
)
from gossiprec.data.sources import FileSource
from gossiprec.data.split_parts import read_lists
from gossiprec.data.text_blocks import TextFormat

KEYS = ("header", "delimiter", "encoding", "user_delimiter")
"""Options of the format of lists."""


def detect_list_format(source: FileSource, asked: FormatHints) -> DetectedFormat:
    """Detect the delimiter between the names of lists, and whether the first line is a header.

    Raises
    ------
    DataError
        If lines can be split in two ways.
    """
    sample = read_sample(source, asked.encoding)
    first_line = sample.first_line
    tables = {mark: sample.rows(mark) for mark in DELIMITERS}
    delimiter = asked.delimiter
    if delimiter is None:
        delimiter, *more = [mark for mark in DELIMITERS if mark != "\t" and _splits(tables[mark])] or [" "]
        if not more and delimiter == " " and _splits(tables["\t"], all_of=tables[" "]):
            more = ["\t"] if tables["\t"] != tables[" "] else []
        if more:
            raise source.error(
                sample.first_line,
                f"lines that {' and '.join(CALLED[mark] for mark in (delimiter, *more))} would split",
                "a single delimiter; set it with the option delimiter",
            )
    rows = sample.rows(delimiter)
    refuse_counts(source, first_line, rows)
    _refuse_two_delimiters(source, first_line, delimiter, rows)
    header = asked.header
    if header is None:
        header = bool(rows) and [column_role(cell) for cell in rows[0][:2]] == ["user", "item"]
    user_delimiter = asked.user_delimiter
    if user_delimiter is None and asked.delimiter is None and has_colons(rows[1:] if header else rows):
        user_delimiter = ":"
    layout = TextFormat(
        ("user", "items"), delimiter, header, sample.encoding, keys=KEYS, user_delimiter=user_delimiter
    )
    return DetectedFormat(
        layout, rows[0] if header and rows else (), rows[1:] if header else rows, sample.marked
    )


def has_colons(rows: Rows) -> bool:
    """Return whether each line begins with ``user:item`` or ``user:`` and has no other colon."""
    return bool(rows) and all(
        row[0].count(":") == 1 and row[0][0] != ":" and not any(":" in cell for cell in row[1:])
        for row in rows
    )


def _refuse_two_delimiters(source: FileSource, line: int, delimiter: str, rows: Rows) -> None:
    """Refuse lines of a user and one cell that other delimiters would split."""
    pairs = [row for row in rows if len(row) == 2]
    others = [
        mark for mark in DELIMITERS if mark != delimiter and pairs and all(mark in row[1] for row in pairs)
    ]
    if delimiter not in DELIMITERS and others and len(pairs) == len(rows):
        raise source.error(
            line,
            f"one item per line, such as {pairs[0][1]!r}, that {CALLED[others[0]]} would split",
            f"the delimiter between items; set delimiter: {others[0]!r} and user_delimiter: {delimiter!r}",
        )


def _splits(rows: Rows, all_of: Rows | None = None) -> bool:
    """Return whether a delimiter splits half of the lines, or all lines that another one splits."""
    split = sum(len(row) > 1 for row in rows)
    return split > 0 and (
        2 * split >= len(rows) if all_of is None else split == sum(len(row) > 1 for row in all_of)
    )


def read_item_lists(source: FileSource, layout: TextFormat) -> tuple[InteractionTable, Callable[[int], int]]:
    """Read one line per user, with items in order of time: places in the line are the times.

    Returns
    -------
    table : InteractionTable
    line_of : callable
        Function from the place of an interaction to the number of its line.

    Raises
    ------
    DataError
        On the conditions of :func:`~gossiprec.data.split_parts.read_lists`, or if a user has two lines.
    """
    codes = IdEncoder(), IdEncoder()
    part = read_lists(source, layout, codes, once=True)
    places = np.arange(len(part.users)) - np.searchsorted(part.users, part.users)
    table = InteractionTable(tuple(codes[0].ids), tuple(codes[1].ids), part.users, part.items, None, places)
    return table, part.line_of
