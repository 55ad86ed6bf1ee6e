"""Detection of the format of a table: its delimiter, its header, and the meaning of columns by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gossiprec.base.errors import suggestion
from gossiprec.data.sources import FileSource
from gossiprec.data.text_blocks import Rows, TextFormat, TextSample, read_sample

MEANINGS = ("user", "item", "rating", "time")
"""Meanings of a column; a column with any other meaning is skipped."""

PEOPLE = (
    "user", "customer", "reviewer", "member", "visitor", "account", "client", "person", "patient", "listener",
)  # fmt: skip
THINGS = (
    "item", "product", "movie", "article", "book", "song", "track", "artist", "venue", "business", "poi", "place",
    "location", "game", "anime", "recipe", "course", "restaurant", "video",
)  # fmt: skip
WORDS = {
    "user": {*PEOPLE, *(f"{word}id" for word in PEOPLE), "uid", "username", "users"},
    "item": {*THINGS, *(f"{word}id" for word in THINGS), "iid", "asin", "parentasin", "isbn", "sku", "items"},
    "rating": {"rating", "ratings", "score", "stars", "overall"},
    "time": {
        "time", "times", "timestamp", "unixtime", "datetime", "date", "ts", "unixreviewtime", "createdat",
    },
}  # fmt: skip
KIND = re.compile(r":(?:token|float)(?:_seq)?$")
"""Suffix with which the atomic files of RecBole give the type of a column."""


LABELS = {
    "label", "labels", "click", "clicks", "clicked", "isclick", "isclicked", "like", "likes", "liked", "islike",
    "isliked", "feedback", "target", "ispositive", "positive", "purchased", "ispurchased", "longview", "hate",
    "ishate", "follow", "isfollow", "finished", "iscompleted",
}  # fmt: skip
"""Names of columns that may mark by 0 and 1 which lines count."""


def is_label(name: str) -> bool:
    """Return whether a column, by its name, may mark which lines count."""
    return re.sub(r"[\W_]", "", KIND.sub("", name.strip().lower())) in LABELS


FLAGS = [
    {"0", "1"}, {"-1", "1"}, {"0.0", "1.0"}, {"-1.0", "1.0"},
    {"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"},
]  # fmt: skip
"""Pairs of values of a column that may mark which lines count, in lower case."""


def are_flags(cells: Sequence[str]) -> bool:
    """Return whether cells may mark which lines count: two values, one of which is repeated."""
    return len(cells) > 2 and {cell.strip().lower() for cell in cells} in FLAGS


def column_role(name: str) -> str | None:
    """Return the meaning (one of :data:`MEANINGS`) that a column's name suggests, or None."""
    word = re.sub(r"[\W_]", "", KIND.sub("", name.strip().lower()))
    return next((meaning for meaning, words in WORDS.items() if word in words), None)


