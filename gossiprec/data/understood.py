"""A file of interactions, read as it was understood, and what there is to say of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gossiprec.data.blocks import Layout, require_encoding
from gossiprec.data.cells import Convert
from gossiprec.data.columns import Table, read_table
from gossiprec.data.doubts import Doubt
from gossiprec.data.lists import read_sequences, recognised_lists
from gossiprec.data.parquet import Batch, read_parquet
from gossiprec.data.parts import line_of_row
from gossiprec.data.recognised import Asked, Recognised, recognised
from gossiprec.data.sources import Source

Check = Callable[[Table, bool, Sequence[str]], Iterator[Doubt]]


@dataclass(frozen=True)
class Understood:
    """A file that was read.

    Attributes
    ----------
    source : Source
    table : Table
    how : Recognised or None
        How its text is written; None of Parquet.
    names : dict of str to str
        Of Parquet: what the columns are called, by meaning.
    skipped : tuple of str
        Of Parquet: the columns that are not read.
    """

    source: Source
    table: Table
    how: Recognised | None
    names: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout | None:
        """How the lines are written; None of Parquet."""
        return None if self.how is None else self.how.layout

    @property
    def told(self) -> str:
        """What was understood, in a line."""
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


def read_text(source: Source, asked: Asked, *, lists: bool, time: Convert, check: Check) -> Understood:
    """Read delimited text.

    Parameters
    ----------
    source : Source
    asked : Asked
    lists : bool
        Whether a line is a user and the user's items, not a pair.
    time : callable
        Reader of times.
    check : callable
        Yields what cannot be meant in the table, from whether columns are known by their place only, and from what the
        header calls users and items.

    Raises
    ------
    DataError
        If it is damaged, can be understood in two ways, or cannot be meant as it is.
    """
    if lists:
        how = recognised_lists(source, asked)
        require_encoding(source, how.layout.encoding)
        table, line_of = read_sequences(source, how.layout)
        for row, found, allowed in check(table, False, ()):
            raise source.error(line_of(row), found, allowed)
        return Understood(source, table, how)
    how = recognised(source, asked)
    require_encoding(source, how.layout.encoding)
    table = read_table(source, how.layout, time=time)
    called = dict(zip(how.layout.columns, how.names, strict=False))
    header = [called[meaning] for meaning in ("user", "item") if how.names]
    for row, found, allowed in check(table, asked.columns is None and not how.names, header):
        raise source.error(line_of_row(source, how.layout, row), found, allowed)
    return Understood(source, table, how)


def read_columnar(
    source: Source, columns: tuple[str, ...] | Mapping[str, str] | None, *, time: Convert, check: Check
) -> Understood:
    """Read a Parquet file; see :func:`~gossiprec.data.parquet.read_parquet`.

    Raises
    ------
    DataError
        If it is damaged, or cannot be meant as it is.
    """
    table, names, skipped = read_parquet(source.path, columns, time=time)
    for row, found, allowed in check(table, False, ()):
        raise Batch(source.path, 1).error(row, found, allowed)
    return Understood(source, table, None, names, skipped)
