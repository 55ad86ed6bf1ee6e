"""Parsers of columns: names, numbers, degrees and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError


class RowSource(Protocol):
    """A source of cells, which finds the line of a row for error messages."""

    def error(self, row: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for a bad row."""

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a row begins, from 1."""

    @property
    def keys(self) -> Container[str]:
        """Options of the data set that a message may name."""


@dataclass(frozen=True)
class TextColumn:
    """A column of a block: its texts, and the block that they come from."""

    texts: pa.StringArray
    block: RowSource


Convert = Callable[[TextColumn], npt.NDArray[Any]]
"""Parser of one column: turns its cells into an array, or raises the error that names the bad line."""

Parse = Callable[[pa.StringArray], npt.NDArray[Any]]
"""Function from texts to values; raises `pyarrow.ArrowInvalid` if a text has another form."""

DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d+|\d[.,]\d+[eE]\d+")
"""A long number in the notation of spreadsheets, which may lack its last digits."""
BARE_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?\d\d){0,3}Z?")
"""A date without hyphens, possibly with a time, such as ``20101019235527``."""
ZONE = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?: +(Z|[+-][\d:]+)| *(?:[+-][\d:]+ *)?([A-Za-z][A-Za-z/_+-]+\d*))"
)
"""A date and time with a zone after a blank, or with the name of a zone."""


def shorten(text: str, most: int = 60) -> str:
    """Return a text for a message, with an ellipsis if it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass
class IdEncoder:
    """Encoder of names as dense ids, in the order of first occurrence."""

    ids: dict[str, int] = field(default_factory=dict)

    def make_parser(self, column: str) -> Convert:
        """Return the parser of a column of names; any text except an empty one is a name."""

        def read(cells: TextColumn) -> I64:
            coded = cells.texts.dictionary_encode()
            names = [name.strip() for name in coded.dictionary.to_pylist()]
            places = to_array(coded.indices)
            if "" in names:
                row = int(np.argmax(places == names.index("")))
                raise cells.block.error(row, f"no {column}", "any text")
            return np.array([self.ids.setdefault(name, len(self.ids)) for name in names])[places]

        return read


