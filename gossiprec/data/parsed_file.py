"""A parsed file of interactions, the description of its format, and the refusal of implausible contents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from unicodedata import normalize

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.data.column_parsers import Convert
from gossiprec.data.delimited_text import InteractionTable, is_whole_number, read_interactions
from gossiprec.data.format_detection import DetectedFormat, FormatHints, detect_format
from gossiprec.data.parquet import ParquetBatch, read_parquet
from gossiprec.data.sources import FileSource
from gossiprec.data.split_parts import detect_list_format, read_item_lists
from gossiprec.data.text_blocks import TextFormat, find_line_of_row, require_encoding

MISSING = {
    "nan", "-nan", "null", "none", "na", "n/a", "nil", "<na>", "nat", "#n/a", "#na", "#n/a n/a", "undefined", "\\n",
    "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "(null)", "#value!", "#ref!", "#name?", "#div/0!",
}  # fmt: skip
"""Texts that programs write for a missing value, in lower case."""
NO_WORD = re.compile(r"[\s\u200b-\u200f\u2060\ufeff?*._=-]+")
"""A name without a letter or digit."""
NUMBER = re.compile(r"[+-]?\d{1,400}(?:\.\d*)?")
ANY_NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
ROUNDED = re.compile(r"\d\.\d+E\+\d+")
"""A long number in the notation of spreadsheets, without its last digits."""
INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF])
"""Characters without a shape, such as a byte order mark between two files that were joined."""
BETWEEN = re.compile(r"[\s,;|(){}\[\]'\"]+")
"""Text between and around the values of a list."""
CODE = re.compile(r"[A-Za-z_]{0,5}[+-]?\d+(?:\.\d+)?")
"""A number, or a short name with one, such as ``N17``."""
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
MIN_TIMESTAMP = 1e8
"""Ratings are below, and times in seconds above: this time was in 1973."""
KEEP = "; if it is a name, set doubtful_names: keep"

Doubt = tuple[int, str, str]
"""A row from 0, what was found in it, and what was expected."""
Named = tuple[str, tuple[str, ...], I64]
"""``user`` or ``item``, all names, and the position of each row's name among them."""


def implausible_rows(
    table: InteractionTable,
    header: Sequence[str] = (),
    *,
    by_place: bool = False,
    names: bool = True,
    ratings: bool = True,
) -> Iterator[Doubt]:
    """Yield implausible rows, with what was found and what was expected.

    Parameters
    ----------
    table : InteractionTable
    header : sequence of str
        Its names of the columns of users and of items; empty without a header.
    by_place : bool
        Whether the meaning of the columns is known only from their places.
    names : bool
        Whether names are checked.
    ratings : bool
        Whether ratings are checked, because all of them count.
    """
    both: tuple[Named, Named] = (
        ("user", table.user_names, table.users),
        ("item", table.item_names, table.items),
    )
    if header and all(name in names for name, (_, names, _) in zip(header, both, strict=True)):
        again = np.all(
            [codes == names.index(name) for name, (_, names, codes) in zip(header, both, strict=True)], 0
        )
        if again.any():
            yield int(np.argmax(again)), "the header a second time", "one header, before all rows"
    for named in both if names else ():
        yield from _missing(named)
        yield from _written_twice(named)
        yield from _lists(named)
    yield from _numbers(table, ratings)
    if by_place:
        yield from _misplaced(table, both)


def _missing(named: Named) -> Iterator[Doubt]:
    """Yield names that stand for a missing value."""
    kind, names, codes = named
    for place, name in enumerate(names):
        if name.lower() in MISSING or NO_WORD.fullmatch(name):
            row, others = int(np.argmax(codes == place)), ""
            if (
                all(is_whole_number(other) for other in names if other.lower() not in MISSING)
                and len(names) > 1
            ):
                others = ", but all other values are numbers"
            yield row, f"{name!r} as {kind}{others}", f"a name of the {kind} on every line{KEEP}"
        if ROUNDED.fullmatch(name):
            row = int(np.argmax(codes == place))
            yield row, f"{name!r} as {kind}, a number without its last digits", f"all digits{KEEP}"


def _written_twice(named: Named) -> Iterator[Doubt]:
    """Yield a number, or a word with accents, with two spellings."""
    kind, names, codes = named
    if all(is_whole_number(name) and (name[0] != "0" or name == "0") for name in names):
        return
    form = ANY_NUMBER if all(map(ANY_NUMBER.fullmatch, names)) else NUMBER
    known: dict[Decimal | str, str] = {}
    for place, name in enumerate(names):
        plain = name if name.isascii() else normalize("NFC", name.translate(INVISIBLE))
        key = Decimal(plain) if form.fullmatch(plain) else plain
        other = known.setdefault(key, name)
        if other != name:
            row = int(np.argmax(codes == place))
            yield (
                row,
                f"{name!r} and {other!r} as {kind}s",
                f"one spelling per {kind}; if they are two names, set doubtful_names: keep",
            )


def _lists(named: Named) -> Iterator[Doubt]:
    """Yield a name that is a list, if most names are."""
    kind, names, codes = named
    split = [(place, BETWEEN.split(name)) for place, name in enumerate(names) if BETWEEN.search(name)]
    if 2 * len(split) <= len(names):
        return
    values = [(place, [cell for cell in cells if cell]) for place, cells in split]
    held = [place for place, cells in values if len(cells) > 1 and all(map(CODE.fullmatch, cells))]
    if 2 * len(held) > len(names):
        yield (
            int(np.argmax(codes == held[0])),
            f"{names[held[0]]!r} as {kind}, several values in one cell",
            f"one {kind} per cell; write one user and one item per line, or one user and its items, "
            f"separated by one delimiter, with form: lists{KEEP}",
        )


