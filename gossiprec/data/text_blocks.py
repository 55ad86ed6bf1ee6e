"""Delimited text: a sample of its beginning, and blocks of whole rows that pyarrow parses.

Errors name the exact number of the line.
"""

from __future__ import annotations

import csv
import io
import re
from codecs import (
    BOM_UTF8,
    BOM_UTF16_BE,
    BOM_UTF16_LE,
    BOM_UTF32_BE,
    BOM_UTF32_LE,
    getincrementaldecoder,
    lookup,
)
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv as arrow_csv

from gossiprec.base.errors import DataError
from gossiprec.data.sources import FileSource, refuse_binary

BLOCK = 1 << 22
"""Bytes per read."""
MAX_LENGTH = 1 << 25
"""Number of characters within which quotes must be closed and lines must end."""
HEAD = 512
"""Bytes that identify the format of a file."""
MARKS = (
    (BOM_UTF32_LE, "utf-32"), (BOM_UTF32_BE, "utf-32"),
    (BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16"), (BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
"""Byte order marks, and their encodings."""

PLACEHOLDER = "\1"
"""Replacement of a delimiter that is not one ASCII character, which pyarrow requires."""
FORBIDDEN = {"\0": "a zero byte, as in UTF-16 text", PLACEHOLDER: "a byte of value 1"}

LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class TextFormat:
    """The format of the lines of a table.

    Attributes
    ----------
    columns : tuple of str
        Name of each column.
    delimiter : str
        Text between columns; a blank means any run of blanks and tabs.
    header : bool
        Whether the first line names columns instead of holding data.
    encoding : str
        Encoding of the text.
    quote : str or None
        Character around cells that may hold delimiters and line ends; it is doubled inside them. If it is None, or
        the delimiter has more than one character or is a blank, quotes are ordinary text.
    keys : tuple of str
        Options of the data set that a message may name as the next step; empty for a fixed format.
    user_delimiter : str or None
        For lists: text after the user, if it is not the delimiter.
    """

    columns: tuple[str, ...]
    delimiter: str = "\t"
    header: bool = False
    encoding: str = "utf-8"
    quote: str | None = None
    keys: tuple[str, ...] = ()
    user_delimiter: str | None = None

    @property
    def pyarrow_delimiter(self) -> str:
        """The delimiter in the text that is passed to pyarrow."""
        return self.delimiter if re.fullmatch(r"[\t!-~]", self.delimiter) else PLACEHOLDER

    @cached_property
    def quoted_cell_pattern(self) -> str | None:
        """Regular expression of a quoted cell; None if quotes are ordinary text."""
        if self.quote is None or self.pyarrow_delimiter == PLACEHOLDER:
            return None
        quote, mark = re.escape(self.quote), re.escape(self.pyarrow_delimiter)
        return rf"(?<![^{mark}\r\n]){quote}(?:[^{quote}]++|{quote}{quote})*+{quote}(?=[{mark}\r\n]|\Z)"

    def first_row(self, text: str) -> re.Match[str]:
        """Return the match of a text up to the end of its first row (group 1), in which cells may hold line ends."""
        cell = rf"{self.quoted_cell_pattern}|" if self.quoted_cell_pattern else ""
        pattern = rf"(?:\s*[\r\n])?((?:{cell}[^\r\n])*+)(?:\r\n?|\n)?"
        return re.match(pattern, text)  # type: ignore[return-value]  # it always matches

    def mark_delimiters(self, text: str) -> str:
        """Return whole lines with `mark` for every delimiter."""
        if self.delimiter == " ":
            return "\n".join(PLACEHOLDER.join(line.split()) for line in text.split("\n"))
        return text.replace(self.delimiter, self.pyarrow_delimiter)

    def parse(self, text: str, names: list[str] | None, **options: Any) -> pa.Table:
        """Return marked lines as a table of text; without `names`, the first line holds them."""
        data = text.encode(errors="surrogatepass")  # pyarrow refuses half a character
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            arrow_csv.ParseOptions(
                delimiter=self.pyarrow_delimiter,
                quote_char=self.quoted_cell_pattern is not None and self.quote,
                newlines_in_values=True,
                **options,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names or (), pa.string()), strings_can_be_null=False
            ),
        )


