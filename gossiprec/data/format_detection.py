"""Detection of the format of a table: its delimiter, its header, and the meaning of columns by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gossiprec.base.errors import did_you_mean
from gossiprec.data.column_parsers import shorten
from gossiprec.data.labels import LABELS, flow, label_message
from gossiprec.data.other_formats import refuse_drawn_tables, refuse_other_formats, refuse_sure_formats
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


def is_label(name: str) -> bool:
    """Return whether a column, by its name, may mark which lines count."""
    return _plain(name) in LABELS


def _plain(name: str) -> str:
    """Return the letters and digits of a column's name, in lower case."""
    return re.sub(r"[\W_]", "", KIND.sub("", name.strip().lower()))


def column_role(name: str) -> str | None:
    """Return the meaning (one of :data:`MEANINGS`) that a column's name suggests, or None."""
    return next((meaning for meaning, words in WORDS.items() if _plain(name) in words), None)


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
NAME_COLUMNS = "name its columns, such as columns: [user, item, -, time]"
NO_NAME = re.compile(r"[{}\"'<>]|:$")
"""Characters of JSON, markup and blocks of keys that names of columns hardly ever have."""
COMMENT = re.compile(r"#|%|//|--\s|;")
"""Beginning of a comment."""
UNAMBIGUOUS = "an unambiguous first line; set header: true or header: false"
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
    keep_names: bool = False


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
    def columns(self) -> list[tuple[str, str]]:
        """The meaning of each column, and its name, or its place if there is no header."""
        meant = self.layout.columns
        called = self.names or tuple(f"column {place}" for place in range(1, len(meant) + 1))
        return [*zip(meant, called, strict=False)]

    @property
    def skipped(self) -> tuple[str, ...]:
        """The columns that are not read."""
        lists = self.layout.columns == ("user", "items")
        return tuple(called for meant, called in self.columns if meant not in MEANINGS and not lists)

    @property
    def summary(self) -> str:
        """A description of the format."""
        header = "a header" if self.names else "no header"
        delimiter = DELIMITER_NAMES.get(self.layout.delimiter, repr(self.layout.delimiter))
        if self.layout.user_delimiter is not None:
            delimiter = f"{self.layout.user_delimiter!r} after the user, {delimiter}"
        known = ", ".join(f"{meant} = {called}" for meant, called in self.columns if meant in MEANINGS)
        text = f"{delimiter} between columns, {header}, {known}"
        return text + (f", skipped: {', '.join(self.skipped)}" if self.skipped else "")


def detect_format(source: FileSource, hints: FormatHints) -> DetectedFormat:
    """Detect the format of a table of pairs, given what the user has specified (`hints`).

    Raises
    ------
    DataError
        If the text can be parsed in two ways, or its header contradicts `hints`.
    """
    sample = read_sample(source, hints.encoding)
    refuse_sure_formats(sample)
    marks = DELIMITERS if hints.delimiter is None else (hints.delimiter,)
    tables = {mark: rows for mark in marks if (rows := sample.rows(mark, hints.quote))}
    _refuse_guessed(sample, tables, hints)
    delimiter = hints.delimiter or _delimiter(sample, tables, hints)
    rows = tables.get(delimiter, ())
    refuse_comment(sample, rows, hints.columns)
    if rows and not _is_known_table(rows, hints) and len({len(row) for row in rows}) > 1:
        refuse_counts(sample, rows)
    names, columns = _columns(sample, rows, hints, delimiter)
    layout = TextFormat(columns, delimiter, bool(names), sample.encoding, hints.quote, KEYS)
    return DetectedFormat(layout, names, rows[1:] if names else rows, sample.marked)


def _refuse_guessed(sample: TextSample, tables: Mapping[str, Rows], hints: FormatHints) -> None:
    """Refuse a text in another format, unless the options or its header show that it is a table."""
    solid = [rows for mark, rows in tables.items() if mark != " "]
    if not any(_is_known_table(rows, hints) for rows in tables.values()):
        refuse_other_formats(sample, solid, "" if hints.columns else f"if it is a table, {NAME_COLUMNS}")
    if hints.columns is None:
        refuse_drawn_tables(sample, solid)