def to_array(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers without missing values as a read-only view.

    `to_numpy` would import pandas if it is installed, which takes 0.5 s.
    """
    return np.from_dlpack(column)


def parse_floats(texts: pa.StringArray) -> F64:
    """Parse numbers, possibly surrounded by blanks."""
    try:
        found = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        found = pc.cast(pc.utf8_trim_whitespace(texts), pa.float64())
    return to_array(found)


def number_parser(
    allowed: str,
    accept: Callable[[npt.NDArray[Any]], Bools],
    parse: Parse = parse_floats,
    *,
    dtype: npt.DTypeLike = np.float64,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> Convert:
    """Return the parser of a column of numbers; its error names the first bad cell.

    Parameters
    ----------
    allowed : str
        Description of the accepted numbers, for the message.
    accept : callable
        Function from values to flags, which are true for accepted numbers; NaN should not be accepted.
    parse : callable
    dtype : dtype
        Type of the resulting array.
    hints : mapping of str to str
        Texts to add to the message, by the option that they name. A text is added only if the data set has that
        option, and the text of ``header`` only for a first line.
    """

    def read(cells: TextColumn) -> npt.NDArray[Any]:
        texts, row = cells.texts, 0
        try:
            values = parse(texts)
        except pa.ArrowInvalid:
            row = _first_refused(parse, texts)
            values = parse(texts[:row])
        good = accept(values)
        if len(values) == len(texts) and good.all():
            return values.astype(dtype)
        row = row if good.all() else int(np.argmin(good))
        text, line = texts[row].as_py().strip(), cells.block.line_of(row)
        given = [
            hint for key, hint in hints.items() if key in cells.block.keys and (key != "header" or line == 1)
        ]
        if dtype is MOMENT and not _is_count(text):
            given = [*(hint for hint in given if hint != hints.get("time_unit")), f"; {_time_step(text)}"]
        if DECIMAL_COMMA.fullmatch(text):
            given.append("; use decimal points instead of commas")
        raise cells.block.error(row, repr(shorten(text)), "".join([allowed, *given]))

    return read


def _is_count(text: str) -> bool:
    """Return whether a text is a number that neither is a date nor lacks digits."""
    return all((NUMBER.fullmatch(text), not BARE_DATE.fullmatch(text), not ROUNDED.fullmatch(text)))


def _time_step(text: str) -> str:
    """Return the next step for a text that is no time."""
    if BARE_DATE.fullmatch(text):
        return "write the date with hyphens"
    if ROUNDED.fullmatch(text):
        return "write all digits"
    zone = ZONE.fullmatch(text)
    if zone is None:
        return "convert the times, or leave them out by naming the other columns"
    if zone[1]:
        return f"remove the blank before {zone[1]!r}"
    if zone[2].upper() in ("AM", "PM"):
        return f"count 24 hours instead of {zone[2]!r}"
    return f"end the time with an offset, such as 23:55:27+00:00 for UTC, instead of {zone[2]!r}"


def _first_refused(parse: Parse, texts: pa.StringArray) -> int:
    """Return the position of the first text that a parser rejects; it accepts all of them or raises."""
    first, end = 0, len(texts)
    while end - first > 1:
        middle = (first + end) // 2
        if _takes(parse, texts[first:middle]):
            first = middle
        else:
            end = middle
    return first


def _takes(parse: Parse, texts: pa.StringArray) -> bool:
    try:
        parse(texts)
    except pa.ArrowInvalid:
        return False
    return True


def degree_parser(column: str, limit: int) -> Convert:
    """Return the parser of a latitude (limit 90) or longitude (limit 180)."""
    return number_parser(f"a {column} in degrees, -{limit} to {limit}", lambda v: np.abs(v) <= limit)


def integer_parser(column: str, least: int, most: int) -> Convert:
    """Return the parser of a column of whole numbers from `least` to `most`."""
    allowed = f"a whole number from {least} to {most} as {column}"
    return number_parser(allowed, lambda v: (v >= least) & (v <= most) & (v == np.floor(v)), dtype=np.int64)


LATITUDE, LONGITUDE = degree_parser("latitude", 90), degree_parser("longitude", 180)

HEADER = {"header": "; if the first line names the columns, set header: true"}
TRUE, FALSE = ("true", "yes", "t", "y"), ("false", "no", "f", "n", "")
"""Words that are the ratings 1 and 0, in lower case; an empty cell is 0."""
_TRUE, _FALSE, _WORD = (f"^(?:{'|'.join(words)})$" for words in (TRUE, FALSE, (*TRUE, *FALSE)))


def _parse_ratings(texts: pa.StringArray) -> F64:
    try:
        return parse_floats(texts)
    except pa.ArrowInvalid:
        texts = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
        for number, words in (("1", _TRUE), ("0", _FALSE)):
            texts = pc.replace_substring_regex(texts, words, number)
        return parse_floats(texts)


def rating_parser() -> Convert:
    """Return the parser of a column of ratings: numbers, or words of :data:`TRUE` and :data:`FALSE`.

    Words go with 0 and 1 only: among other ratings, an empty cell is a missing one.
    """
    allowed = "a finite number as rating"
    parse = number_parser(allowed, lambda v: np.abs(v) < 1e30, _parse_ratings, dtype=np.float32, hints=HEADER)
    seen = {"words": False, "numbers": False}

    def read(cells: TextColumn) -> npt.NDArray[Any]:
        values = parse(cells)
        folded = pc.utf8_lower(pc.utf8_trim_whitespace(cells.texts))
        kinds = {
            "words": to_array(pc.match_substring_regex(folded, _WORD).cast(pa.uint8())).astype(bool),
            "numbers": (values != 0) & (values != 1),
        }
        odd = "numbers" if seen["words"] else "words"
        seen.update({kind: seen[kind] or bool(rows.any()) for kind, rows in kinds.items()})
        if all(seen.values()):
            row = int(np.argmax(kinds[odd] if kinds[odd].any() else kinds["numbers"]))
            found = repr(cells.texts[row].as_py().strip()).replace("''", "no rating")
            raise cells.block.error(
                row, f"{found} among other ratings", f"{allowed}, or only words such as true and false"
            )
        return values

    return read


MOMENT = np.dtype([("seconds", np.int64), ("fraction", np.float64)])
"""Type of times: whole Unix seconds, and a fraction in [0, 1)."""
Moments = npt.NDArray[np.void]
"""Array of :data:`MOMENT`."""

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Units of numeric times, with their decimal digits below the second."""
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
SMALLER_UNITS = {
    "time_unit": " (for milliseconds, set time_unit: ms; for microseconds and nanoseconds, us and ns)"
}
UNKNOWN, IMPOSSIBLE = -1, -2
"""Seconds of unknown times, and of times that are refused."""
LATEST = 253_402_300_800
"""Upper bound of times in seconds: the year 10000. Larger numbers count smaller units."""

DECIMAL = r"^\s*(?P<whole>\d{1,18})(?:\.(?P<part>\d*))?\s*$"
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")
PART = r"(?P<clock>:\d\d:\d\d)[.,](?P<part>\d+)"
"""The fraction of seconds in an ISO 8601 time."""
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WORDED = r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{4})$"


