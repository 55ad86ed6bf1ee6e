"""A parsed file of interactions, and the description of its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gossiprec.data.column_parsers import Convert
from gossiprec.data.delimited_text import InteractionTable, read_interactions
from gossiprec.data.format_detection import DetectedFormat, FormatHints, detect_format
from gossiprec.data.list_format import detect_list_format, read_item_lists
from gossiprec.data.parquet import ParquetBatch, read_parquet
from gossiprec.data.plausibility import Doubt
from gossiprec.data.sources import FileSource
from gossiprec.data.split_parts import find_line_of_row
from gossiprec.data.text_blocks import TextFormat, require_encoding

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
    def told(self) -> str:
        """The detected format, in one line."""
        if self.how is None:
            how = ", ".join(["Parquet", *(f"{meaning} = {name}" for meaning, name in self.names.items())])
            how += f", skipped: {', '.join(self.skipped)}" if self.skipped else ""
        else:
            how = self.how.told
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
