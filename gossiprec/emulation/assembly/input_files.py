"""Small files of numbers that a scenario names: delays, rates, matrices, coordinates, sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.inputs import note_input, open_regular_file
from gossiprec.data.column_parsers import Convert, number_parser
from gossiprec.data.delimited_text import read_columns, read_first_row
from gossiprec.data.sources import FileSource
from gossiprec.data.text_blocks import TextFormat

MAX_BYTES = 2**30
"""Largest size of a file of numbers."""
CSV = TextFormat((), ",", quote='"')


def read_column(path: str, key: str, *, column: str | None = None, positive: bool = False) -> F64:
    """Return the numbers of a text file with one number per line, or of a column of a csv file with a header.

    Raises
    ------
    ScenarioError
        If the file cannot be read, is empty, or holds a cell that is not a finite non-negative number.
    """
    names = _first_cells(path, key)
    if column is None:
        names = ("number", *names[1:])
    elif column not in names:
        raise ScenarioError(f"{key}: {path} has no column {column!r}; it has: {', '.join(names) or 'none'}")
    allowed = f"a finite number, {'above 0' if positive else '0 or more'}"
    read = number_parser(
        allowed, lambda values: np.isfinite(values) & (values > 0 if positive else values >= 0)
    )
    return _columns(path, key, names, {column or "number": read}, header=column is not None)[:, 0]


def read_matrix(path: str, key: str, n: int) -> F64:
    """Return an n x n matrix of non-negative numbers from a .npy or .csv file; the diagonal becomes 0.

    Raises
    ------
    ScenarioError
        If the file cannot be read, or does not hold such a matrix.
    """
    matrix = _array(path, key) if path.endswith(".npy") else _grid(path, key)
    if matrix.shape != (n, n):
        found = " x ".join(map(str, matrix.shape)) or "one number"
        raise ScenarioError(f"{key}: {path} is {found}, must be {n} x {n}: sender by receiver, for {n} nodes")
    np.fill_diagonal(matrix, 0.0)
    bad = ~(np.isfinite(matrix) & (matrix >= 0.0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ScenarioError(
            f"{key}: {path}: row and column {row + 1}, {column + 1}: found {matrix[row, column]:g}, must be "
            "a finite number, 0 or more"
        )
    return matrix


def _array(path: str, key: str) -> F64:
    with _about(key):
        _check_regular(path)
    note_input(path)
    try:
        raw = np.load(
            path, allow_pickle=False, mmap_mode="r"
        )  # no more memory than the size of the file, whatever its header claims
    except (OSError, ValueError, EOFError) as error:
        raise ScenarioError(f"{key}: cannot read {path}: {error}") from error
    if raw.dtype.kind not in "fiu":
        raise ScenarioError(f"{key}: {path} holds {raw.dtype}; expected numbers")
    return np.array(raw, np.float64)


def _check_regular(path: str) -> None:
    """Refuse a path that is not a file, or a file that is too large; a missing file fails when it is read."""
    with suppress(OSError):
        open_regular_file(path, most_bytes=MAX_BYTES).close()


def _grid(path: str, key: str) -> F64:
    names = tuple(map(str, range(1, len(_first_cells(path, key)) + 1)))
    read = number_parser("a number", lambda values: np.ones(len(values), bool))
    return _columns(path, key, names, dict.fromkeys(names, read), header=False)


def read_csv_records(path: str, key: str, headers: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], F64]:
    """Return the header of a csv file, one of those allowed, and its numbers, shape (n_rows, n_columns).

    Raises
    ------
    ScenarioError
        If it has another header, no row, or a cell that is not a finite number.
    """
    header = _first_cells(path, key)
    if header not in headers:
        allowed = " or ".join(",".join(names) for names in headers)
        raise ScenarioError(
            f"{key}: {path} has the header {','.join(header) or 'nothing'!r}; expected {allowed}"
        )
    read = number_parser("a finite number", np.isfinite)
    return header, _columns(path, key, header, dict.fromkeys(header, read), header=True)


def check_node_ids(values: F64, path: str, key: str, n_users: int) -> I64:
    """Return a column of node ids.

    Raises
    ------
    ScenarioError
        If a value is not a node id.
    """
    bad = ~((values >= 0) & (values < n_users) & (values == np.floor(values)))
    if bad.any():
        found = values[bad][0]
        raise ScenarioError(f"{key}: {path}: found node {found:g}; expected 0 to {n_users - 1}")
    return values.astype(np.int64)


def _first_cells(path: str, key: str) -> tuple[str, ...]:
    with _about(key):
        _check_regular(path)
        return read_first_row(FileSource(Path(path)), CSV)


def _columns(
    path: str, key: str, names: tuple[str, ...], readers: Mapping[str, Convert], *, header: bool
) -> F64:
    """Return the columns that have a reader, stacked into shape (n_rows, n_columns)."""
    with _about(key):
        found = read_columns(FileSource(Path(path)), TextFormat(names, ",", header, quote='"'), readers)
    return np.stack([found[name] for name in readers], axis=1)


@contextmanager
def _about(key: str) -> Iterator[None]:
    """Turn an error about a file into an error about the scenario key that names it."""
    try:
        yield
    except DataError as error:
        raise ScenarioError(f"{key}: {error}") from error