def refuse_comment(sample: TextSample, rows: Rows, columns: Columns = None) -> None:
    """Refuse a comment above a table; it differs from the rows below, or these begin with a header.

    Raises
    ------
    DataError
        With the next step.
    """
    below = next((row for row in rows if not COMMENT.match(row[0])), None)
    if below is None or below is rows[0] or column_roles(rows[0]) is not None:
        return
    names = {*columns.values()} if isinstance(columns, Mapping) else None
    if len(below) != len(rows[0]) or column_roles(below) is not None or (names and names <= {*below}):
        raise sample.error(
            f"a comment, {shorten(' '.join(rows[0]))!r}",
            "the header or the first row; remove the comments above the table",
        )


def _is_known_table(rows: Rows, hints: FormatHints) -> bool:
    """Return whether rows have the given columns, or else a header that names user and item."""
    if hints.columns is not None:
        return _fits(rows, hints)
    return column_roles(rows[0]) is not None and not any(map(NO_NAME.search, rows[0]))


def _delimiter(sample: TextSample, tables: Mapping[str, Rows], hints: FormatHints) -> str:
    """Return the delimiter that splits every line as expected, or else the one that comes nearest."""
    has_tabs = all("\t" in line for line in sample.lines)
    if has_tabs and not _fits(tables.get("\t", ()), hints):  # then quotes keep the tab from fitting,
        tables = {m: rows for m, rows in tables.items() if m != " "}  # and blanks would split at tabs
    fitting: dict[str, Rows] = {}
    for mark, rows in tables.items():
        if _fits(rows, hints) and rows not in fitting.values():
            fitting[mark] = rows
    if len(fitting) > 1 and hints.columns is None:
        named = {mark: rows for mark, rows in fitting.items() if column_roles(rows[0]) is not None}
        fitting = _without_parts(named or fitting)
    if len(fitting) > 1:
        marks = " and ".join(DELIMITER_NAMES[mark] for mark in fitting)
        raise sample.error(
            f"lines that {marks} would split as well", "a single delimiter; set it with the option delimiter"
        )
    if fitting:
        return next(iter(fitting))
    return max(tables, key=lambda mark: _share_of_width(tables[mark], hints), default="\t")


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


def _fits(rows: Rows, hints: FormatHints) -> bool:
    """Return whether all rows have the expected width, if a width can be expected."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {1}:
        return False
    if hints.columns is None:
        return widths <= BY_PLACE.keys() or column_roles(rows[0]) is not None or hints.header is True
    if isinstance(hints.columns, Mapping):
        return set(hints.columns.values()) <= set(rows[0])
    return widths == {len(hints.columns)}


def _share_of_width(rows: Rows, hints: FormatHints) -> float:
    """Return the share of rows with the expected, or else the most common, width above one cell."""
    widths = Counter(len(row) for row in rows)
    if isinstance(hints.columns, tuple) and widths[len(hints.columns)]:
        return 1 + widths[len(hints.columns)] / len(rows)
    width, count = widths.most_common(1)[0]
    return count / len(rows) if width > 1 else 0.0


def _columns(
    sample: TextSample, rows: Rows, hints: FormatHints, delimiter: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the cells of the header, empty if there is none, and the meaning of each column."""
    first: tuple[str, ...] = rows[0] if rows else ()
    if isinstance(hints.columns, Mapping):
        _refuse_sequences(sample, rows, [hints.columns["user"], hints.columns["item"]])
        return first, _by_name(sample, first, hints.columns, delimiter)
    if hints.columns is None:
        _refuse_atomic(sample, rows)
    else:
        _refuse_sequences(
            sample, rows, [n for n, c in zip(first, hints.columns, strict=False) if c in ("user", "item")]
        )
    places = hints.columns or column_roles(first) or BY_PLACE.get(len(first), MEANINGS)
    header = _has_header(sample, rows, places, hints.columns) if hints.header is None else hints.header
    if header and hints.columns is None:
        _refuse_special(sample, rows, places)
    if rows[1:] or not header:
        _require_agreement(sample, first, places, header=header, stated=hints)
    return (first if header else ()), places


def _refuse_special(sample: TextSample, rows: Rows, roles: Sequence[str]) -> None:
    """Refuse a table with a column that by its name must not be skipped silently."""
    header = rows[0] if rows else ()
    for place, name in enumerate(header):
        if is_label(name):
            values = {row[place] for row in rows[1:] if place < len(row)}
            raise sample.error(*label_message(name, values, named_columns(roles, header)))
    _refuse_sequences(sample, rows, header)


