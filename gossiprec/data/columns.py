"""Columns of delimited text to arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gossiprec.arrays import Bools
from gossiprec.data.blocks import LINE_END, Block, Layout, blocks_of
from gossiprec.data.sources import Source
from gossiprec.errors import DataError


@dataclass(frozen=True)
class Cells:
    """A column of a block: its texts, and the rows they come from."""

    texts: pa.StringArray
    block: Block


Convert = Callable[[Cells], npt.NDArray[Any]]
"""Reader of one column: turns its cells into an array, or raises the error that names the bad line."""


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
    keep : callable, optional
        Says which rows of a block to keep, from the block's arrays: what is not wanted never piles up.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, or a cell is bad.
    """
    found = []
    for block in blocks_of(source, layout):
        table = block.table()
        arrays = {
            name: read(Cells(table.column(layout.columns.index(name)).combine_chunks(), block))
            for name, read in readers.items()
        }
        if keep is not None:
            chosen = keep(arrays)
            arrays = {name: values[chosen] for name, values in arrays.items()}
        found.append(arrays)
    if not found:
        raise DataError(
            f"{source}: found no row; allowed: at least one line of {layout.delimiter.join(layout.columns)!r}"
        )
    return {name: np.concatenate([arrays[name] for arrays in found]) for name in readers}


def first_cells(source: Source, layout: Layout) -> tuple[str, ...]:
    """Return the cells of the first line, header or not; none of a source without lines.

    Raises
    ------
    DataError
        If the source is damaged.
    """
    for block in blocks_of(source, replace(layout, header=False)):
        line = next(line for line in LINE_END.split(block.text) if line.strip())
        twice = layout.parse(f"{line}\n{line}", None)  # pyarrow wants a row below the names
        return tuple(name.strip() for name in twice.column_names)
    return ()
