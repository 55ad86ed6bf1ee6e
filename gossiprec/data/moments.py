"""Parsers of times: whole seconds since 1970, and exact fractions of seconds."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.data.column_parsers import HEADER, Convert, Parse, number_parser, to_array

MOMENT = np.dtype([("seconds", np.int64), ("fraction", np.float64)])
"""Type of times: whole Unix seconds, and a fraction in [0, 1)."""
Moments = npt.NDArray[np.void]
"""Array of :data:`MOMENT`."""

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Units of numeric times, with their decimal digits below the second."""
CALLED = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
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


def unix_times(digits: int) -> Parse:
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
    if count < 0:
        return (UNKNOWN if count == UNKNOWN else IMPOSSIBLE), 0.0
    seconds = count.scaleb(-digits)
    if seconds >= LATEST:
        return LATEST, 0.0
    whole = int(seconds)
    return whole, min(float(seconds - whole), float(np.nextafter(1.0, 0.0)))


def zoned_times(texts: pa.StringArray) -> Moments:
    """Parse ISO 8601 times with a zone; times before 1970 are impossible."""
    return _iso_times(texts, pa.timestamp("s", "UTC"))


def plain_times(texts: pa.StringArray) -> Moments:
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


def worded_times(texts: pa.StringArray) -> Moments:
    """Parse times in Foursquare's format, in UTC; see :func:`zoned_times`."""
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), WORDED, r"\4-\1-\2T\3Z")
    for number, month in enumerate(MONTHS, start=1):
        texts = pc.replace_substring(texts, f"-{month}-", f"-{number:02}-")
    return zoned_times(texts)


def stamps(digits: int) -> Parse:
    """Return the parser of numbers and of ISO 8601 dates and times with or without a zone, cell by cell."""
    parse_numbers = unix_times(digits)

    def parse(texts: pa.StringArray) -> Moments:
        try:
            return parse_numbers(texts)
        except pa.ArrowInvalid:
            pass
        is_date, has_zone = (
            pc.match_substring_regex(texts, form) for form in (r"^\s*\d{4}-", r"[T ].*(?:Z|[+-][\d:]+)\s*$")
        )
        found = np.empty(len(texts), MOMENT)
        parts = (
            (pc.invert(is_date), parse_numbers),
            (pc.and_(is_date, has_zone), zoned_times),
            (pc.and_not(is_date, has_zone), plain_times),
        )
        for rows, parse_rows in parts:
            found[to_array(rows.cast(pa.uint8())).astype(bool)] = parse_rows(texts.filter(rows))
        return found

    return parse


def dated(parse: Parse, example: str) -> Convert:
    """Return the parser of a column of times in one form."""
    allowed = f"a time as {example!r}, a day that exists, from 1970 on"
    return number_parser(allowed, lambda moments: moments["seconds"] >= 0, parse, dtype=MOMENT)


def times(unit: str) -> Convert:
    """Return the parser of a column of times: numbers in a unit of :data:`DIGITS`, or ISO 8601 dates."""
    allowed = (
        f"{CALLED[unit]} as time, -1 where unknown, or an ISO 8601 date from 1970 on, as 2010-10-19T23:55:27Z, "
        "before the year 10000"
    )
    hints = HEADER | (SMALLER_UNITS if unit == "s" else {})
    return number_parser(allowed, _known_or_after_1970, stamps(DIGITS[unit]), dtype=MOMENT, hints=hints)


def _known_or_after_1970(moments: Moments) -> Bools:
    seconds = moments["seconds"]
    possible: Bools = (seconds == UNKNOWN) | ((seconds >= 0) & (seconds < LATEST))
    return possible
