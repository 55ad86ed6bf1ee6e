"""Delimited text to arrays: one streaming pass, and the exact line in every complaint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from gossiprec.data.sources import Source
from gossiprec.data.split import I64, Interactions
from gossiprec.errors import DataError

F64 = npt.NDArray[np.float64]

BLOCK = 50_000
"""Lines held as strings at a time."""

MEANINGS = ("user", "item", "rating", "time")
"""Column names that are read; any other name is skipped."""

LATEST = 2**53
"""Bound of times: beyond it a float cannot hold a whole number."""


@dataclass(frozen=True)
class Layout:
    """How the lines of a table are written.

    Attributes
    ----------
    columns : tuple of str
        Name of each column; see :data:`MEANINGS`.
    delimiter : str
        Between columns; a blank means any run of blanks and tabs.
    header : bool
        Whether the first line names columns instead of holding data.
    """

    columns: tuple[str, ...]
    delimiter: str = "\t"
    header: bool = False

    def cells(self, line: str) -> list[str]:
        """Split one line."""
        return line.split() if self.delimiter == " " else line.split(self.delimiter)


@dataclass
class Codes:
    """Dense ids in the order in which names are first seen."""

    ids: dict[str, int] = field(default_factory=dict)

    def encode(self, names: Sequence[str]) -> I64:
        """Return the id of each name, giving new names the next ids."""
        ids = self.ids
        return np.fromiter((ids.setdefault(name, len(ids)) for name in names), np.int64, len(names))


@dataclass(frozen=True)
class Table:
    """A table read: names of users and items by dense id, and one entry per row."""

    user_names: tuple[str, ...]
    item_names: tuple[str, ...]
    users: I64
    items: I64
    ratings: npt.NDArray[np.float32] | None
    times: I64 | None


def read_table(source: Source, layout: Layout) -> Table:
    """Read a whole table; blank lines are skipped.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, a user or an item has no
        name, or a rating or a time is no number.
    """
    users, items = Codes(), Codes()
    blocks: dict[str, list[npt.NDArray[np.generic]]] = {
        name: [] for name in MEANINGS if name in layout.columns
    }
    for rows, numbers in _blocks(source, layout):
        for name, values in blocks.items():
            cells = [row[layout.columns.index(name)].strip() for row in rows]
            if name in ("user", "item"):
                _require_names(source, name, cells, numbers)
                values.append((users if name == "user" else items).encode(cells))
            else:
                convert = _to_ratings if name == "rating" else _to_times
                values.append(convert(source, cells, numbers))
    if not blocks["user"]:
        raise DataError(
            f"{source}: found no row; allowed: at least one line of {layout.delimiter.join(layout.columns)!r}"
        )
    arrays = {name: np.concatenate(values) for name, values in blocks.items()}
    return Table(
        tuple(users.ids),
        tuple(items.ids),
        arrays["user"],
        arrays["item"],
        arrays.get("rating"),
        arrays.get("time"),
    )


def interactions_from(table: Table, name: str) -> Interactions:
    """Number users and items by their sorted names, so that the order of the lines does not matter."""
    return Interactions(
        name=name,
        users=_ranks(table.user_names)[table.users],
        items=_ranks(table.item_names)[table.items],
        n_users=len(table.user_names),
        n_items=len(table.item_names),
        ratings=table.ratings,
        times=table.times,
    )


def _ranks(names: Sequence[str]) -> I64:
    """Return the place of each name in sorted order: whole numbers by value, then words."""
    order = sorted(range(len(names)), key=lambda i: (not _is_number(names[i]), _number(names[i]), names[i]))
    ranks = np.empty(len(names), np.int64)
    ranks[order] = np.arange(len(names))
    return ranks


def _is_number(name: str) -> bool:
    return len(name) <= 18 and name.isascii() and name.isdigit()


def _number(name: str) -> int:
    return int(name) if _is_number(name) else 0


def _blocks(source: Source, layout: Layout) -> Iterator[tuple[list[list[str]], list[int]]]:
    lines = (
        (number, line) for number, line in enumerate(source.lines(), start=1) if line and not line.isspace()
    )
    if layout.header:
        next(lines, None)
    width = len(layout.columns)
    while block := list(islice(lines, BLOCK)):
        rows = [layout.cells(line) for _, line in block]
        for row, (number, _) in zip(rows, block, strict=True):
            if len(row) != width:
                raise source.error(
                    number,
                    f"{len(row)} columns",
                    f"{width} ({', '.join(layout.columns)}), split at {layout.delimiter!r}",
                )
        yield rows, [number for number, _ in block]


def _require_names(source: Source, column: str, cells: Sequence[str], numbers: Sequence[int]) -> None:
    if not all(cells):
        raise source.error(numbers[cells.index("")], f"no {column}", "any text")


def _to_ratings(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> npt.NDArray[np.float32]:
    allowed = "a finite number as rating"
    return _floats(source, cells, numbers, allowed, lambda values: np.abs(values) < 1e30).astype(np.float32)


def _to_times(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> I64:
    allowed = "a whole number of seconds as time, -1 where unknown"
    return _floats(
        source, cells, numbers, allowed, lambda t: (t >= -1) & (t < LATEST) & (t == np.floor(t))
    ).astype(np.int64)


def _floats(
    source: Source,
    cells: Sequence[str],
    numbers: Sequence[int],
    allowed: str,
    accept: Callable[[F64], npt.NDArray[np.bool_]],
) -> F64:
    try:
        values = np.array(cells).astype(np.float64)
    except ValueError:
        values = np.array([_float_or_nan(cell) for cell in cells])
    with np.errstate(invalid="ignore"):
        good = accept(values)
    if not good.all():
        bad = int(np.argmin(good))
        if numbers[bad] == 1:
            allowed += "; if the first line names the columns, set header: true"
        raise source.error(numbers[bad], repr(cells[bad]), allowed)
    return values


def _float_or_nan(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
