"""A parsed file of interactions, the description of its format, and the refusal of implausible contents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.data.column_parsers import ROUNDED
from gossiprec.data.delimited_text import InteractionTable, is_whole_number
from gossiprec.data.format_detection import DetectedFormat, column_role
from gossiprec.data.sources import FileSource
from gossiprec.data.text_blocks import TextFormat

MISSING = {
    "nan", "-nan", "null", "none", "na", "n/a", "nil", "<na>", "nat", "#n/a", "#na", "#n/a n/a", "undefined", "\\n",
    "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "(null)", "<null>", "[null]", "(none)", "<none>", "(blank)", "n.a.",
    "#value!", "#ref!", "#name?", "#div/0!", "#num!", "#null!", "unknown", "missing", "not available", "not set",
}  # fmt: skip
"""Texts that programs write for a missing value, in lower case."""
NO_WORD = re.compile(r"[\s\u200b-\u200f\u2060\ufeff?*._=>'\"#–—…-]+")
"""A name without a letter or digit."""
NUMBER = re.compile(r"[+-]?\d{1,400}(?:\.\d*)?")
ANY_NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF])
"""Characters without a shape, such as a byte order mark between two files that were joined."""
BETWEEN = re.compile(r"[\s,;|=(){}\[\]'\"]+")
"""Text between and around the values of a list."""
CODE = re.compile(r"[A-Za-z_]{0,5}[+-]?(?:\d+(?:\.\d+)?|\.\d+)")
"""A number, or a short name with one, such as ``N17``."""
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
MIN_TIMESTAMP = 1e8
"""Ratings are below, and times in seconds above: this time was in 1973."""
KEEP = "; if it is a name, set doubtful_names: keep"

Doubt = tuple[int, str, str]
"""A row from 0, what was found in it, and what was expected."""


class NamedColumn(NamedTuple):
    """A column of names.

    Attributes
    ----------
    kind : str
        ``user`` or ``item``.
    names : tuple of str
    codes : ndarray of int64, shape (n_rows,)
        Position of each row's name in `names`.
    """

    kind: str
    names: tuple[str, ...]
    codes: I64

    def first_row_with_name(self, place: int) -> int:
        """Return the first row with a name, given by its position in `names`."""
        return int(np.argmax(self.codes == place))


def implausible_rows(
    table: InteractionTable,
    header: Sequence[str] = (),
    *,
    by_place: bool = False,
    names: bool = True,
    ratings: bool = True,
    lists: bool = False,
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
    lists : bool
        Whether the table was read from one list of items per user.
    """
    both = (
        NamedColumn("user", table.user_names, table.users),
        NamedColumn("item", table.item_names, table.items),
    )
    titles = [
        [
            n
            for n, name in enumerate(column.names)
            if name in header or (names and name[-1:].isalpha() and column_role(name) == column.kind)
        ]
        for column in both
    ]
    again = np.all([np.isin(column.codes, held) for column, held in zip(both, titles, strict=True)], 0)
    if again.any():
        yield int(np.argmax(again)), "the header again", "one header, before all rows"
    for named in both if names else ():
        yield from _missing(named)
        yield from _strange(named)
        yield from _written_twice(named)
        yield from _lists(named)
    if names and not header and len(table.users) > 3:
        yield from _sizes(table, both)
    if names and lists:
        yield from list_doubts(table)
    yield from _numbers(table, ratings, by_name=bool(header))
    if by_place:
        yield from _misplaced(table, both)


def _missing(named: NamedColumn) -> Iterator[Doubt]:
    """Yield names that stand for a missing value."""
    kind, names, _ = named
    for place, name in enumerate(names):
        if name.lower() in MISSING or NO_WORD.fullmatch(name):
            usual = [other for other in names if other.lower() not in MISSING]
            numbers = len(names) > 1 and all(map(is_whole_number, usual))
            others = ", but all other values are numbers" if numbers else ""
            found = f"{name!r} as {kind}{others}"
            yield named.first_row_with_name(place), found, f"a name of the {kind} on every line{KEEP}"
        if ROUNDED.fullmatch(name):
            found = f"{name!r} as {kind}, a number without its last digits"
            yield named.first_row_with_name(place), found, f"all digits{KEEP}"