def seconds_and_fractions(moments: Moments) -> tuple[I64, F64 | None]:
    """Return the seconds, and the fractions or None if all times are whole seconds."""
    fractions = np.ascontiguousarray(moments["fraction"])
    return np.ascontiguousarray(moments["seconds"]), fractions if fractions.any() else None


def _moments(seconds: I64, fractions: F64 | float = 0.0) -> Moments:
    """Return times; a fraction that was rounded up to 1 becomes the next smaller number."""
    found = np.empty(len(seconds), MOMENT)
    found["seconds"] = seconds
    found["fraction"] = np.minimum(fractions, np.nextafter(1.0, 0.0))
    return found


def unix_time_parser(digits: int) -> Parse:
    """Return the parser of numbers that count units of ``10 ** -digits`` seconds since 1970."""

    def parse(texts: pa.StringArray) -> Moments:
        if not pc.any(
            pc.match_substring(texts, "x", ignore_case=True)
        ).as_py():  # pyarrow reads hexadecimal numbers
            try:
                return _scaled(to_array(pc.cast(texts, pa.int64())), 0.0, digits)
            except pa.ArrowInvalid:
                pass
        found = pc.extract_regex(texts, DECIMAL)
        usual = to_array(found.is_valid().cast(pa.uint8())).astype(bool)
        whole, part = (found.filter(found.is_valid()).field(name) for name in ("whole", "part"))
        fractions = to_array(pc.cast(_after_point(part), pa.float64()))
        moments = np.empty(len(texts), MOMENT)
        moments[usual] = _scaled(to_array(pc.cast(whole, pa.int64())), fractions, digits)
        for row in np.flatnonzero(~usual).tolist():
            moments[row] = _moment(texts[row].as_py(), digits)
        return moments

    return parse


def _after_point(digits: pa.StringArray) -> pa.StringArray:
    """Return digits as the fractions that they denote."""
    return pc.replace_substring_regex(digits, r"^(\d*)$", r"0.\1")


def _scaled(counts: I64, parts: F64 | float, digits: int) -> Moments:
    """Return the times of whole counts of a unit and the fractions of a unit beyond them."""
    seconds, rest = np.divmod(counts, 10**digits)
    moments = _moments(seconds, (rest + parts) / 10.0**digits)
    below = counts < 0
    moments["seconds"][below] = np.where(counts[below] == UNKNOWN, UNKNOWN, IMPOSSIBLE)
    moments["fraction"][below] = 0.0
    return moments


def _moment(text: str, digits: int) -> tuple[int, float]:
    """Return one time, given as a number of any form.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the text is not a number.
    """
    if not NUMBER.fullmatch(text.strip()):
        raise pa.ArrowInvalid(f"{text!r} is not a number")
    count = Decimal(text.strip())
    if int(count.as_tuple().exponent) > 0:  # such as 1.37E+09, as spreadsheets write 1370797926
        raise pa.ArrowInvalid(f"{text!r} lacks its last digits")
    if count < 0:
        return (UNKNOWN if count == UNKNOWN else IMPOSSIBLE), 0.0
    seconds = count.scaleb(-digits)
    if seconds >= LATEST:
        return LATEST, 0.0
    whole = int(seconds)
    return whole, min(float(seconds - whole), float(np.nextafter(1.0, 0.0)))


