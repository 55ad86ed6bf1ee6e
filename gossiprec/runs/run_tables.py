"""The tables of a run, as CSV files to which rows are appended tick by tick, and its archives of arrays (npz).

Spreadsheet programs read some text cells as formulas; :func:`plain_cells` escapes these on request.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.errors import LogError
from gossiprec.runs import run_files

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters that spreadsheet programs read as the beginning of a formula, or skip before one."""

_is_requested: ContextVar[bool] = ContextVar("_is_requested", default=False)


@contextmanager
def plain_cells() -> Iterator[None]:
    """Write text that would be a formula with a quotation mark before it, while the body runs in this thread."""
    token = _is_requested.set(True)
    try:
        yield
    finally:
        _is_requested.reset(token)


def safe_cell(cell: Any) -> Any:
    """Return the text to write for a cell; numbers, and text that is a number such as ``-0.5``, stay unchanged."""
    if not (isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and _is_requested.get()):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def safe_rows(rows: Iterable[Iterable[Any]]) -> Iterator[list[Any]]:
    """Yield rows with each cell passed through :func:`safe_cell`."""
    for row in rows:
        yield [safe_cell(cell) for cell in row]


Quoting = Literal[0, 2]
"""``csv.QUOTE_MINIMAL`` or ``csv.QUOTE_NONNUMERIC``."""


@dataclass(frozen=True)
class TableSchema:
    """A table's file name and its columns with their types (float, int or str)."""

    file: str
    columns: Mapping[str, type[float] | type[int] | type[str]]


METRICS = TableSchema(run_files.METRICS, {"time": float, "round": int, "metric": str, "value": float})
ATTACKS = TableSchema(
    run_files.ATTACKS,
    {
        "observer": str,
        "relevance": str,
        "momentum": float,
        "community_size": int,
        "time": float,
        "round": int,
        "aac": float,
        "best10_min": float,
        "best10_mean": float,
        "upper_bound": float,
        "random_bound": float,
    },
)
FINDINGS = TableSchema(
    run_files.FINDINGS,
    {"time": float, "round": int, "attack": str, "measure": str, "labels": str, "value": float},
)
USERS = TableSchema(run_files.USERS, {"node": int, "name": str})
ITEMS = TableSchema(run_files.ITEMS, {"item": int, "name": str})
POSITIONS = TableSchema(run_files.POSITIONS, {"node": int, "measure": str, "value": float})


def labels_to_json(labels: Mapping[str, Any]) -> str:
    """Return labels as one line of text; equal labels give equal text."""
    return json.dumps(labels, sort_keys=True, ensure_ascii=False, allow_nan=False)


class TableWriter:
    """The writer of a table in a run directory; each append reaches the file before it returns.

    Floats are written as their shortest exact decimal (``repr``); unknown values are given as None or NaN.

    Parameters
    ----------
    folder : Path
    table : TableSchema
    content : bytes, optional
        Present content of the table; only the header if left out.
    """

    def __init__(self, folder: Path, table: TableSchema, *, content: bytes | None = None) -> None:
        self.path, self.table = folder / table.file, table
        run_files.replace_file(self.path, _lines([list(table.columns)]) if content is None else content)
        with run_files.wrap_write_errors(self.path):
            self._file = FileIO(run_files.open_regular(self.path, os.O_WRONLY | os.O_APPEND), "ab")

    def length_and_crc(self) -> list[int]:
        """Return the table's length in bytes and the CRC-32 of its content."""
        content = run_files.read_regular(self.path)
        return [len(content), zlib.crc32(content)]

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows: each a mapping with exactly the table's columns.

        Raises
        ------
        ValueError
            If a row has other columns, or a value is not of its column's type.
        ResourceError
            If they cannot be written; the table is then unchanged.
        """
        content = _lines([self._row(row) for row in rows])
        with run_files.wrap_write_errors(self.path):
            before = os.fstat(self._file.fileno()).st_size
            try:
                run_files.write_all(self._file, content)
            except OSError:
                self._file.truncate(before)
                raise

    def close(self) -> None:
        """Close the file; later calls do nothing."""
        self._file.close()

    def _row(self, row: Mapping[str, Any]) -> list[float | int | str]:
        if set(row) != set(self.table.columns):
            raise ValueError(f"{self.table.file} has columns {list(self.table.columns)}; found {list(row)}")
        return [_cell(row[name], kind) for name, kind in self.table.columns.items()]


def write_run_table(
    folder: Path, table: TableSchema, columns: Mapping[str, Sequence[Any]], *, quote_text: bool = False
) -> None:
    """Write a whole table in one step.

    Parameters
    ----------
    folder : Path
    table : TableSchema
    columns : mapping of str to sequence
        Of equal length; values already of their column's type.
    quote_text : bool
        Whether all text is quoted; it must be if it may hold line ends.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    rows = zip(*(columns[name] for name in table.columns), strict=True)
    quoting: Quoting = csv.QUOTE_NONNUMERIC if quote_text else csv.QUOTE_MINIMAL
    run_files.replace_file(
        folder / table.file, _lines([list(table.columns)]) + _lines([*safe_rows(rows)], quoting)
    )