def named_columns(roles: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the names of the columns with a meaning."""
    return {role: name for role, name in zip(roles, names, strict=False) if role in MEANINGS}


def _refuse_sequences(sample: TextSample, rows: Rows, names: Sequence[str]) -> None:
    """Refuse columns of RecBole's atomic files that hold several values in one cell."""
    header = rows[0] if rows else ()
    for place, name in enumerate(header):
        several = any(" " in row[place] for row in rows[1:] if place < len(row))
        if name in names and ":" in name and name.strip().lower().endswith("_seq") and several:
            raise sample.error(
                f"the column {name!r}, a list of values in one cell, as RecBole's atomic files of sequences have",
                "one item per line, as RecBole's .inter files of interactions have; to leave out this column, name "
                f"the others, such as columns: {flow(_likely_names([one for one in header if one != name]))}",
            )


def _refuse_atomic(sample: TextSample, rows: Rows) -> None:
    """Refuse RecBole's atomic files without a user and an item: of users, items, links and knowledge graphs."""
    header = rows[0] if rows else ()
    if len(header) > 1 and all(map(KIND.search, header)) and column_roles(header) is None:
        _refuse_sequences(sample, rows, header)
        raise sample.error(
            f"{_shown(header)}, the header of a RecBole atomic file without one user and one item",
            "its .inter file of interactions; if this is one, name the columns, such as columns: "
            f"{flow(_likely_names(header))}",
        )


COUNTS = (
    ("a line that begins with the number of its items", "replace the count by the number of the line"),
    ("a line that has the number of its items after the user", "remove the counts"),
)
"""Lists with counts, by the place of the count, and the next step."""


def refuse_counts(
    sample: TextSample,
    rows: Rows,
    places: Sequence[int] = (0,),
    override: str = f", and set form: lists; if it is a table, {NAME_COLUMNS}",
) -> None:
    """Refuse lines that hold the number of their further cells at one of some places.

    Raises
    ------
    DataError
        If nearly every line does so, as in the lists of CiteULike, which name no user.
    """
    for place in places:
        right = [row[place : place + 1] == (str(len(row) - place - 1),) for row in rows]
        inner = right[1:-1] if len(right) > 4 else right  # the ends may be sizes, or cut
        if sum(inner) > 1 and 10 * sum(inner) >= 9 * len(inner) and any(len(row) > place + 1 for row in rows):
            raise sample.error(
                f"{' '.join(rows[-2][:6])!r}, {COUNTS[place][0]}, like nearly all other lines (CiteULike)",
                f"a user, then its items; {COUNTS[place][1]}{override}",
            )


def _by_name(
    sample: TextSample, header: tuple[str, ...], columns: Mapping[str, str], delimiter: str
) -> tuple[str, ...]:
    """Return the meaning of each column, given the names of the columns with a meaning."""
    for meaning, name in columns.items():
        if header.count(name) != 1:
            times = "twice" if name in header else "nowhere"
            raise sample.error(
                f"the column {name!r} {times} among {_shown(header)}, split at {delimiter!r}",
                f"a header that names the column of the {meaning} once{did_you_mean(name, header)}",
            )
    of = {name: meaning for meaning, name in columns.items()}
    return tuple(of.get(name, "-") for name in header)


def _shown(cells: Sequence[str]) -> str:
    """Return the first cells of a row, for a message."""
    return ", ".join([*map(repr, map(shorten, cells[:12])), *["..."][: len(cells) > 12]])


def _has_header(sample: TextSample, rows: Rows, columns: tuple[str, ...], stated: Columns) -> bool:
    """Return whether the first row names columns; `stated` are the given columns.

    Raises
    ------
    DataError
        If it cannot be decided.
    """
    first = rows[0] if rows else ()
    if len(first) != len(columns):
        return stated is None and len(first) > 1 and not any(map(_is_number, first)) and "" not in first
    sure = UNAMBIGUOUS
    if stated is None:
        sure = (
            f"an unambiguous first line; if it is a row, set header: false; if it names the columns, name them, such "
            f"as columns: {flow(_likely_names(first))}; if it is a comment, remove it"
        )
    cells = {meaning: first[columns.index(meaning)] for meaning in MEANINGS if meaning in columns}
    if any(map(_is_number, cells.values())):
        if first == (*map(str, range(len(first))),) or _begins_before_1973(rows, columns):
            raise sample.error(f"{', '.join(first)}, which may be a header of numbers or the first row", sure)
        return False
    found = {meaning: column_role(cell) for meaning, cell in cells.items()}
    if {found["user"], found["item"]} == {"user", "item"} or (len(cells) > 2 and any(found.values())):
        return True
    starts = [_start(rows, columns.index(name)) for name in ("user", "item")]
    odd = any(_odd(*start) for start in starts) or all(_may_be_a_name(*start) for start in starts)
    if odd or _are_numbered(first) or found["user"] or found["item"] or first[0].startswith(("#", "%")):
        raise sample.error(f"{_shown(first)}, which may be a header, a comment, or neither", sure)
    return False


def _likely_names(header: Sequence[str]) -> dict[str, str]:
    """Return the columns of a header that may name user and item, as an example."""
    free = sorted(header, key=lambda name: column_role(name) is not None)
    user = next((name for name in free if column_role(name) == "user"), free[0])
    others = [name for name in free if name != user] or free
    return {"user": user, "item": next((name for name in others if column_role(name) == "item"), others[0])}


def _are_numbered(first: Sequence[str]) -> bool:
    """Return whether names of columns are one word with 0, 1, ... or 1, 2, ..., as programs call them."""
    stems = {cell.rstrip("0123456789") for cell in first}
    numbers = [cell[len(stem) :] for cell in first for stem in stems] if len(stems) == 1 else []
    return numbers in ([*map(str, range(len(first)))], [*map(str, range(1, len(first) + 1))])


def _begins_before_1973(rows: Rows, columns: tuple[str, ...]) -> bool:
    """Return whether the first time is a small number and all others are present-day times."""
    first, others = _start(rows, columns.index("time") if "time" in columns else len(columns))
    return len(others) > 1 and bool(SMALL.fullmatch(first)) and all(map(UNIX_TIME.match, others))


def _start(rows: Rows, column: int) -> tuple[str, list[str]]:
    """Return the first cell of a column, ``""`` if it has none, and the others."""
    first, *others = [row[column] for row in rows if column < len(row)] or ("",)
    return first, others


def _odd(first: str, others: list[str]) -> bool:
    """Return whether all cells of a column are numbers or have digits, except the first."""
    kinds = (str.isdigit, _has_digit)
    return len(others) > 1 and any(not kind(first) and all(map(kind, others)) for kind in kinds)


def _may_be_a_name(first: str, others: list[str]) -> bool:
    """Return whether a column of words begins with a word that is not repeated."""
    unlike = not _has_digit(first) and first not in others
    return len(others) > 1 and unlike and not all(map(_has_digit, others))


def _has_digit(cell: str) -> bool:
    return any(map(str.isdigit, cell))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell[:4].isdigit() and cell[4:5] == "-"  # a date
    return True


def _require_agreement(
    sample: TextSample, first: tuple[str, ...], columns: tuple[str, ...], *, header: bool, stated: FormatHints
) -> None:
    """Refuse a first line that contradicts what the user has specified."""
    roles = [column_role(cell) for cell in first]
    wrong = [
        f"{cell!r} in the place that columns gives to {meant}"
        for cell, meant, role in zip(first, columns, roles, strict=False)
        if meant in MEANINGS and role not in (None, meant)
    ]
    by_place = f"columns: [user, item{', -' * (len(first) - 2)}]"
    if len(first) > 12:
        by_place = f"columns: [user, item, -, ...] with {len(first)} entries"
    if header and stated.columns is None and len(first) > 1 and column_roles(first) is None:
        raise sample.error(
            f"a header of {_shown(first)}",
            "a column named like a user and one named like an item; name both columns, such as columns: "
            f"{flow(_likely_names(first))}; if it is a row, set header: false and {by_place}",
        )
    if header and wrong:
        raise sample.error(
            f"a header with {' and '.join(wrong)}",
            "columns in the order of the file, or by name, such as {user: ..., item: ...}",
        )
    if header and stated.columns is not None and len(first) != len(columns):
        raise sample.error(
            f"a header of {len(first)} names",
            f"{len(columns)}, as columns has; name each, with '-' for one to skip",
        )
    if not header and stated.header is False and {"user", "item"} <= {*roles[: len(columns)]}:
        raise sample.error(f"names of columns, {_shown(first)}, but header: false", "header: true")
    if not header and stated.columns is None and len(first) > 1 and len(first) not in BY_PLACE:
        raise sample.error(
            f"{len(first)} columns without names, {_shown(first)}",
            f"2 (user, item) or 4 (user, item, rating, time); name the columns, such as {by_place}, or set form: lists "
            "if a line is a user and its items",
        )