def parse_zoned_times(texts: pa.StringArray) -> Moments:
    """Parse ISO 8601 times with a zone; times before 1970 are impossible."""
    return _iso_times(texts, pa.timestamp("s", "UTC"))


def parse_utc_times(texts: pa.StringArray) -> Moments:
    """Parse ISO 8601 dates and times without a zone as UTC; times before 1970 are impossible."""
    return _iso_times(texts, pa.timestamp("s"))


def _iso_times(texts: pa.StringArray, kind: pa.TimestampType) -> Moments:
    texts = pc.utf8_trim_whitespace(texts)
    found = pc.extract_regex(texts, PART)
    whole = pc.replace_substring_regex(texts, PART, r"\1")
    seconds = to_array(pc.cast(whole, kind).cast(pa.int64()))
    parts = found.filter(pc.is_valid(found)).field("part")
    fractions = np.zeros(len(texts))
    fractions[to_array(pc.is_valid(found).cast(pa.uint8())).astype(bool)] = to_array(
        pc.cast(_after_point(parts), pa.float64())
    )
    return _moments(np.where(seconds < 0, IMPOSSIBLE, seconds), fractions)


def parse_foursquare_times(texts: pa.StringArray) -> Moments:
    """Parse times in Foursquare's format, in UTC; see :func:`parse_zoned_times`."""
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), WORDED, r"\4-\1-\2T\3Z")
    for number, month in enumerate(MONTHS, start=1):
        texts = pc.replace_substring(texts, f"-{month}-", f"-{number:02}-")
    return parse_zoned_times(texts)


def mixed_time_parser(digits: int) -> Parse:
    """Return the parser of numbers and of ISO 8601 dates and times with or without a zone, cell by cell."""
    parse_numbers = unix_time_parser(digits)

    def parse(texts: pa.StringArray) -> Moments:
        try:
            return parse_numbers(texts)
        except pa.ArrowInvalid:
            pass
        texts = pc.utf8_trim_whitespace(texts)
        is_date, has_zone = (
            pc.match_substring_regex(texts, form) for form in (r"^\d{4}-", r"[T ].*(?:Z|[+-][\d:]+)$")
        )
        found = np.empty(len(texts), MOMENT)
        parts = (
            (pc.invert(is_date), parse_numbers),
            (pc.and_(is_date, has_zone), parse_zoned_times),
            (pc.and_not(is_date, has_zone), parse_utc_times),
        )
        for rows, parse_rows in parts:
            found[to_array(rows.cast(pa.uint8())).astype(bool)] = parse_rows(texts.filter(rows))
        return found

    return parse


def single_form_time_parser(parse: Parse, example: str) -> Convert:
    """Return the parser of a column of times in one form."""
    allowed = f"a date and time such as {example!r}, on a day that exists, from 1970 on"
    return number_parser(allowed, lambda moments: moments["seconds"] >= 0, parse, dtype=MOMENT)


def time_column_parser(unit: str) -> Convert:
    """Return the parser of a column of times: numbers in a unit of :data:`DIGITS`, or ISO 8601 dates."""
    allowed = (
        f"{UNIT_NAMES[unit]} as time, -1 if unknown, or an ISO 8601 date from 1970 on, such as 2010-10-19T23:55:27Z, "
        "before the year 10000"
    )
    hints = HEADER | (SMALLER_UNITS if unit == "s" else {})
    return number_parser(
        allowed, _known_or_after_1970, mixed_time_parser(DIGITS[unit]), dtype=MOMENT, hints=hints
    )


def _known_or_after_1970(moments: Moments) -> Bools:
    seconds = moments["seconds"]
    return np.asarray((seconds == UNKNOWN) | ((seconds >= 0) & (seconds < LATEST)))