def _cell(value: Any, kind: type[float] | type[int] | type[str]) -> float | int | str:
    if kind is float and value is None:
        return float("nan")
    if kind is str and not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    converted = kind(value)
    if kind is int and converted != value:
        raise ValueError(f"{value!r} is not a whole number")
    if isinstance(converted, str) and not converted.isprintable():
        raise ValueError(f"{value!r} does not fit on one line")
    return converted


def _lines(rows: list[list[Any]], quoting: Quoting = csv.QUOTE_MINIMAL) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue().encode()


def read_checked_prefix(folder: Path, table: TableSchema, checked: list[int]) -> bytes:
    """Return the content of a table at the time of :meth:`TableWriter.length_and_crc`, given its length and CRC.

    Raises
    ------
    LogError
        If it has been changed since.
    """
    path, (length, crc) = folder / table.file, checked
    header = _lines([list(table.columns)])
    if [len(header), zlib.crc32(header)] == [length, crc]:
        return header  # it had no rows: no row is lost, whatever the file holds now
    try:
        content = run_files.read_regular(path)[:length]
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror}") from error
    if len(content) != length or zlib.crc32(content) != crc:
        raise LogError(
            f"{path} cannot be continued: its first {length} bytes have changed since they were written"
        )
    return content


ROW_GROWTH = 30
"""Bytes of memory that a byte of a table takes at most while it is read: each short cell becomes an object."""
WORD_GROWTH = 100
"""Bytes of memory that a byte of a table takes at most as text, of which every cell is as wide as the longest one."""


def to_words(path: Path, column: pa.ChunkedArray, file_bytes: int) -> npt.NDArray[Any]:
    """Return a column of text as an array, unless one long cell makes it many times as large as the file.

    Raises
    ------
    LogError
    """
    words: npt.NDArray[Any] = column.to_numpy()
    longest = max(map(len, words), default=0)
    most = WORD_GROWTH * file_bytes + run_files.HEADER_BYTES
    run_files.check_need(path, 4 * longest * len(words), most, f"as a cell has {longest:,} characters")
    return words.astype(str)


