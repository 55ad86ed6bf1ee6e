"""Readers of delimited text: columns as arrays, and interactions under dense ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError, ResourceError
from gossiprec.base.machine import available_bytes
from gossiprec.base.regular_files import format_bytes
from gossiprec.data.column_parsers import RATING, Convert, IdEncoder, TextColumn
from gossiprec.data.moments import seconds_and_fractions, times
from gossiprec.data.sources import FileSource
from gossiprec.data.split import Interactions
from gossiprec.data.text_blocks import LINE_END, TextFormat, read_blocks

ALWAYS_HELD = 1 << 27
"""Bytes of rows that are read without checking the available memory."""


def read_columns(
    source: FileSource,
    layout: TextFormat,
    readers: Mapping[str, Convert],
    keep: Callable[[dict[str, npt.NDArray[Any]]], Bools] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Read the columns that have a parser, one array each; blank lines are skipped.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
    readers : mapping of str to callable
    keep : callable, optional
        Function from a block's arrays to flags of the rows to keep; other rows are freed block by block.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, or a cell is bad.
    """
    found, held = [], 0
    for block in read_blocks(source, layout):
        table = block.table()
        arrays = {
            name: read(TextColumn(table.column(layout.columns.index(name)).combine_chunks(), block))
            for name, read in readers.items()
        }
        if keep is not None:
            chosen = keep(arrays)
            arrays = {name: values[chosen] for name, values in arrays.items()}
        found.append(arrays)
        held += sum(values.nbytes for values in arrays.values())
        require_memory(source, held)
    if not found:
        raise DataError(
            f"{source}: found no row; expected at least one line of {layout.delimiter.join(layout.columns)!r}"
        )
    return {name: np.concatenate([arrays[name] for arrays in found]) for name in readers}


def require_memory(where: object, held: int) -> None:
    """Refuse data if their columns would not fit into memory when they are joined.

    Parameters
    ----------
    where : object
        The file, for the message.
    held : int
        Bytes of the columns that have been read so far.

    Raises
    ------
    ResourceError
        If as much memory again is not available.
    """
    if held > ALWAYS_HELD and held > (available := available_bytes()):
        raise ResourceError(
            f"{where}: found more than {format_bytes(held)} of rows; expected at most "
            f"{format_bytes(available)}, the available memory; use a part of the file, or a machine with "
            "more memory"
        )


def read_first_row(source: FileSource, layout: TextFormat) -> tuple[str, ...]:
    """Return the cells of the first line, header or not; empty if the source has no lines.

    Raises
    ------
    DataError
        If the source is damaged.
    """
    for block in read_blocks(source, replace(layout, header=False)):
        line = next(line for line in LINE_END.split(block.text) if line.strip())
        twice = layout.parse(f"{line}\n{line}", None)  # pyarrow needs a row below the names
        return tuple(name.strip() for name in twice.column_names)
    return ()


@dataclass(frozen=True)
class InteractionTable:
    """A table as read: names of users and items by dense id, and one entry per row."""

    user_names: tuple[str, ...]
    item_names: tuple[str, ...]
    users: I64
    items: I64
    ratings: F32 | None
    times: I64 | None
    fractions: F64 | None = None


TIME = times("s")
"""Parser of times in seconds or ISO 8601."""


def make_column_parsers(*, time: Convert = TIME) -> tuple[tuple[IdEncoder, IdEncoder], dict[str, Convert]]:
    """Return the encoders of users and items, and the parsers of all columns with a meaning."""
    users, items = IdEncoder(), IdEncoder()
    readers = {"user": users.reader("user"), "item": items.reader("item"), "rating": RATING, "time": time}
    return (users, items), readers


def build_table(
    codes: tuple[IdEncoder, IdEncoder], arrays: Mapping[str, npt.NDArray[Any]]
) -> InteractionTable:
    """Return the table of the users, items, ratings and times that were read."""
    users, items = (tuple(code.ids) for code in codes)
    when = seconds_and_fractions(arrays["time"]) if "time" in arrays else (None, None)
    return InteractionTable(users, items, arrays["user"], arrays["item"], arrays.get("rating"), *when)


def read_interactions(source: FileSource, layout: TextFormat, *, time: Convert = TIME) -> InteractionTable:
    """Read a whole table; blank lines are skipped.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, a user or an item has no
        name, a rating is not a number, or the time has no known form.
    """
    codes, readers = make_column_parsers(time=time)
    named = {name: read for name, read in readers.items() if name in layout.columns}
    return build_table(codes, read_columns(source, layout, named))


def to_interactions(table: InteractionTable, name: str) -> Interactions:
    """Number users and items by their sorted names, so that the order of lines does not matter."""
    users, items = sort_positions(table.user_names), sort_positions(table.item_names)
    return Interactions(
        name=name,
        users=users[table.users],
        items=items[table.items],
        n_users=len(table.user_names),
        n_items=len(table.item_names),
        ratings=table.ratings,
        times=table.times,
        fractions=table.fractions,
        draws_by_name=True,
        user_names=tuple(table.user_names[place] for place in np.argsort(users)),
        item_names=tuple(table.item_names[place] for place in np.argsort(items)),
    )


def sort_positions(names: Sequence[str]) -> I64:
    """Return the position of each name in sorted order: whole numbers by value, then words."""
    order = sorted(
        range(len(names)), key=lambda i: (not is_whole_number(names[i]), _number(names[i]), names[i])
    )
    ranks = np.empty(len(names), np.int64)
    ranks[order] = np.arange(len(names))
    return ranks


def is_whole_number(name: str) -> bool:
    """Return whether a name is a whole number, which is ordered by its value."""
    return len(name) <= 18 and name.isascii() and name.isdigit()


def _number(name: str) -> int:
    return int(name) if is_whole_number(name) else 0