@dataclass(frozen=True)
class TextBlock:
    """A block of whole rows of a source.

    Attributes
    ----------
    source : FileSource
    layout : TextFormat
    line : int
        Number of the first line, from 1.
    text : str
        Text with the layout's `mark` as delimiter.
    """

    source: FileSource
    layout: TextFormat
    line: int
    text: str

    def table(self) -> pa.Table:
        """Return the cells as text, in columns named ``"0"``, ``"1"``, ...; lines of blanks are skipped.

        Raises
        ------
        DataError
            If a line has the wrong number of columns, a quote is not closed, or pyarrow finds another fault.
        """
        self._require_closed_quotes()
        blank: list[arrow_csv.InvalidRow] = []
        wrong: list[arrow_csv.InvalidRow] = []

        def strange(row: arrow_csv.InvalidRow) -> str:
            (blank if row.text.isspace() else wrong).append(row)
            return "error" if wrong else "skip"

        columns = self.layout.columns
        try:
            return self.layout.parse(
                self.text, [str(k) for k in range(len(columns))], invalid_row_handler=strange
            )
        except pa.ArrowInvalid as error:
            if not wrong:
                raise DataError(
                    f"{self.source}: from line {self.line} on: {error}; repair the file"
                ) from error
        named = ", ".join([*columns[:12], *["..."][: len(columns) > 12]])
        allowed = f"{len(columns)} ({named}), split at {self.layout.delimiter!r}"
        if wrong[0].actual_columns == 1 and "delimiter" in self.keys:
            allowed += "; if another text separates the columns, set delimiter"
        row = wrong[0].number - 1 - len(blank)
        raise self.error(row, f"{wrong[0].actual_columns} columns", allowed)

    def error(self, row: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for a bad row of the table."""
        return self.source.error(self.line_of(row), found, allowed)

    @property
    def keys(self) -> tuple[str, ...]:
        """Options of the data set that a message may name."""
        return self.layout.keys

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a row of the table begins."""
        layout, text, line = self.layout, self.text, self.line
        if layout.quoted_cell_pattern is not None:  # line ends within a cell end no row
            text = re.sub(
                layout.quoted_cell_pattern, lambda cell: "q" + "\0" * count_line_ends(cell[0]), text
            )
        for one in LINE_END.split(text):
            if one and (one.strip() or one.count(layout.pyarrow_delimiter) + 1 == len(layout.columns)):
                if row == 0:
                    break
                row -= 1
            line += 1 + one.count("\0")
        return line

    def _require_closed_quotes(self) -> None:
        """Refuse a cell with an opening quote but no closing one: it would swallow the cells after it."""
        quote, mark, cell = (
            self.layout.quote or "",
            re.escape(self.layout.pyarrow_delimiter),
            self.layout.quoted_cell_pattern,
        )
        if cell is None or quote not in self.text:
            return
        proper = rf"(?:[^{re.escape(quote)}]++|{cell}|(?<=[^{mark}\r\n]){re.escape(quote)})*+"
        end = re.match(proper, self.text).end()  # type: ignore[union-attr]  # it matches nothing at least
        if end < len(self.text):
            raise self.source.error(
                self.line + count_line_ends(self.text[:end]),
                "a quote that is not closed at the end of its cell, "
                f"{LINE_END.split(self.text[end : end + 40])[0]!r}",
                f"cells enclosed in {quote}, with {quote}{quote} for a {quote} inside a cell"
                + ("; if quotes are ordinary text, set quote: none" if "quote" in self.keys else ""),
            )


def count_line_ends(text: str) -> int:
    """Return the number of line ends in a text."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def read_blocks(source: FileSource, layout: TextFormat) -> Iterator[TextBlock]:
    """Yield the rows of a source without its header, in blocks, none of which is blank.

    Raises
    ------
    DataError
        If the source is damaged, or its bytes are not text of the layout's encoding.
    """
    header_due = layout.header
    for line, text in _pieces(source, layout):
        for bad, called in FORBIDDEN.items():
            if bad in text:
                asks = bad == "\0" and "encoding" in layout.keys
                remedy = (
                    "; if it is UTF-16, set encoding: utf-16-le or utf-16-be; if it is no text, export it as CSV"
                    if asks
                    else ""
                )
                raise source.error(
                    line + count_line_ends(text[: text.index(bad)]),
                    called,
                    f"text without control characters{remedy}",
                )
        if header_due and not text.isspace():
            header_due = False
            header = layout.first_row(text)[0]
            line, text = line + count_line_ends(header), text[len(header) :]
        if text and not text.isspace():
            yield TextBlock(source, layout, line, layout.mark_delimiters(text))


def _pieces(source: FileSource, layout: TextFormat) -> Iterator[tuple[int, str]]:
    """Yield whole lines, decoded, with the number of the first one; quoted cells are not cut."""
    quote = layout.quote if layout.quoted_cell_pattern is not None else None
    line, held, length, quotes, last = 1, [""], 0, 0, False
    with source.open() as stream:
        for raw, text in _decoded(source, layout, stream):
            last = not raw
            end = len(text) if last else _last_line_end(text)
            if not end and length + len(text) > MAX_LENGTH:
                raise source.error(
                    line, f"a line of more than {MAX_LENGTH:,} characters", "a table with shorter lines"
                )
            is_cut = quote is not None and (quotes + text.count(quote, 0, end)) % 2 == 1
            if last or (end and (not is_cut or length + end > MAX_LENGTH)):
                whole = "".join([*held, text[:end]])
                yield line, whole
                line, held, length, quotes, text = line + count_line_ends(whole), [], 0, 0, text[end:]
            held.append(text)
            length += len(text)
            quotes += text.count(quote) if quote else 0


def _last_line_end(text: str) -> int:
    """Return the position after the last line end of a text, 0 if there is none."""
    return text.rfind("\n") + 1 or text.rfind("\r", 0, -1) + 1  # a final \r may be half of a line end


def _decoded(source: FileSource, layout: TextFormat, stream: BinaryIO) -> Iterator[tuple[bytes, str]]:
    """Yield bytes and their text, block by block; the last ones are empty."""
    raw = stream.read(BLOCK)
    refuse_binary(source, raw[:HEAD])
    encoding = encoding_of(source, raw[:HEAD], layout.encoding)
    decode, line, is_first = getincrementaldecoder(encoding)().decode, 1, True
    while True:
        try:
            text = decode(raw, not raw)
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):  # the error of punycode has no position
                line += count_line_ends(error.object[: error.start].decode(encoding, "replace"))
            raise _no_text(source, line, encoding, layout.keys) from error
        if is_first:
            text, is_first = text.removeprefix("\ufeff"), not text
        yield raw, text
        if not raw:
            return
        line += count_line_ends(text)
        raw = stream.read(BLOCK)


def _no_text(source: FileSource, line: int, encoding: str, keys: tuple[str, ...]) -> DataError:
    """Return (not raise) the error about bytes that are not text of an encoding."""
    step = "; set encoding to the right one, such as latin-1, cp1252 or utf-16" if "encoding" in keys else ""
    return source.error(
        line,
        f"bytes that are not {encoding.upper()} text",
        f"{encoding.upper()} text, plain or compressed as .gz or .zip{step}",
    )


def is_utf8(source: FileSource) -> bool:
    """Return whether the bytes of a source are UTF-8 text that is not ASCII.

    Text in another encoding hardly ever is: Latin-1 text would be full of pairs such as ``Ã©``.

    Raises
    ------
    DataError
        If the source is missing or damaged.
    """
    decode, is_ascii = getincrementaldecoder("utf-8")().decode, True
    with source.open() as stream:
        while True:
            raw = stream.read(BLOCK)
            is_ascii = is_ascii and raw.isascii()
            try:
                decode(raw, not raw)
            except UnicodeDecodeError:
                return False
            if not raw:
                return not is_ascii


def require_encoding(source: FileSource, stated: str) -> None:
    """Refuse UTF-8 text that is declared as another encoding, which would decode it to other characters.

    Raises
    ------
    DataError
        If it is UTF-8.
    """
    if not lookup(stated).name.startswith(("utf", "ascii", "unicode", "raw")) and is_utf8(source):
        raise source.error(1, f"UTF-8 text, but encoding: {stated}", "only one of them; remove encoding")


def encoding_of(source: FileSource, head: bytes, stated: str) -> str:
    """Return the encoding of a text: the one of its byte order mark, or else the stated one.

    Raises
    ------
    DataError
        If they disagree (the default ``utf-8`` agrees with any mark), or if the stated one requires a mark and there is
        none.
    """
    marked = next((name for mark, name in MARKS if head.startswith(mark)), None)
    said = lookup(stated).name
    if marked is None:
        if head and said in (
            "utf-16",
            "utf-32",
        ):  # decoders report a missing mark in other ways since Python 3.13
            remedy = f"its byte order mark; without one, set encoding: {said}-le or {said}-be"
            raise source.error(1, f"no byte order mark of {said}", remedy)
        return stated
    if said in ("utf-8", "utf-8-sig") or said.startswith(marked):
        return stated if marked == "utf-8" or said.startswith(marked) else marked
    raise source.error(
        1,
        f"the byte order mark of {marked.upper()}, but encoding: {stated}",
        "only one of them; remove encoding",
    )


def find_line_of_row(source: FileSource, layout: TextFormat, row: int) -> int:
    """Return the number of the line of a row, reading the table again up to it."""
    for block in read_blocks(source, layout):
        n_rows = len(block.table())
        if row < n_rows:
            return block.line_of(row)
        row -= n_rows
    raise AssertionError("the file was shortened while it was read")


SAMPLE = 1 << 16
"""Bytes that are examined."""


Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TextSample:
    """The beginning of a text.

    Attributes
    ----------
    source : FileSource
    text : str
        Whole lines, without a byte order mark; bytes that are invalid in the encoding are replaced.
    marked : bool
        Whether the text begins with a byte order mark.
    encoding : str
        The given encoding, or the one of the byte order mark.
    is_cut : bool
        Whether the source has more lines.
    """

    source: FileSource
    text: str
    marked: bool
    encoding: str
    is_cut: bool

    def error(self, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for the first line that is not blank."""
        lines = enumerate(LINE_END.split(self.text), 1)
        return self.source.error(next((n for n, line in lines if line.strip()), 1), found, allowed)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines that are not blank."""
        return tuple(line for line in LINE_END.split(self.text) if line.strip())

    def rows(self, delimiter: str, quote: str | None = None) -> Rows:
        """Return the cells of the lines that are not blank, without blanks around them."""
        if len(delimiter) > 1 or delimiter == " " or not delimiter.isascii():
            split = None if delimiter == " " else delimiter
            found = [line.split(split) for line in self.lines]
        else:
            lines = io.StringIO(self.text, newline="")
            try:
                found = [*csv.reader(lines, delimiter=delimiter, quotechar=quote)]
            except csv.Error:  # a cell of megabytes: not a table with this delimiter
                found = []
            if self.is_cut:  # possibly within a quoted cell
                found = found[:-1]
        cells = (tuple(cell.strip() for cell in row) for row in found)
        return tuple(row for row in cells if len(row) > 1 or any(row))


def read_sample(source: FileSource, encoding: str) -> TextSample:
    """Return the beginning of a text.

    Raises
    ------
    DataError
        If the source is missing, damaged at its beginning, or in a format that is no text.
    """
    with source.open() as stream:
        data = stream.read(SAMPLE + 1)
    is_cut = len(data) > SAMPLE
    refuse_binary(source, data[:HEAD])
    encoding = encoding_of(source, data[:HEAD], encoding)
    text = data.decode(encoding, errors="replace")
    marked = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    if is_cut:
        text = text[: _last_line_end(text) or None]
    return TextSample(source, text, marked, encoding, is_cut)
