"""Events as rows of plain values, for printing and export; codes appear by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64
from gossiprec.runs.reader import Columns, EventLog
from gossiprec.runs.schema import Column, EventKind

BLOCK_ROWS = 65_536
"""Number of rows that are turned into Python values per block."""

Rows = Iterable[tuple[Any, ...]]


def column_names(kind: EventKind) -> list[str]:
    """Return the names of a kind's columns in text: ``peers`` of size 2 is ``peers_0`` and ``peers_1``."""
    return [name for column in kind.columns for name in _flat_names(column)]


def iter_rows_of_kind(log: EventLog, kind: str) -> Iterator[Rows]:
    """Yield the rows of one kind in blocks, in the order they were written."""
    events = log.events(kind)
    for start in range(0, log.rows[kind], BLOCK_ROWS):
        yield _rows(log.schema[kind], events, slice(start, start + BLOCK_ROWS))


def iter_rows_by_time(log: EventLog, kinds: Sequence[str], limit: int | None = None) -> Iterator[Rows]:
    """Yield the rows of several kinds in blocks, each row led by its kind, in the order of virtual time.

    Ties keep the order of `kinds`, and within a kind the order in which rows were written.
    """
    tables = [log.events(kind) for kind in kinds]
    order = np.argsort(np.concatenate([table["time"] for table in tables]), kind="stable")[:limit]
    starts = np.cumsum([0] + [len(table["time"]) for table in tables])
    for at in range(0, len(order), BLOCK_ROWS):
        block = order[at : at + BLOCK_ROWS]
        lines: list[tuple[Any, ...]] = [()] * len(block)
        for number, kind in enumerate(kinds):
            places = np.flatnonzero((block >= starts[number]) & (block < starts[number + 1]))
            rows = _rows(log.schema[kind], tables[number], block[places] - starts[number])
            for place, row in zip(places.tolist(), rows, strict=True):
                lines[place] = (kind, *row)
        yield lines


def _flat_names(column: Column) -> list[str]:
    if column.size is None:
        return [column.name]
    return [f"{column.name}_{place}" for place in range(int(column.size))]


def _rows(kind: EventKind, events: Columns, chosen: slice | I64) -> Rows:
    values = [_values(column, events[column.name][chosen]) for column in kind.columns]
    return zip(*(flat for column in values for flat in column), strict=True)


def _values(column: Column, array: npt.NDArray[Any]) -> list[list[Any]]:
    """Return the column's values as lists of Python objects: one list, or one per position of a row."""
    if column.codes:
        return [[_code_name(column, code) for code in array.tolist()]]
    return [array.tolist()] if array.ndim == 1 else [values.tolist() for values in array.T]


def _code_name(column: Column, code: int) -> str:
    return column.codes[code] if code < len(column.codes) else str(code)