def _strange(named: NamedColumn) -> Iterator[Doubt]:
    """Yield the few names that are no numbers, if all others are: headers, totals, and words for no value."""
    kind, names, _ = named
    few = max(len(names) // 20, int(len(names) > 5))
    odd = [n for n, name in enumerate(names) if not (is_whole_number(name) or ANY_NUMBER.fullmatch(name))]
    if len(odd) > few or not all(re.fullmatch(r"\W*\d*\W*|\D+", names[place]) for place in odd):
        return
    if not odd:
        odd = [place for place, name in enumerate(names) if name.startswith("-")]
        few = len(names) // 2 if all(re.fullmatch(r"-\d", names[place]) for place in odd) else few
    if odd and len(odd) <= few:
        found = f"{names[odd[0]]!r} as {kind}, but all other values are positive numbers"
        yield named.first_row_with_name(odd[0]), found, f"a name of the {kind} on every line{KEEP}"


def list_doubts(table: InteractionTable) -> Iterator[Doubt]:
    """Yield lines that are not a user and its items: padded lines, a matrix, or two kinds of values in turn."""
    names, codes = table.item_names, table.items
    sizes = np.bincount(table.users)
    pairs = np.sort(table.users * len(names) + codes)
    different = np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // len(names))
    are_equal = len(sizes) > 1 and sizes.min() == sizes.max() > 2
    if are_equal and 2 * np.count_nonzero(different < sizes) > len(sizes):
        yield (
            0,
            f"{sizes[0]} items on every line, most of which repeat some",
            f"a user and its items; remove the values that fill up lines, or write a matrix as pairs{KEEP}",
        )
    if len(codes) < 12 or (sizes % 2).any():
        return
    kinds = [np.unique(codes[start::2]) for start in (0, 1)]
    dates = [all(re.fullmatch(r"\d{9,10}", names[code]) for code in kind) for kind in kinds]
    if dates[0] != dates[1] or 4 * min(map(len, kinds)) < max(map(len, kinds)):
        yield (
            0,
            f"values of another kind in every second place, such as {names[codes[1]]!r} after "
            f"{names[codes[0]]!r}",
            f"a user and its items; write pairs with their ratings or times, one per line{KEEP}",
        )


def _sizes(table: InteractionTable, both: Sequence[NamedColumn]) -> Iterator[Doubt]:
    """Yield a first row that has the numbers, 6 or more, of users and items in the others."""
    first = [
        Decimal(names[codes[0]]) if is_whole_number(names[codes[0]]) else None for _, names, codes in both
    ]
    rest = [len(np.unique(codes[1:])) for _, _, codes in both]
    if first in (rest, rest[::-1]) and min(rest) > 5:
        yield (
            0,
            f"the numbers of users and items, {rest[0]} and {rest[1]}",
            f"a user and an item; remove the line{KEEP.replace('a name', 'a row')}",
        )


def _written_twice(named: NamedColumn) -> Iterator[Doubt]:
    """Yield a number, or a word with accents, with two spellings."""
    kind, names, _ = named
    if all(is_whole_number(name) and (name[0] != "0" or name == "0") for name in names):
        return
    form = ANY_NUMBER if all(map(ANY_NUMBER.fullmatch, names)) else NUMBER
    known: dict[Decimal | str, str] = {}
    for place, name in enumerate(names):
        plain = name if name.isascii() else normalize("NFC", name.translate(INVISIBLE))
        key = Decimal(plain) if form.fullmatch(plain) else plain
        other = known.setdefault(key, name)
        if other != name:
            yield (
                named.first_row_with_name(place),
                f"{name!r} and {other!r} as {kind}s",
                f"one spelling per {kind}; if they are two names, set doubtful_names: keep",
            )


def _lists(named: NamedColumn) -> Iterator[Doubt]:
    """Yield a name that is a list, if most names are."""
    kind, names, _ = named
    split = [(place, BETWEEN.split(name)) for place, name in enumerate(names) if BETWEEN.search(name)]
    if 2 * len(split) <= len(names):
        return
    values = [(place, [cell for cell in cells if cell]) for place, cells in split]
    held = [place for place, cells in values if len(cells) > 1 and all(map(CODE.fullmatch, cells))]
    if 2 * len(held) > len(names):
        yield (
            named.first_row_with_name(held[0]),
            f"{names[held[0]]!r} as {kind}, several values in one cell",
            f"one {kind} per cell; write one user and one item per line, or one user and its items, "
            f"separated by one delimiter, with form: lists{KEEP}",
        )


def _misplaced(table: InteractionTable, both: Sequence[NamedColumn]) -> Iterator[Doubt]:
    """Yield columns without names that hold something else than their place implies."""
    say = f"; name the columns, such as columns: [user, item{', -, -' if table.times is not None else ''}]"
    for kind, names, _ in both:
        if len(names) > 1 and all(map(DATE.fullmatch, names)):
            yield 0, f"dates as {kind}s, such as {names[0]!r}", f"{kind}s{say}"
    if table.times is not None and table.ratings is not None and 0 <= table.times.max() < MIN_TIMESTAMP:
        yield (
            0,
            f"times up to {table.times.max()}, which are before 1973, in columns without names",
            f"user, item, rating, time{say}, or set form: lists if a line is a user and its items",
        )


def _are_dates(times: I64) -> bool:
    """Return whether different times are all dates written as one number, such as 20101019 or 201010192355."""
    while (times >= 10**8).any():
        times = np.where(times >= 10**8, times // 10, times)
    years, months, days = times // 10_000, times // 100 % 100, times % 100
    likely = (years >= 1900) & (years <= 2100) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return len(times) > 1 and bool(likely.all())


def _numbers(table: InteractionTable, ratings: bool, *, by_name: bool) -> Iterator[Doubt]:
    """Yield ratings and times that are something else."""
    if table.times is not None and _are_dates(np.unique(table.times[table.times >= 0])):
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
            swapped = (
                "{user: ..., item: ..., rating: ..., time: ...}" if by_name else "[user, item, time, rating]"
            )
            yield (
                0,
                f"ratings from {rating:g} and times up to {time}",
                f"rating before time; name the columns with the two swapped, such as columns: {swapped}",
            )
    values = np.unique(table.ratings).tolist()
    if ratings and values in ([0.0, 1.0], [-1.0, 1.0]):
        yield (
            int(np.argmin(table.ratings)),
            f"ratings of {values[0]:g} and {values[1]:g} only, which may mark the lines that count",
            "ratings that are unambiguous; set min_rating: 1 to keep the ones, or min_rating: "
            f"{values[0]:g} to keep all",
        )


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
        end = "; the last line has no line break, so the file may be truncated" if self.is_cut else ""
        return f"{self.source}: {how}; {len(self.table.users):,} interactions{end}"

    @property
    def is_cut(self) -> bool:
        """Whether the last line of a text has no line break."""
        return self.how is not None and not self.source.ends_in_a_line()
