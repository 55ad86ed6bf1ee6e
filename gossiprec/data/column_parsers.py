"""Parsers of columns: names, numbers and degrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
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


@dataclass
class IdEncoder:
    """Encoder of names as dense ids, in the order of first occurrence."""

    ids: dict[str, int] = field(default_factory=dict)

    def reader(self, column: str) -> Convert:
        """Return the parser of a column of names; any text except an empty one is a name."""

        def read(cells: TextColumn) -> I64:
            coded = cells.texts.dictionary_encode()
            names = [name.strip() for name in coded.dictionary.to_pylist()]
            places = to_array(coded.indices)
            if "" in names:
                row = int(np.argmax(places == names.index("")))
                raise cells.block.error(row, f"no {column}", "any text")
            ids: I64 = np.array([self.ids.setdefault(name, len(self.ids)) for name in names])[places]
            return ids

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
        if DECIMAL_COMMA.fullmatch(text):
            given.append("; use decimal points instead of commas")
        raise cells.block.error(row, repr(text), "".join([allowed, *given]))

    return read


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
RATING = number_parser(
    "a finite number as rating", lambda v: np.abs(v) < 1e30, dtype=np.float32, hints=HEADER
)