def read_run_table(folder: Path, table: TableSchema) -> dict[str, npt.NDArray[Any]]:
    """Return a table's columns as arrays (float64, int64 or str); an unfinished last line is left out.

    Raises
    ------
    LogError
        If the file is missing, lacks a column, or holds a value of another type.
    """
    import pyarrow as pa
    from pyarrow import csv as table_text

    path, types = folder / table.file, {float: pa.float64(), int: pa.int64(), str: pa.string()}
    column_types = {name: types[kind] for name, kind in table.columns.items()}
    try:
        whole_lines = b"".join(run_files.read_regular(path, ROW_GROWTH).rpartition(b"\n")[:2])
        found = table_text.read_csv(
            pa.BufferReader(whole_lines),
            read_options=table_text.ReadOptions(use_threads=False),
            parse_options=table_text.ParseOptions(newlines_in_values=True),
            convert_options=table_text.ConvertOptions(column_types=column_types, null_values=[]),
        )
        names = found.column_names
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise LogError(f"cannot read {path}: {error}") from error
    missing = [name for name in table.columns if name not in names]
    if missing:
        raise LogError(f"{path} lacks the columns {', '.join(missing)}; it has: {', '.join(names)}")
    columns = {
        name: to_words(path, found[name], len(whole_lines))
        if kind is str
        else found[name].to_numpy().astype(kind)
        for name, kind in table.columns.items()
    }
    for name, kind in table.columns.items():
        if kind is float and np.isinf(columns[name]).any() and (name == "time" or b"inf" not in whole_lines):
            raise LogError(
                f"{path}: column {name} holds a number that is too large for a float; expected finite "
                "numbers, or inf; the file is damaged: `gossiprec log verify` compares it with the manifest"
            )
    return columns


Arrays = Mapping[str, npt.NDArray[Any]]


def epsilon_bytes(summary: Mapping[str, Any] | None) -> int:
    """Return the size up to which ``epsilon.npz`` of a run is compressed: matrices of its nodes, and coalitions."""
    n_nodes = int((summary or {}).get("nodes", 0))
    return 64 * (n_nodes + 1) * max(2 * n_nodes, 4_096)


def write_arrays(path: Path, arrays: Arrays, most: int = 0) -> None:
    """Write arrays by name; compress them if they have up to `most` bytes together.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    content = io.BytesIO()
    save = np.savez_compressed if sum(array.nbytes for array in arrays.values()) <= most else np.savez
    save(content, **arrays)  # type: ignore[arg-type]  # the stub takes a key for `allow_pickle`
    run_files.replace_file(path, content.getvalue())


def read_arrays(path: Path, most: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Return arrays by name; an empty mapping if the file does not exist.

    Parameters
    ----------
    path : Path
    most : int
        The same as in :func:`write_arrays`: a larger archive cannot unpack to more than its own size.

    Raises
    ------
    LogError
        If the file is not such an archive, or unpacks to more.
    """
    if not os.path.lexists(path):
        return {}
    try:
        with run_files.open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            most = max(most + run_files.HEADER_BYTES, os.fstat(file.fileno()).st_size)
            run_files.check_need(path, unpacked, most, "as gossiprec does not compress more")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, LookupError, EOFError, NotImplementedError, RuntimeError, MemoryError,
            zipfile.BadZipFile, zlib.error, SyntaxError, TypeError) as error:  # fmt: skip
        raise LogError(f"cannot read {path}: {error}") from error


Accuracies = dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]
"""Attack key to (node ids, accuracies), both of shape (n_adversaries,)."""

_NODES = "/nodes"


def write_adversaries(folder: Path, accuracies: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> None:
    """Write, per attack key, the array ``<key>`` of accuracies (fractions) and ``<key>/nodes`` of node ids.

    Raises
    ------
    ValueError
        If the two arrays of a key differ in length.
    ResourceError
        If the file cannot be written.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for key, (nodes, accuracy) in accuracies.items():
        arrays[key] = np.asarray(accuracy, np.float64)
        arrays[key + _NODES] = np.asarray(nodes, np.int64)
        if arrays[key].ndim != 1 or arrays[key].shape != arrays[key + _NODES].shape:
            raise ValueError(f"{key}: {arrays[key].shape} accuracies for {arrays[key + _NODES].shape} nodes")
    write_arrays(folder / run_files.ADVERSARIES, arrays)


def read_adversaries(folder: Path) -> Accuracies:
    """Return (node ids, accuracies) by attack key; empty if the run wrote none.

    Raises
    ------
    LogError
        If the file is not such an archive.
    """
    arrays = read_arrays(folder / run_files.ADVERSARIES)
    try:
        return {key: (arrays[key + _NODES], arrays[key]) for key in arrays if not key.endswith(_NODES)}
    except KeyError as error:
        raise LogError(f"cannot read {folder / run_files.ADVERSARIES}: it has no {error}") from error


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
