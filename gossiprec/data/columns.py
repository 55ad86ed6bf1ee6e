"""Columns of delimited text to arrays: one streaming pass, and the exact line in every complaint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64, Bools
from gossiprec.data.sources import Source
from gossiprec.errors import DataError

BLOCK = 50_000
"""Lines held as strings at a time."""

Convert = Callable[[Source, Sequence[str], Sequence[int]], npt.NDArray[Any]]
"""Reader of one column: source, cells and their line numbers to an array."""


@dataclass(frozen=True)
class Layout:
    """How the lines of a table are written.

    Attributes
    ----------
    columns : tuple of str
        Name of each column.
    delimiter : str
        Between columns; a blank means any run of blanks and tabs.
    header : bool
        Whether the first line names columns instead of holding data.
    encoding : str
        Of the text.
    """

    columns: tuple[str, ...]
    delimiter: str = "\t"
    header: bool = False
    encoding: str = "utf-8"

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

    def reader(self, column: str) -> Convert:
        """Return the reader of a column of names: any text but none."""

        def read(source: Source, cells: Sequence[str], numbers: Sequence[int]) -> I64:
            if not all(cells):
                raise source.error(numbers[cells.index("")], f"no {column}", "any text")
            return self.encode(cells)

        return read


def read_columns(
    source: Source,
    layout: Layout,
    readers: Mapping[str, Convert],
    keep: Callable[[dict[str, npt.NDArray[Any]]], Bools] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Read the columns that have a reader, one array each; blank lines are skipped.

    Parameters
    ----------
    source : Source
    layout : Layout
    readers : mapping of str to callable
        Turns the cells of a column into an array, or raises the error that names the bad line.
    keep : callable, optional
        Says which rows of a block to keep, from the block's arrays: what is not wanted never piles up.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, or a cell is bad.
    """
    blocks = []
    at = {name: layout.columns.index(name) for name in readers}
    for rows, numbers in _blocks(source, layout):
        block = {
            name: read(source, [row[at[name]].strip() for row in rows], numbers)
            for name, read in readers.items()
        }
        if keep is not None:
            chosen = keep(block)
            block = {name: values[chosen] for name, values in block.items()}
        blocks.append(block)
    if not blocks:
        raise DataError(
            f"{source}: found no row; allowed: at least one line of {layout.delimiter.join(layout.columns)!r}"
        )
    return {name: np.concatenate([block[name] for block in blocks]) for name in readers}


def _blocks(source: Source, layout: Layout) -> Iterator[tuple[list[list[str]], list[int]]]:
    lines = (
        (number, line)
        for number, line in enumerate(source.lines(layout.encoding), start=1)
        if line and not line.isspace()
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


def floats(
    source: Source,
    cells: Sequence[str],
    numbers: Sequence[int],
    allowed: str,
    accept: Callable[[F64], Bools],
) -> F64:
    """Return the cells as numbers, or raise the error that names the first one not accepted (NaN never is)."""
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