def column_roles(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the meaning of each column, ``-`` for none; None without one user and one item.

    Notes
    -----
    Two columns with the same meaning are ambiguous: the result is None, too.
    """
    found = tuple(column_role(name) or "-" for name in names)
    once = all(found.count(meaning) <= 1 for meaning in MEANINGS)
    return found if once and {"user", "item"} <= set(found) else None


DELIMITERS = ("\t", "::", ",", ";", "|", " ")
"""Delimiters that are detected; on ties the first one is taken."""
DELIMITER_NAMES = {
    "\t": "a tab", "::": "'::'", ",": "a comma", ";": "a semicolon", "|": "a bar", " ": "blanks",
}  # fmt: skip


Columns = tuple[str, ...] | Mapping[str, str] | None
"""Meanings by place, or the names of columns by meaning; None if they are to be detected."""
KEYS = ("columns", "header", "delimiter", "encoding", "quote", "time_unit")
"""Options of the format of pairs."""
SMALL, UNIX_TIME = re.compile(r"\d{1,8}"), re.compile(r"\d{9}")
"""Numbers that cannot be present-day times in any unit, and numbers that can."""
VALUE = re.compile(r"\d{4}-\d\d-\d\d[T ].*|[+-]?\d+,\d+")
"""A date with time, or a number with a decimal comma."""
BY_PLACE = {2: MEANINGS[:2], 4: MEANINGS}
"""Meanings of columns without names, by the number of columns."""


@dataclass(frozen=True)
class FormatHints:
    """What the user has specified of a text's format; None means that it is detected."""

    columns: Columns = None
    header: bool | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    quote: str | None = '"'
    user_delimiter: str | None = None


@dataclass(frozen=True)
class DetectedFormat:
    """The format of a table.

    Attributes
    ----------
    layout : TextFormat
    names : tuple of str
        The cells of the header; empty without a header.
    rows : tuple of tuple of str
        The first rows below it.
    marked : bool
        Whether the text begins with a byte order mark.
    """

    layout: TextFormat
    names: tuple[str, ...]
    rows: Rows
    marked: bool

    @property
    def skipped(self) -> tuple[str, ...]:
        """The columns that are not read: their names, or their places if there is no header."""
        columns = self.layout.columns
        if columns == ("user", "items"):
            return ()
        called = self.names or tuple(f"column {place}" for place in range(1, len(columns) + 1))
        return tuple(name for name, meant in zip(called, columns, strict=False) if meant not in MEANINGS)

    @property
    def summary(self) -> str:
        """A description of the format."""
        columns = self.layout.columns
        meant = {name: place for place, name in enumerate(columns) if name in MEANINGS}
        of = {m: self.names[place] if self.names else f"column {place + 1}" for m, place in meant.items()}
        header = "a header" if self.names else "no header"
        delimiter = DELIMITER_NAMES.get(self.layout.delimiter, repr(self.layout.delimiter))
        if self.layout.user_delimiter is not None:
            delimiter = f"{self.layout.user_delimiter!r} after the user, {delimiter}"
        text = f"{delimiter} between columns, {header}, " + ", ".join(f"{m} = {of[m]}" for m in meant)
        return text + (f", skipped: {', '.join(self.skipped)}" if self.skipped else "")


def detect_format(source: FileSource, asked: FormatHints) -> DetectedFormat:
    """Detect the format of a table of pairs, given what the user has specified (`asked`).

    Raises
    ------
    DataError
        If the text can be parsed in two ways, or its header contradicts `asked`.
    """
    sample = read_sample(source, asked.encoding)
    delimiter = asked.delimiter or _delimiter(source, sample, asked)
    rows = sample.rows(delimiter, asked.quote)
    if asked.columns is None:
        refuse_counts(source, sample.first_line, rows)
    names, columns = _columns(source, sample.first_line, rows, asked, delimiter)
    layout = TextFormat(columns, delimiter, bool(names), sample.encoding, asked.quote, KEYS)
    return DetectedFormat(layout, names, rows[1:] if names else rows, sample.marked)


def _delimiter(source: FileSource, sample: TextSample, asked: FormatHints) -> str:
    """Return the delimiter that splits every line as expected, or else the one that comes nearest."""
    tables = {mark: rows for mark in DELIMITERS if (rows := sample.rows(mark, asked.quote))}
    if sample.has_tabs and not _fits(tables.get("\t", ()), asked):
        tables.pop(" ", None)  # it would split at tabs, too, if quotes keep the tab from fitting
    fitting: dict[str, Rows] = {}
    for mark, rows in tables.items():
        if _fits(rows, asked) and rows not in fitting.values():
            fitting[mark] = rows
    if len(fitting) > 1 and asked.columns is None:
        fitting = _without_parts(_by_words(fitting) or fitting)
    if len(fitting) > 1:
        raise source.error(
            sample.first_line,
            f"lines that {' and '.join(DELIMITER_NAMES[mark] for mark in fitting)} would split as well",
            "a single delimiter; set it with the option delimiter",
        )
    if fitting:
        return next(iter(fitting))
    return max(tables, key=lambda mark: _likeness(tables[mark], asked), default="\t")


def _by_words(fitting: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return the ways to split in which the first row names a user and an item."""
    return {mark: rows for mark, rows in fitting.items() if column_roles(rows[0]) is not None}


def _without_parts(fitting: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return the ways to split, except those that only break up dates and decimal numbers."""
    return {
        mark: rows
        for mark, rows in fitting.items()
        if not any(
            len(rows[0]) != len(others[0]) and _splits_values_only(mark, others)
            for other, others in fitting.items()
            if other != mark
        )
    }


def _splits_values_only(mark: str, rows: Rows) -> bool:
    """Return whether a delimiter is found only within single values of the rows split otherwise."""
    held = [cell for row in rows for cell in row if mark in cell]
    return bool(held) and all(VALUE.fullmatch(cell) for cell in held)


def _fits(rows: Rows, asked: FormatHints) -> bool:
    """Return whether all rows have the expected width, if a width can be expected."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {1}:
        return False
    if asked.columns is None:
        return widths <= BY_PLACE.keys() or column_roles(rows[0]) is not None or asked.header is True
    if isinstance(asked.columns, Mapping):
        return set(asked.columns.values()) <= set(rows[0])
    return widths == {len(asked.columns)}


def _likeness(rows: Rows, asked: FormatHints) -> float:
    """Return the share of rows with the expected, or else the most common, width above one cell."""
    widths = Counter(len(row) for row in rows)
    if isinstance(asked.columns, tuple) and widths[len(asked.columns)]:
        return 1 + widths[len(asked.columns)] / len(rows)
    width, count = widths.most_common(1)[0]
    return count / len(rows) if width > 1 else 0.0


def _columns(
    source: FileSource, line: int, rows: Rows, asked: FormatHints, delimiter: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the cells of the header, empty if there is none, and the meaning of each column."""
    first: tuple[str, ...] = rows[0] if rows else ()
    if isinstance(asked.columns, Mapping):
        return first, _by_name(source, line, first, asked.columns, delimiter)
    by_words = column_roles(first)
    places = asked.columns or by_words or BY_PLACE.get(len(first), MEANINGS)
    header = _has_header(source, line, rows, places) if asked.header is None else asked.header
    if header and asked.columns is None:
        _refuse_special(source, line, rows)
    if rows[1:] or not header:
        _require_agreement(source, line, first, places, header=header, stated=asked)
    return (first if header else ()), places


def _refuse_special(source: FileSource, line: int, rows: Rows) -> None:
    """Refuse a table with a column that must not be skipped silently, by its name or first cells."""
    header = rows[0] if rows else ()
    labels = [
        name
        for place, name in enumerate(header)
        if is_label(name)
        or (column_role(name) is None and are_flags([row[place] for row in rows[1:] if place < len(row)]))
    ]
    if labels:
        raise source.error(
            line,
            f"the column {labels[0]!r}, which may mark the lines that count",
            f"columns by name; to keep its ones, columns: {{user: ..., item: ..., rating: '{labels[0]}'}} with "
            "min_rating: 1; to leave it out, the same without the rating",
        )
    sequences = [name for name in header if name.strip().lower().endswith("_seq") and ":" in name]
    if sequences:
        raise source.error(
            line,
            f"the column {sequences[0]!r}, a list of values in one cell, as RecBole's atomic files "
            "of sequences have",
            "one item per line, as RecBole's .inter files of interactions have",
        )


def refuse_counts(source: FileSource, line: int, rows: Rows) -> None:
    """Refuse lines that begin with the number of their other cells.

    Raises
    ------
    DataError
        If every line does so, as in the lists of CiteULike, which name no user.
    """
    if len(rows) > 1 and all(row[0].isdigit() and int(row[0]) == len(row) - 1 for row in rows if row):
        raise source.error(
            line,
            f"{' '.join(rows[0][:6])!r}, a line that begins with the number of its items, like all "
            "other lines (CiteULike)",
            "a user, then its items; replace the count by the number of the line",
        )


def _by_name(
    source: FileSource, line: int, header: tuple[str, ...], columns: Mapping[str, str], delimiter: str
) -> tuple[str, ...]:
    """Return the meaning of each column, given the names of the columns with a meaning."""
    for meaning, name in columns.items():
        if header.count(name) != 1:
            times = "twice" if name in header else "nowhere"
            raise source.error(
                line,
                f"the column {name!r} {times} among {', '.join(map(repr, header[:12]))}, split at {delimiter!r}",
                f"a header that names the column of the {meaning} once{suggestion(name, header)}",
            )
    of = {name: meaning for meaning, name in columns.items()}
    return tuple(of.get(name, "-") for name in header)


def _has_header(source: FileSource, line: int, rows: Rows, columns: tuple[str, ...]) -> bool:
    """Return whether the first row names columns.

    Raises
    ------
    DataError
        If it cannot be decided.
    """
    first = rows[0] if rows else ()
    if len(first) != len(columns):
        return False
    cells = {meaning: first[columns.index(meaning)] for meaning in MEANINGS if meaning in columns}
    if any(map(_is_number, cells.values())):
        if first == (*map(str, range(len(first))),) or _begins_before_1973(rows, columns):
            raise source.error(
                line,
                f"{', '.join(first)}, which may be a header of numbers or the first row",
                "an unambiguous first line; set header: true or header: false",
            )
        return False
    found = {meaning: column_role(cell) for meaning, cell in cells.items()}
    if {found["user"], found["item"]} == {"user", "item"}:
        return True
    if len(cells) > 2 and any(found.values()):
        return True
    places = [columns.index(name) for name in ("user", "item")]
    odd = [place for place in places if _odd(rows, place)] or all(
        _may_be_a_name(rows, place) for place in places
    )
    if odd or found["user"] or found["item"] or first[0].startswith(("#", "%")):
        raise source.error(
            line,
            f"{', '.join(map(repr, first[:12]))}, which may be a header, a comment, or neither",
            "an unambiguous first line; set header: true or header: false, or name the columns: "
            "{user: ..., item: ...}",
        )
    return False


def _begins_before_1973(rows: Rows, columns: tuple[str, ...]) -> bool:
    """Return whether the first time is a small number and all others are present-day times."""
    place = columns.index("time") if "time" in columns else len(columns)
    first, *others = [row[place] for row in rows if place < len(row)] or ("",)
    return len(others) > 1 and bool(SMALL.fullmatch(first)) and all(map(UNIX_TIME.match, others))


def _odd(rows: Rows, column: int) -> bool:
    """Return whether all cells of a column are numbers or have digits, except the first."""
    first, *others = [row[column] for row in rows if column < len(row)]
    return len(others) > 1 and any(
        not kind(first) and all(map(kind, others)) for kind in (str.isdigit, _has_digit)
    )


def _may_be_a_name(rows: Rows, column: int) -> bool:
    """Return whether a column of words begins with a word that is not repeated."""
    first, *others = [row[column] for row in rows if column < len(row)]
    return (
        len(others) > 1 and not _has_digit(first) and first not in others and not all(map(_has_digit, others))
    )


def _has_digit(cell: str) -> bool:
    return any(map(str.isdigit, cell))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell[:4].isdigit() and cell[4:5] == "-"  # a date
    return True


def _require_agreement(
    source: FileSource,
    line: int,
    first: tuple[str, ...],
    columns: tuple[str, ...],
    *,
    header: bool,
    stated: FormatHints,
) -> None:
    """Refuse a first line that contradicts what the user has specified."""
    said = [column_role(cell) for cell in first]
    wrong = [
        f"{cell!r} where columns has {meant}"
        for cell, meant, says in zip(first, columns, said, strict=False)
        if meant in MEANINGS and says not in (None, meant)
    ]
    if header and stated.columns is None and len(first) > 1 and column_roles(first) is None:
        raise source.error(
            line,
            f"a header of {', '.join(map(repr, first[:12]))}",
            "a column named like a user and one named like an item; name them, such as columns: "
            "{user: ..., item: ...}",
        )
    if header and wrong:
        raise source.error(
            line,
            f"a header with {' and '.join(wrong)}",
            "columns in the order of the file, or by name, such as {user: ..., item: ...}",
        )
    if header and stated.columns is not None and len(first) != len(columns):
        raise source.error(
            line, f"a header of {len(first)} names, split at", f"{len(columns)}, as columns has"
        )
    if not header and stated.header is False and {"user", "item"} <= {*said[: len(columns)]}:
        raise source.error(
            line, f"names of columns, {', '.join(map(repr, first[:12]))}, but header: false", "header: true"
        )
    if not header and stated.columns is None and len(first) > 1 and len(first) not in BY_PLACE:
        raise source.error(
            line,
            f"{len(first)} columns without names, {', '.join(map(repr, first[:12]))}",
            "2 (user, item) or 4 (user, item, rating, time); name the columns, such as columns: [user, "
            "item, time], or set form: lists if a line is a user and its items",
        )
