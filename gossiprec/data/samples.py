"""The first lines of a text, split as each delimiter would split them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from gossiprec.data.blocks import HEAD, LINE_END, encoding_of
from gossiprec.data.foreign import refuse_binary, refuse_text
from gossiprec.data.sources import Source

SAMPLE = 1 << 16
"""Bytes that are looked at."""
DELIMITERS = ("\t", "::", ",", ";", "|", " ")
"""Those that are recognised; of two that split alike the first is taken."""
CALLED = {
    "\t": "a tab", "::": "'::'", ",": "a comma", ";": "a semicolon", "|": "a bar", " ": "blanks",
}  # fmt: skip

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Sample:
    """The beginning of a text.

    Attributes
    ----------
    text : str
        Whole lines, without a byte order mark; what is no text of the encoding is replaced.
    marked : bool
        Whether a byte order mark stood before it.
    encoding : str
        As stated, or as the byte order mark says.
    """

    text: str
    marked: bool
    encoding: str

    @property
    def first_line(self) -> int:
        """The number of the first line that is not blank, from 1."""
        return next((number for number, line in enumerate(self._lines, 1) if line.strip()), 1)

    @property
    def has_tabs(self) -> bool:
        """Whether there is a tab in every line."""
        return all("\t" in line for line in self._lines if line.strip())

    @property
    def _lines(self) -> list[str]:
        return LINE_END.split(self.text)

    def rows(self, delimiter: str, quote: str | None = None) -> Rows:
        """Return the cells of the lines that are not blank, without blanks around them."""
        if len(delimiter) > 1 or delimiter == " " or not delimiter.isascii():
            split = None if delimiter == " " else delimiter
            found = [line.split(split) for line in self._lines]
        else:
            lines = io.StringIO(self.text, newline="")
            try:
                found = [*csv.reader(lines, delimiter=delimiter, quotechar=quote)]
            except csv.Error:  # a cell of megabytes: no table that is split so
                found = []
        cells = (tuple(cell.strip() for cell in row) for row in found)
        return tuple(row for row in cells if len(row) > 1 or any(row))


def sample_of(source: Source, encoding: str) -> Sample:
    """Return the beginning of a text.

    Raises
    ------
    DataError
        If the source is missing or damaged there, or has another format.
    """
    with source.open() as stream:
        data = stream.read(SAMPLE + 1)
    whole = len(data) <= SAMPLE
    refuse_binary(source, data[:HEAD])
    encoding = encoding_of(source, data[:HEAD], encoding)
    text = data.decode(encoding, errors="replace")
    marked = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    refuse_text(source, text)
    if not whole:
        text = text[: text.rfind("\n") + 1]
    return Sample(text, marked, encoding)