def _misplaced(table: InteractionTable, both: Sequence[Named]) -> Iterator[Doubt]:
    """Yield columns without names that hold something else than their place implies."""
    say = "; name the columns, such as columns: [user, item, time]"
    for kind, names, _ in both:
        if len(names) > 1 and all(map(DATE.fullmatch, names)):
            yield 0, f"dates as {kind}s, such as {names[0]!r}", f"{kind}s{say}"
    if table.times is not None and table.ratings is not None and 0 <= table.times.max() < MIN_TIMESTAMP:
        yield (
            0,
            f"times up to {table.times.max()}, which are before 1973, in columns without names",
            f"user, item, rating, time{say}, or set form: lists if a line is a user and its items",
        )
    sizes = [
        Decimal(names[codes[0]]) if is_whole_number(names[codes[0]]) else None for _, names, codes in both
    ]
    rest = [len(np.unique(codes[1:])) for _, _, codes in both]
    if len(table.users) > 2 and sizes == rest and all(size > 1 for size in rest):
        yield (
            0,
            f"the numbers of users and items, {rest[0]} and {rest[1]}",
            f"a user and an item{say}, or remove the line",
        )


def _are_days(times: I64) -> bool:
    """Return whether different times are all days written as one number, such as 20101019."""
    years, months, days = times // 10_000, times // 100 % 100, times % 100
    likely = (years >= 1900) & (years <= 2100) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return len(times) > 1 and bool(likely.all())


def _numbers(table: InteractionTable, ratings: bool) -> Iterator[Doubt]:
    """Yield ratings and times that are something else."""
    if table.times is not None and _are_days(np.unique(table.times[table.times >= 0])):
        yield (
            0,
            f"times such as {table.times.max()}, which are dates without hyphens",
            "dates such as 2010-10-19; convert them, or omit the time by naming the columns",
        )
    if table.ratings is None:
        return
    if table.times is not None:
        rating, time = float(table.ratings.min()), int(table.times.max())
        if rating >= MIN_TIMESTAMP > time:
            yield (
                0,
                f"ratings from {rating:g} and times up to {time}",
                "rating before time; swap the two names in columns",
            )
    values = np.unique(table.ratings).tolist()
    if ratings and values in ([0.0, 1.0], [-1.0, 1.0]):
        row = int(np.argmin(table.ratings))
        yield (
            row,
            f"ratings of {values[0]:g} and {values[1]:g} only, which may mark the lines that count",
            "ratings that are unambiguous; set min_rating: 1 to keep the ones, or min_rating: "
            f"{values[0]:g} to keep all",
        )


Check = Callable[[InteractionTable, bool, Sequence[str]], Iterator[Doubt]]


@dataclass(frozen=True)
class ParsedFile:
    """A file that was read.

    Attributes
    ----------
    source : FileSource
    table : InteractionTable
    how : DetectedFormat or None
        Format of its text; None for Parquet.
    names : dict of str to str
        For Parquet: names of the columns, by meaning.
    skipped : tuple of str
        For Parquet: the columns that are not read.
    """

    source: FileSource
    table: InteractionTable
    how: DetectedFormat | None
    names: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @property
    def layout(self) -> TextFormat | None:
        """Format of the lines; None for Parquet."""
        return None if self.how is None else self.how.layout

    @property
    def summary(self) -> str:
        """The detected format, in one line."""
        if self.how is None:
            how = ", ".join(["Parquet", *(f"{meaning} = {name}" for meaning, name in self.names.items())])
            how += f", skipped: {', '.join(self.skipped)}" if self.skipped else ""
        else:
            how = self.how.summary
        cut = (
            ""
            if self.how is None or self.source.ends_in_a_line()
            else "; the last line has no line break, so the file may be truncated"
        )
        return f"{self.source}: {how}; {len(self.table.users):,} interactions{cut}"


def parse_delimited(
    source: FileSource, asked: FormatHints, *, lists: bool, time: Convert, check: Check
) -> ParsedFile:
    """Read delimited text.

    Parameters
    ----------
    source : FileSource
    asked : FormatHints
    lists : bool
        Whether a line is a user and the user's items, not a pair.
    time : callable
        Parser of times.
    check : callable
        Function that yields the implausible rows of a table, given whether columns are known only by their place, and
        the header's names of users and items.

    Raises
    ------
    DataError
        If it is damaged, can be parsed in two ways, or is implausible.
    """
    if lists:
        how = detect_list_format(source, asked)
        require_encoding(source, how.layout.encoding)
        table, line_of = read_item_lists(source, how.layout)
        for row, found, allowed in check(table, False, ()):
            raise source.error(line_of(row), found, allowed)
        return ParsedFile(source, table, how)
    how = detect_format(source, asked)
    require_encoding(source, how.layout.encoding)
    table = read_interactions(source, how.layout, time=time)
    called = dict(zip(how.layout.columns, how.names, strict=False))
    header = [called[meaning] for meaning in ("user", "item") if how.names]
    for row, found, allowed in check(table, asked.columns is None and not how.names, header):
        raise source.error(find_line_of_row(source, how.layout, row), found, allowed)
    return ParsedFile(source, table, how)


def parse_parquet(
    source: FileSource, columns: tuple[str, ...] | Mapping[str, str] | None, *, time: Convert, check: Check
) -> ParsedFile:
    """Read a Parquet file; see :func:`~gossiprec.data.parquet.read_parquet`.

    Raises
    ------
    DataError
        If it is damaged or implausible.
    """
    table, names, skipped = read_parquet(source.path, columns, time=time)
    for row, found, allowed in check(table, False, ()):
        raise ParquetBatch(source.path, 1).error(row, found, allowed)
    return ParsedFile(source, table, None, names, skipped)
