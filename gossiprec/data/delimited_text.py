"""Tables of delimited text: columns as arrays, interactions, texts of items, and the writer of interactions."""

from __future__ import annotations

import gzip
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gossiprec.base.arrays import F32, F64, I64, Bools, Texts
from gossiprec.base.errors import DataError, ResourceError
from gossiprec.base.inputs import format_bytes
from gossiprec.base.machine import available_bytes
from gossiprec.data.check_ins import item_coordinates
from gossiprec.data.column_parsers import (
    LATITUDE,
    LONGITUDE,
    Convert,
    IdEncoder,
    TextColumn,
    rating_parser,
    seconds_and_fractions,
    time_column_parser,
)
from gossiprec.data.sources import FileSource
from gossiprec.data.split import Interactions
from gossiprec.data.text_blocks import (
    TextFormat,
    find_line_of_row,
    is_utf8,
    read_blocks,
    require_encoding,
)

MIN_CHECKED = 1 << 27
"""Bytes of rows that are read without checking the available memory."""


def read_columns(
    source: FileSource,
    layout: TextFormat,
    readers: Mapping[str, Convert],
    keep: Callable[[dict[str, npt.NDArray[Any]]], Bools] | None = None,
    watch: Callable[[pa.Table], None] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Read the columns that have a parser, one array each; blank lines are skipped.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
    readers : mapping of str to callable
    keep : callable, optional
        Function from a block's arrays to flags of the rows to keep; other rows are freed block by block.
    watch : callable, optional
        Function that gets the cells of each block, also of the other columns, which are named after their places.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, or a cell is bad.
    """
    found, held = [], 0
    for block in read_blocks(source, layout):
        table = block.table()
        if watch is not None:
            watch(table)
        arrays = {
            name: read(TextColumn(table.column(layout.columns.index(name)).combine_chunks(), block))
            for name, read in readers.items()
        }
        if keep is not None:
            chosen = keep(arrays)
            arrays = {name: values[chosen] for name, values in arrays.items()}
        found.append(arrays)
        held += sum(values.nbytes for values in arrays.values())
        check_table_memory(source, held)
    if not found:
        raise DataError(
            f"{source}: found no row; expected at least one line of {layout.delimiter.join(layout.columns)!r}"
        )
    return {name: np.concatenate([arrays[name] for arrays in found]) for name in readers}


def check_table_memory(source_name: object, held: int) -> None:
    """Refuse data if their columns would not fit into memory when they are joined.

    Parameters
    ----------
    source_name : object
        The file, for the message.
    held : int
        Bytes of the columns that have been read so far.

    Raises
    ------
    ResourceError
        If as much memory again is not available.
    """
    if held > MIN_CHECKED and held > (available := available_bytes()):
        raise ResourceError(
            f"{source_name}: found more than {format_bytes(held)} of rows; expected up to "
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
        line = layout.first_row(block.text)[1]
        twice = layout.parse(f"{line}\n{line}", None)  # pyarrow needs a row below the names
        return tuple(name.strip() for name in twice.column_names)
    return ()


def require_header(source: FileSource, layout: TextFormat) -> None:
    """Refuse a source that does not begin with the names of the columns.

    Raises
    ------
    DataError
    """
    header = read_first_row(source, layout)
    if header != layout.columns:
        found, expected = ",".join(header)[:60], ",".join(layout.columns)
        raise DataError(f"{source}: line 1: found {found!r}; expected the header {expected}")


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


TIME = time_column_parser("s")
"""Parser of times in seconds or ISO 8601."""


def make_column_parsers(*, time: Convert = TIME) -> tuple[tuple[IdEncoder, IdEncoder], dict[str, Convert]]:
    """Return the encoders of users and items, and the parsers of all columns with a meaning."""
    users, items = IdEncoder(), IdEncoder()
    readers = {
        "user": users.make_parser("user"),
        "item": items.make_parser("item"),
        "rating": rating_parser(),
        "time": time,
    }
    return (users, items), readers


def build_table(
    codes: tuple[IdEncoder, IdEncoder], arrays: Mapping[str, npt.NDArray[Any]]
) -> InteractionTable:
    """Return the table of the users, items, ratings and times that were read."""
    users, items = (tuple(code.ids) for code in codes)
    when = seconds_and_fractions(arrays["time"]) if "time" in arrays else (None, None)
    return InteractionTable(users, items, arrays["user"], arrays["item"], arrays.get("rating"), *when)


def read_interactions(
    source: FileSource,
    layout: TextFormat,
    *,
    time: Convert = TIME,
    watch: Callable[[pa.Table], None] | None = None,
) -> InteractionTable:
    """Read a whole table; blank lines are skipped; see :func:`read_columns` for `watch`.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, a user or an item has no
        name, a rating is not a number, or the time has no known form.
    """
    codes, readers = make_column_parsers(time=time)
    named = {name: read for name, read in readers.items() if name in layout.columns}
    return build_table(codes, read_columns(source, layout, named, watch=watch))


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


def read_check_ins(
    name: str,
    source: FileSource,
    layout: TextFormat,
    *,
    place: str,
    time: Convert,
    keep: Callable[[dict[str, npt.NDArray[Any]]], Bools] | None = None,
) -> Interactions:
    """Read visits: user, place (the column `place`) with its latitude and longitude, and time.

    Users and places have dense ids in the order of their names; those without a kept visit are left out. See
    :func:`read_columns` for `keep` and for errors.
    """
    users, places = IdEncoder(), IdEncoder()
    readers = {"user": users.make_parser("user"), place: places.make_parser(place), "time": time}
    readers |= {"latitude": LATITUDE, "longitude": LONGITUDE}
    in_order = {column: readers[column] for column in layout.columns if column in readers}
    table = read_columns(source, layout, in_order, keep)
    people, user_ids = np.unique(sort_positions(tuple(users.ids))[table["user"]], return_inverse=True)
    visited, items = np.unique(sort_positions(tuple(places.ids))[table[place]], return_inverse=True)
    seconds, fractions = seconds_and_fractions(table["time"])
    return Interactions(
        name=name,
        users=user_ids,
        items=items,
        n_users=len(people),
        n_items=len(visited),
        times=seconds,
        fractions=fractions,
        coordinates=item_coordinates(items, table["latitude"], table["longitude"], len(visited)),
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


def write_table(
    draw: Callable[[], Interactions], out: Path, *, delimiter: str = "\t", overwrite: bool = False
) -> int:
    """Write user, item and, if known, rating and time, one interaction per line; return their number.

    Parameters
    ----------
    draw : callable
        Function that makes the interactions; not called if `out` may not be written.
    out : Path
        Compressed with gzip if it ends in ``.gz``; equal interactions give equal bytes.
    delimiter : str
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    DataError
        If `out` exists and may not be replaced, or the delimiter could be mistaken for data.
    ResourceError
        If the folder cannot be written to.
    """
    if out.exists() and not overwrite:
        raise DataError(f"{out}: already exists; pass --overwrite to replace it, or choose another file")
    if not delimiter or not set(delimiter).isdisjoint("0123456789.-\r\n"):
        raise DataError(
            f"delimiter: found {delimiter!r}; expected text without digits, '.', '-' and line ends"
        )
    interactions = draw()
    partial = Path()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
        partial = Path(name)
        with os.fdopen(handle, "wb") as raw:
            _write(raw, interactions, delimiter, packed=out.suffix == ".gz")
        partial.chmod(0o644)
        partial.replace(out)
    except OSError as error:
        raise ResourceError(
            f"{out}: cannot be written: {error.strerror}; choose a folder that is writable"
        ) from error
    finally:
        if partial.name:
            partial.unlink(missing_ok=True)
    return len(interactions.users)


def _times(seconds: list[int], fractions: F64 | None) -> list[str]:
    """Return the texts of times, with all digits that distinguish them."""
    if fractions is None:
        return [*map(str, seconds)]
    parts = (f"{part:.17f}".rstrip("0")[1:] if part else "" for part in fractions.tolist())
    return [f"{whole}{part}" for whole, part in zip(seconds, parts, strict=True)]


def _write(raw: IO[bytes], interactions: Interactions, delimiter: str, *, packed: bool) -> None:
    columns = [interactions.users.tolist(), interactions.items.tolist()]
    if interactions.ratings is not None:
        columns.append([f"{rating:g}" for rating in interactions.ratings.tolist()])
    if interactions.times is not None:
        columns.append(_times(interactions.times.tolist(), interactions.fractions))
    text = "".join(delimiter.join(map(str, row)) + "\n" for row in zip(*columns, strict=True)).encode()
    if not packed:
        raw.write(text)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
        stream.write(text)


YEAR = re.compile(r"\((?:1[89]|20)\d\d\)")
"""A year in brackets, with which MovieLens ends its titles."""


def parse_texts(cells: TextColumn) -> Texts:
    """Parse a column of texts: in lower case, without years, with one blank between words."""
    return np.array(
        [" ".join(YEAR.sub(" ", text).lower().split()) for text in cells.texts.to_pylist()], object
    )


def parse_word_lists(cells: TextColumn) -> Texts:
    """Parse a column of words separated by ``|``."""
    return np.array([text.replace("|", " ").lower().strip() for text in cells.texts.to_pylist()], object)


def flag_parser(word: str) -> Convert:
    """Return the parser of a column of 0 and 1, which gives the word for a 1."""

    def read(cells: TextColumn) -> Texts:
        found = cells.texts.to_pylist()
        for row, text in enumerate(found):
            if text not in ("0", "1"):
                raise cells.block.error(row, repr(text), f"0 or 1 as {word}")
        return np.array([word.lower() * int(text) for text in found], object)

    return read


def read_item_texts(
    source: FileSource, layout: TextFormat, names: Sequence[str], columns: Mapping[str, Convert]
) -> tuple[str, ...]:
    """Return one text per item, ``""`` if the source has none.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
        With a column ``item`` of names.
    names : sequence of str
        Names of the items in the data, by dense id; other names in the source are left out.
    columns : mapping of str to callable
        Parsers of the columns that make up a text, in order.

    Raises
    ------
    DataError
        If the source is damaged, is not of the layout's encoding, names an item twice, or names no item of the data.
    """
    codes = IdEncoder()
    if layout.keys:
        require_encoding(source, layout.encoding)
    elif is_utf8(source):  # copies of MovieLens are in Latin-1, as published, or in UTF-8
        layout = replace(layout, encoding="utf-8")
    found = read_columns(source, layout, {"item": codes.make_parser("item"), **columns})
    require_once(source, layout, found["item"], tuple(codes.ids), "one text for each item")
    parts = zip(*(found[name] for name in columns), strict=True)
    text_of = dict(zip(codes.ids, (" ".join(filter(None, some)) for some in parts), strict=True))
    if text_of.keys().isdisjoint(names):
        raise DataError(
            f"{source}: found texts of {len(text_of)} items, such as {next(iter(text_of))!r}; expected those "
            f"of the data, such as {names[0]!r}, at least one; use the file that belongs to the data"
        )
    return tuple(text_of.get(name, "") for name in names)


def require_once(
    source: FileSource, layout: TextFormat, ids: I64, names: tuple[str, ...], allowed: str
) -> None:
    """Refuse a name on two lines of a table, the first column of which is named after what it holds.

    Raises
    ------
    DataError
        If there is one; the message names the line, and `allowed`.
    """
    again = np.ones(len(ids), bool)
    again[np.unique(ids, return_index=True)[1]] = False
    if again.any():
        row = int(np.argmax(again))
        raise source.error(
            find_line_of_row(source, layout, row),
            f"{layout.columns[0]} {names[ids[row]]!r} again",
            allowed,
        )
