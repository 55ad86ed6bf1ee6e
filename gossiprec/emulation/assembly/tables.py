"""Small files of numbers that a scenario names: delays, rates, matrices, coordinates, sessions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.errors import ScenarioError


def _rows(path: str, key: str) -> list[tuple[int, list[str]]]:
    """Return the cells of a csv file with their line numbers, without empty lines."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{key}: cannot read {path}: {error}") from error


def _number(cell: str, path: str, line: int, key: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ScenarioError(f"{key}: {path}, line {line}: found {cell[:40]!r}, must be a number") from None


def _checked(values: F64, what: str, path: str, key: str, *, positive: bool = False) -> F64:
    """Refuse what is not a finite number, negative, or (if it must be positive) zero."""
    bad = ~np.isfinite(values) | (values < 0.0) | (positive & (values == 0.0))
    if bad.any():
        place = ", ".join(str(k + 1) for k in np.argwhere(bad)[0])
        found, least = values[bad].flat[0], "above 0" if positive else "0 or more"
        raise ScenarioError(
            f"{key}: {path}: {what} {place}: found {found:g}, must be a finite number, {least}"
        )
    return values


def read_column(path: str, key: str, *, column: str | None = None, positive: bool = False) -> F64:
    """Return the numbers of a text file: one a line, or a column of a csv file that has a header.

    Raises
    ------
    ScenarioError
        If the file cannot be read, is empty, or holds what is not a number, not finite, or negative.
    """
    rows = _rows(path, key)
    at = 0
    if column is not None:
        header = rows[0][1] if rows else []
        if column not in header:
            raise ScenarioError(
                f"{key}: {path} has no column {column!r}; it has: {', '.join(header) or 'none'}"
            )
        at, rows = header.index(column), rows[1:]
    if not rows:
        raise ScenarioError(f"{key}: {path} holds no number, must hold at least one a line")
    short = [line for line, cells in rows if len(cells) <= at]
    if short:
        raise ScenarioError(f"{key}: {path}, line {short[0]}: found no value in column {column!r}")
    values = np.array([_number(cells[at], path, line, key) for line, cells in rows])
    return _checked(values, "value", path, key, positive=positive)


def read_matrix(path: str, key: str, n: int) -> F64:
    """Return an n x n matrix of non-negative numbers from a .npy or .csv file; the diagonal becomes 0.

    Raises
    ------
    ScenarioError
        If the file cannot be read, or does not hold such a matrix.
    """
    if path.endswith(".npy"):
        try:
            raw = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ScenarioError(f"{key}: cannot read {path}: {error}") from error
        if raw.dtype.kind not in "fiu":
            raise ScenarioError(f"{key}: {path} holds {raw.dtype}, must hold numbers")
        matrix = raw.astype(np.float64)
    else:
        rows = _rows(path, key)
        uneven = [line for line, cells in rows if len(cells) != len(rows[0][1])]
        if uneven:
            raise ScenarioError(
                f"{key}: {path}, line {uneven[0]}: has another number of values than the first"
            )
        matrix = np.array([[_number(cell, path, line, key) for cell in cells] for line, cells in rows])
    if matrix.shape != (n, n):
        found = " x ".join(map(str, matrix.shape)) or "one number"
        raise ScenarioError(f"{key}: {path} is {found}, must be {n} x {n}: sender by receiver, for {n} nodes")
    np.fill_diagonal(matrix, 0.0)
    return _checked(matrix, "row and column", path, key)


def read_records(path: str, key: str, headers: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], F64]:
    """Return which of the allowed headers a csv file has, and its numbers, shape (n_rows, n_columns).

    Raises
    ------
    ScenarioError
    """
    rows = _rows(path, key)
    header = tuple(rows[0][1]) if rows else ()
    if header not in headers:
        allowed = " or ".join(",".join(names) for names in headers)
        raise ScenarioError(
            f"{key}: {path} has the header {','.join(header) or 'nothing'!r}, must have {allowed}"
        )
    wrong = [line for line, cells in rows[1:] if len(cells) != len(header)]
    if wrong:
        raise ScenarioError(f"{key}: {path}, line {wrong[0]}: must have {len(header)} values")
    numbers = [[_number(cell, path, line, key) for cell in cells] for line, cells in rows[1:]]
    return header, np.array(numbers, np.float64).reshape(-1, len(header))


def node_ids(values: F64, path: str, key: str, n_users: int) -> I64:
    """Return a column of node ids.

    Raises
    ------
    ScenarioError
        If one is no node.
    """
    bad = ~((values >= 0) & (values < n_users) & (values == np.floor(values)))
    if bad.any():
        found = values[bad][0]
        raise ScenarioError(f"{key}: {path}: found node {found:g}, but nodes are numbered 0 to {n_users - 1}")
    return values.astype(np.int64)
