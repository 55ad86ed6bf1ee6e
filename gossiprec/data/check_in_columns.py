"""Readers of the columns that check-in files have: degrees on the globe, times as text, whole numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.data.columns import Convert, floats
from gossiprec.data.sources import Source

MONTHS = {
    "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * month : 3 * month + 3]: f"{month + 1:02}"
    for month in range(12)
}
WORDED = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{4})")
ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z")


def degrees(column: str, limit: int) -> Convert:
    """Return the reader of a latitude (limit 90) or longitude (limit 180)."""
    allowed = f"a {column} in degrees, -{limit} to {limit}"

    def read(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> F64:
        return floats(source, cells, numbers, allowed, lambda values: np.abs(values) <= limit)

    return read


LATITUDE, LONGITUDE = degrees("latitude", 90), degrees("longitude", 180)


def whole(column: str, least: int, most: int) -> Convert:
    """Return the reader of a column of whole numbers from `least` to `most`."""
    allowed = f"a whole number from {least} to {most} as {column}"

    def read(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> I64:
        return floats(
            source, cells, numbers, allowed, lambda v: (v >= least) & (v <= most) & (v == np.floor(v))
        ).astype(np.int64)

    return read


def worded_times(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> I64:
    """Read times as Foursquare writes them, in UTC, into Unix seconds."""
    return _times(source, cells, numbers, _from_words, "a time as 'Tue Apr 03 18:00:09 +0000 2012'")


def iso_times(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> I64:
    """Read times as Gowalla writes them, in UTC, into Unix seconds."""
    return _times(source, cells, numbers, _from_iso, "a time as '2010-10-19T23:55:27Z'")


def _from_words(cell: str) -> str:
    found = WORDED.fullmatch(cell)
    return f"{found[4]}-{MONTHS.get(found[1], '')}-{found[2]}T{found[3]}" if found else ""


def _from_iso(cell: str) -> str:
    found = ISO.fullmatch(cell)
    return found[1] if found else ""


def _times(
    source: Source, cells: Sequence[str], numbers: Sequence[int], plain: Callable[[str], str], allowed: str
) -> I64:
    texts = [plain(cell) for cell in cells]
    try:  # numpy reads no text as "not a time", which is the least number
        times = np.array(texts, "datetime64[s]").astype(np.int64)
    except ValueError:
        times = np.array([_seconds_or_never(text) for text in texts], np.int64)
    if (times < 0).any():
        bad = int(np.argmax(times < 0))
        raise source.error(numbers[bad], repr(cells[bad]), f"{allowed}, a day that exists, from 1970 on")
    return times


def _seconds_or_never(text: str) -> int:
    try:
        return int(np.datetime64(text, "s").astype(np.int64))
    except ValueError:
        return -1
