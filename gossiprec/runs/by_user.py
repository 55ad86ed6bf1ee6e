"""The values of metrics of single users, and their recommendations: ``metrics_by_user.parquet``, ``lists.parquet``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.errors import LogError
from gossiprec.runs import run_files

if TYPE_CHECKING:
    import pyarrow as pa

UserRow = tuple[float, int, str, I64, F64]
"""Virtual time and round of a report, a metric, users (nodes) and their values, both of shape (n,)."""


ROW_BYTES = 400
"""Memory of a row at most, while it is read: its metric is a word."""


LONGEST_METRIC = 1_000
"""Characters of the name of a metric."""


def parquet_schema() -> pa.Schema:
    """Return the columns of ``metrics_by_user.parquet``."""
    import pyarrow as pa

    types = {"user": pa.int32(), "time": pa.float64(), "round": pa.int32(), "metric": pa.string()}
    return pa.schema({**types, "value": pa.float64()})


def _list_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema({"user": pa.int32(), "rank": pa.int32(), "item": pa.int32()})


def write_by_user(folder: Path, rows: Iterable[UserRow]) -> None:
    """Write the values of metrics of single users in one step.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches, schema = [], parquet_schema()
    for time, round_, metric, users, values in rows:
        same = (np.full(len(users), time), np.full(len(users), round_, np.int32))
        columns = [users.astype(np.int32), *same, values]
        user, when, number, value = (_array(column) for column in columns)
        batches.append(
            pa.RecordBatch.from_arrays(
                [user, when, number, _repeat(metric, len(users)), value], schema=schema
            )
        )
    with run_files.open_replacement(folder / run_files.BY_USER) as file:
        pq.write_table(pa.Table.from_batches(batches, schema), file, compression="zstd")


def _array(values: npt.NDArray[Any]) -> pa.Array:
    """Return an array without missing values; `pyarrow.array` would import pandas, a fifth of a second."""
    import pyarrow as pa

    kind, buffer = pa.from_numpy_dtype(values.dtype), pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer], 0)


def _repeat(text: str, n: int) -> pa.Array:
    """Return an array of `n` equal texts."""
    import pyarrow as pa

    data = text.encode()
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(ends), pa.py_buffer(data * n)], 0)


def write_lists(folder: Path, users: I64, items: I32) -> None:
    """Write recommendation lists in one step.

    Parameters
    ----------
    folder : Path
    users : ndarray of int64, shape (n,)
    items : ndarray of int32, shape (n, length)
        Best first; a list ends before its first negative entry.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    place, rank = np.nonzero(items >= 0)
    columns = [
        users[place].astype(np.int32),
        (rank + 1).astype(np.int32),
        items[place, rank].astype(np.int32),
    ]
    table = pa.Table.from_arrays([_array(column) for column in columns], schema=_list_schema())
    with run_files.open_replacement(folder / run_files.LISTS) as file:
        pq.write_table(table, file, compression="zstd")


def read_by_user(folder: Path, most_rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns user, time, round, metric and value.

    Parameters
    ----------
    folder : Path
    most_rows : int
        The most rows that the run can have: a value of each user in each row of its tables.

    Raises
    ------
    LogError
        If the run has no such file, or it is damaged.
    """
    columns = _read(folder / run_files.BY_USER, parquet_schema(), "evaluate.by_user last or all", most_rows)
    metric = columns["metric"]
    run_files.check_room(folder / run_files.BY_USER, 4 * max(map(len, metric), default=0) * len(metric))
    return {**columns, "metric": metric.astype(str)}


def read_lists(folder: Path, most_rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns user, rank (from 1) and item.

    Parameters
    ----------
    folder : Path
    most_rows : int
        The most rows that the run can have: the requested length of a list for each user.

    Raises
    ------
    LogError
        If the run has no such file, or it is damaged.
    """
    return _read(folder / run_files.LISTS, _list_schema(), "evaluate.keep_lists", most_rows)


def _read(path: Path, schema: pa.Schema, option: str, most_rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a file, which runs with an option have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not os.path.lexists(path):
        raise LogError(
            f"{path.parent} has no {path.name}; expected a run that has ended, with {option}, "
            "of a version that writes this file; simulate it again"
        )
    try:
        with run_files.open_to_read(path) as file:
            reason = f"which is what {most_rows:,} rows need, the most that the run can have"
            table = run_files.read_parquet(path, pq.ParquetFile(file), ROW_BYTES, most_rows, reason)
    except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
        raise LogError(f"cannot read {path}: {error}") from error
    if not table.schema.equals(schema) or any(column.null_count for column in table.columns):
        found = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        expected = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise LogError(f"cannot read {path}: found columns {found}; expected {expected}, without nulls")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    if long := [each for each in set(columns.get("metric", ())) if len(each) > LONGEST_METRIC]:
        raise LogError(
            f"cannot read {path}: found a metric of {len(long[0]):,} characters; the file is damaged"
        )
    return columns
