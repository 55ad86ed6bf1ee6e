"""Tables in Parquet files: columns have names and types, so only their meanings must be detected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from gossiprec.base.errors import DataError, did_you_mean
from gossiprec.base.inputs import no_such_file, note_input
from gossiprec.data.column_parsers import Convert, TextColumn, shorten, to_array
from gossiprec.data.delimited_text import (
    TIME,
    InteractionTable,
    build_table,
    check_table_memory,
    make_column_parsers,
)
from gossiprec.data.format_detection import MEANINGS, column_role, column_roles, is_label, named_columns
from gossiprec.data.labels import ValueCounts, label_message

MAGIC = b"PAR1"
BYTES_PER_ROW = 32
"""Least memory in bytes per row of a user and an item while the rows are joined."""
ROWS = 1 << 18
"""Rows per read."""


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file, by its name or its first and last bytes."""
    note_input(path)
    if path.suffix == ".parquet":
        return True
    with path.open("rb") as file:
        first = file.read(len(MAGIC))
        file.seek(max(path.stat().st_size - len(MAGIC), 0))
        return first == file.read(len(MAGIC)) == MAGIC


@dataclass(frozen=True)
class ParquetBatch:
    """A batch of rows of a Parquet file; `first` is the 1-based number of its first row."""

    path: Path
    first: int

    def error(self, row: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for a bad row."""
        return DataError(f"{self.path}: row {self.line_of(row)}: found {found}; expected {allowed}")

    @property
    def keys(self) -> tuple[str, ...]:
        """Options of the data set that a message may name."""
        return ("columns", "time_unit")

    def line_of(self, row: int) -> int:
        """Return the number of a row, from 1."""
        return self.first + row


def read_parquet(
    path: Path, columns: tuple[str, ...] | Mapping[str, str] | None, *, time: Convert = TIME
) -> tuple[InteractionTable, dict[str, str], tuple[str, ...]]:
    """Read a whole Parquet file.

    Parameters
    ----------
    path : Path
    columns : tuple or mapping or None
        Meanings by place, names of columns by meaning, or None to detect meanings from the column names.
    time : callable
        Parser of times.

    Returns
    -------
    table : InteractionTable
    names : dict of str to str
        Names of the columns, by meaning.
    skipped : tuple of str
        The other columns.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column, or holds a name or time without a value.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            f"{path}: the installed pyarrow cannot read Parquet ({error}); run pip install --force-reinstall "
            "pyarrow, or convert the table to .csv"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            names = _names(path, file.schema_arrow.names, columns)
            if columns is None:
                _refuse_labels(path, file, names)
            skipped = tuple(name for name in file.schema_arrow.names if name not in names.values())
            check_table_memory(path, BYTES_PER_ROW * file.metadata.num_rows)  # before any row is read
            return _read(path, file, names, time), names, skipped
    except FileNotFoundError as error:
        raise DataError(f"{path}: {no_such_file(path)}") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {error}; download the file again") from error


def _read(path: Path, file: Any, names: Mapping[str, str], time: Convert) -> InteractionTable:
    codes, readers = make_column_parsers(time=time)
    found: list[dict[str, npt.NDArray[Any]]] = []
    for first, batch in _batches(file, names):
        rows = ParquetBatch(path, first)
        found.append(
            {
                meaning: readers[meaning](
                    _texts(batch.column(name), name, rows, is_rating=meaning == "rating")
                )
                for meaning, name in names.items()
            }
        )
    if not found:
        raise DataError(f"{path}: found no row; expected at least one")
    return build_table(codes, {meaning: np.concatenate([one[meaning] for one in found]) for meaning in names})


def _batches(file: Any, names: Mapping[str, str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = 1
    for batch in file.iter_batches(ROWS, columns=[*names.values()]):
        if batch.num_rows:
            yield first, batch
        first += batch.num_rows


def _texts(column: pa.Array, name: str, rows: ParquetBatch, *, is_rating: bool) -> TextColumn:
    """Return cells as text, so that the parsers of text files can be used; a missing rating is empty."""
    if column.null_count and not is_rating:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise rows.error(row, f"no value in {name}", "one in every row")
    no_text = pa.types.is_boolean(column.type) and not is_rating
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or no_text:
        raise rows.error(0, f"{column.type} in {name}", "text, numbers, dates or times")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
    if pa.types.is_floating(column.type) and not is_rating:
        column = _without_exponents(column, name, rows)
    return TextColumn(pc.fill_null(pc.cast(column, pa.string()), ""), rows)


def _without_exponents(column: pa.Array, name: str, rows: ParquetBatch) -> pa.Array:
    """Return numbers as text; refuse whole numbers that the type of the column cannot distinguish."""
    limit = 2.0 ** (np.finfo(column.type.to_pandas_dtype()).nmant + 1)
    large = np.abs(to_array(column)) >= limit
    if large.any():
        raise rows.error(
            int(np.argmax(large)),
            f"{column.type} in {name}",
            f"a type that distinguishes whole numbers from {limit:,.0f} on, such as int64",
        )
    whole = pc.equal(column, pc.floor(column))
    counts = pc.cast(pc.if_else(whole, column, pa.scalar(0, column.type)), pa.int64())
    return pc.if_else(whole, pc.cast(counts, pa.string()), pc.cast(column, pa.string()))


def _refuse_labels(path: Path, file: Any, names: Mapping[str, str]) -> None:
    """Refuse a column without a meaning that, by its name or its values, may mark the rows that count."""
    others = [
        field.name
        for field in file.schema_arrow
        if field.name not in names.values()
        and not (pa.types.is_nested(field.type) or pa.types.is_binary(field.type))
    ]
    first = next(file.iter_batches(ROWS, columns=others), None) if others else None
    if first is None:
        return
    by_name = [name for name in others if is_label(name)]
    counts = ValueCounts.of(others)
    counts.add(first)
    if counts.counts and first.num_rows < file.metadata.num_rows:
        counts = ValueCounts.of(counts.counts)
        for batch in file.iter_batches(ROWS, columns=[*counts.counts]):
            counts.add(batch)
    for name in (*by_name, *counts.labels):
        values = {str(value) for value in pc.unique(first[name]).to_pylist() if value is not None}
        found, allowed = label_message(name, values, names, "rows")
        raise DataError(f"{path}: found {found}; expected {allowed}")


def _names(
    path: Path, held: list[str], columns: tuple[str, ...] | Mapping[str, str] | None
) -> dict[str, str]:
    """Return the columns with a meaning, by meaning."""
    found = f"{path}: found columns {shorten(', '.join(held), 400)}"
    if isinstance(columns, Mapping):
        names = dict(columns)
    else:
        places = columns or column_roles(held)
        if places is None:
            raise DataError(
                f"{found}; expected a column named like a user and one named like an item; name them, such as "
                "columns: {user: ..., item: ...}"
            )
        wrong = [
            f"{n} as {m}"
            for n, m in zip(held, places, strict=False)
            if m in MEANINGS and column_role(n) not in (m, None)
        ]
        if wrong or len(places) != len(held):
            raise DataError(
                f"{found}, and {list(places)} in columns; expected the same columns in the same order, or by "
                "name, such as {user: ..., item: ...}"
            )
        names = named_columns(places, held)
    for meaning, name in names.items():
        if held.count(name) != 1:
            raise DataError(f"{found}; expected {name!r} once, as the {meaning}{did_you_mean(name, held)}")
    return names
