"""Readers of columns: names, numbers, degrees, times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from gossiprec.arrays import F64, I64, Bools
from gossiprec.errors import DataError


class Rows(Protocol):
    """Where cells come from: says where a row stands when something is wrong with it."""

    def error(self, row: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error that says what is wrong with a row."""

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a row begins, from 1."""


@dataclass(frozen=True)
class Cells:
    """A column of a block: its texts, and the rows they come from."""

    texts: pa.StringArray
    block: Rows


Convert = Callable[[Cells], npt.NDArray[Any]]
"""Reader of one column: turns its cells into an array, or raises the error that names the bad line."""

Parse = Callable[[pa.StringArray], F64]
"""Texts to numbers; raises `pyarrow.ArrowInvalid` if one is of another form."""

LATEST = 253_402_300_800
"""Bound of times in seconds: the year 10000. What is beyond counts smaller units."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WORDED = r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{4})$"


@dataclass
class Codes:
    """Dense ids in the order in which names are first seen."""

    ids: dict[str, int] = field(default_factory=dict)

    def reader(self, column: str) -> Convert:
        """Return the reader of a column of names: any text but none."""

        def read(cells: Cells) -> I64:
            coded = cells.texts.dictionary_encode()
            names = [name.strip() for name in coded.dictionary.to_pylist()]
            places = array_of(coded.indices)
            if "" in names:
                row = int(np.argmax(places == names.index("")))
                raise cells.block.error(row, f"no {column}", "any text")
            ids: I64 = np.array([self.ids.setdefault(name, len(self.ids)) for name in names])[places]
            return ids

        return read


def array_of(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers, none of them missing, as a view that cannot be written to.

    Not by `to_numpy`, which imports pandas where it is installed: half a second.
    """
    return np.from_dlpack(column)


def floats(texts: pa.StringArray) -> F64:
    """Parse numbers, with blanks around them."""
    try:
        found = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        found = pc.cast(pc.utf8_trim_whitespace(texts), pa.float64())
    return array_of(found)


def numbers(
    allowed: str,
    accept: Callable[[F64], Bools],
    parse: Parse = floats,
    *,
    dtype: npt.DTypeLike = np.float64,
    hint: str = "",
) -> Convert:
    """Return the reader of a column of numbers; its error names the first cell that is none, or not accepted.

    Parameters
    ----------
    allowed : str
        Which numbers are, for the message.
    accept : callable
        Says which are; NaN should not be.
    parse : callable
    dtype : dtype
        Of the array.
    hint : str
        Added to the message about a first line.
    """

    def read(cells: Cells) -> npt.NDArray[np.number]:
        texts, row = cells.texts, 0
        try:
            values = parse(texts)
        except pa.ArrowInvalid:
            while _takes(parse, texts[row : row + 1]):
                row += 1
            values = parse(texts[:row])
        good = accept(values)
        if len(values) == len(texts) and good.all():
            return values.astype(dtype)
        row = row if good.all() else int(np.argmin(good))
        more = hint if cells.block.line_of(row) == 1 else ""
        raise cells.block.error(row, repr(texts[row].as_py().strip()), allowed + more)

    return read


def _takes(parse: Parse, texts: pa.StringArray) -> bool:
    try:
        parse(texts)
    except pa.ArrowInvalid:
        return False
    return True


def zoned_times(texts: pa.StringArray) -> F64:
    """Parse ISO 8601 times with a zone into Unix seconds, NaN before 1970; parts of a second are dropped."""
    return _seconds(texts, pa.timestamp("ns", "UTC"))


def plain_times(texts: pa.StringArray) -> F64:
    """Parse ISO 8601 dates and times without a zone, taken for UTC; else as :func:`zoned_times`."""
    return _seconds(texts, pa.timestamp("ns"))


def _seconds(texts: pa.StringArray, kind: pa.TimestampType) -> F64:
    times = pc.cast(pc.utf8_trim_whitespace(texts), kind)
    seconds = array_of(times.cast(pa.int64())) // 10**9
    return np.where(seconds < 0, np.nan, seconds)


def worded_times(texts: pa.StringArray) -> F64:
    """Parse times as Foursquare writes them, in UTC; else as :func:`zoned_times`."""
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), WORDED, r"\4-\1-\2T\3Z")
    for number, month in enumerate(MONTHS, start=1):
        texts = pc.replace_substring(texts, f"-{month}-", f"-{number:02}-")
    return zoned_times(texts)


def stamps(texts: pa.StringArray) -> F64:
    """Parse Unix seconds and ISO 8601 dates and times with or without a zone, each cell for itself."""
    try:
        return floats(texts)
    except pa.ArrowInvalid:
        pass
    is_date, has_zone = (
        pc.match_substring_regex(texts, form) for form in (r"^\s*\d{4}-", r"[T ].*(?:Z|[+-][\d:]+)\s*$")
    )
    found = np.empty(len(texts))
    parts = (
        (pc.invert(is_date), floats),
        (pc.and_(is_date, has_zone), zoned_times),
        (pc.and_not(is_date, has_zone), plain_times),
    )
    for rows, parse in parts:
        found[array_of(rows.cast(pa.uint8())).astype(bool)] = parse(texts.filter(rows))
    return found


def degrees(column: str, limit: int) -> Convert:
    """Return the reader of a latitude (limit 90) or longitude (limit 180)."""
    return numbers(f"a {column} in degrees, -{limit} to {limit}", lambda v: np.abs(v) <= limit)


def whole(column: str, least: int, most: int) -> Convert:
    """Return the reader of a column of whole numbers from `least` to `most`."""
    allowed = f"a whole number from {least} to {most} as {column}"
    return numbers(allowed, lambda v: (v >= least) & (v <= most) & (v == np.floor(v)), dtype=np.int64)


def dated(parse: Parse, example: str) -> Convert:
    """Return the reader of a column of times in one form, into Unix seconds."""
    allowed = f"a time as {example!r}, a day that exists, from 1970 on"
    return numbers(allowed, lambda v: v >= 0, parse, dtype=np.int64)


LATITUDE, LONGITUDE = degrees("latitude", 90), degrees("longitude", 180)

HEADER = "; if the first line names the columns, set header: true"
RATING = numbers("a finite number as rating", lambda v: np.abs(v) < 1e30, dtype=np.float32, hint=HEADER)
TIMES = "seconds as time, -1 where unknown, or an ISO 8601 date from 1970 on, as 2010-10-19T23:55:27Z"


def _known_or_after_1970(times: F64) -> Bools:
    known: Bools = (times == -1) | ((times >= 0) & (times < LATEST))
    return known


def _from_milliseconds(texts: pa.StringArray) -> F64:
    found = floats(texts)
    return np.where(found > 0, found / 1000, found)


TIME = numbers(
    f"{TIMES}, before the year 10000 (for milliseconds, set time_unit: ms)", _known_or_after_1970, stamps,
    dtype=np.int64, hint=HEADER,
)  # fmt: skip
MILLISECONDS = numbers(
    "milliseconds as time, -1 where unknown, before the year 10000", _known_or_after_1970, _from_milliseconds,
    dtype=np.int64, hint=HEADER,
)  # fmt: skip
"""Into Unix seconds; parts of a second are dropped."""
