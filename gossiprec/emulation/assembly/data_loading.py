"""Loading the files that a scenario names: its data and their sizes, and small files of numbers such as delays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError, GossipRecError, ScenarioError
from gossiprec.base.features import FeatureFiles
from gossiprec.base.inputs import changed_files, no_such_file, note_input, open_regular_file
from gossiprec.data import DATASETS, load_split
from gossiprec.data.sources import FileSource
from gossiprec.data.split import Split, data_fingerprint
from gossiprec.measures.selectors import read_metric
from gossiprec.models import MODELS
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import ACTIVITY, POPULARITY

if TYPE_CHECKING:
    from gossiprec.data.text_blocks import TextFormat


MAX_SAMPLE = 40_000
"""Interactions that are drawn to estimate the items per user, which takes 0.2 s."""
MIN_USERS = 50
BYTES_TO_DRAW, MORE_TO_DRAW = 160, 105
"""Peak memory in bytes that drawing an interaction takes, of the first :data:`SMALL_DRAWS` and of all others."""
SMALL_DRAWS = 2**20
"""Interactions of which a process keeps the memory of drawing; it gives back that of larger arrays."""


def drawing_bytes(n_interactions: int) -> int:
    """Return the peak memory of drawing interactions and splitting them, in bytes."""
    few = min(n_interactions, SMALL_DRAWS)
    return BYTES_TO_DRAW * few + MORE_TO_DRAW * (n_interactions - few)


@dataclass(frozen=True)
class DataSizes:
    """Sizes of data, and a split that shows the items per user.

    Attributes
    ----------
    split : Split
        The data or, if they were not drawn, a smaller similar set.
    n_users, n_interactions : int
        Sizes of the data themselves; the number of interactions is an estimate if they were not sizes.
    whole : bool
        Whether `split` is all of the data.
    bytes_to_draw : int
        Peak memory of drawing the data; 0 if they are loaded already.
    """

    split: Split
    n_users: int
    n_interactions: int
    whole: bool
    bytes_to_draw: int = 0

    @classmethod
    def of(cls, split: Split) -> DataSizes:
        """Return the sizes of loaded data."""
        return cls(split, split.n_users, split.n_interactions, whole=True)


MAX_BYTES = 2**30
"""Largest size of a file of numbers."""


def load_data(scenario: Scenario) -> Split:
    """Return the scenario's data, split into parts.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    choice = scenario.dataset
    features = FeatureFiles(choice.user_features, choice.item_features) if needs_features(scenario) else None
    return load_split(
        choice.name, choice.options, choice.split.name, choice.split.options, scenario.seed,
        limit_users=choice.limit_users, features=features, without=choice.without,
    )  # fmt: skip


def data_sizes(scenario: Scenario) -> DataSizes:
    """Return the sizes of the scenario's data, which are read, or generated if that is quick.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    return estimated_data_sizes(scenario) or DataSizes.of(load_data(scenario))


def estimated_data_sizes(scenario: Scenario) -> DataSizes | None:
    """Return the sizes of the scenario's data if drawing them takes long.

    The result is None if the data are read from a file, are small enough to be drawn at once, or have attributes.

    Raises
    ------
    ScenarioError, DataError
        On the conditions of :func:`~gossiprec.data.load_split`.
    """
    choice = scenario.dataset
    most, full = choice.limit_users or 0, DATASETS[choice.name](choice.options).synthetic_sizes
    if full is None or full.n_interactions <= MAX_SAMPLE or most > full.n_users or needs_features(scenario):
        return None
    share = MAX_SAMPLE / full.n_interactions
    few = full.like(min(full.n_users, max(MIN_USERS, round(share * full.n_users))))
    split = load_split(choice.name, few, choice.split.name, choice.split.options, scenario.seed)
    n_users = min(full.n_users, most or full.n_users)
    each = split.n_interactions / split.n_users
    to_draw = drawing_bytes(full.n_interactions)
    return DataSizes(split, n_users, round(each * n_users), whole=False, bytes_to_draw=to_draw)


def reads_files(scenario: Scenario) -> bool:
    """Return whether the scenario's data come from files, which may change."""
    choice = scenario.dataset
    options = [*vars(choice.options).values(), *vars(choice.split.options).values()]
    tables = (choice.user_features, choice.item_features)
    return any(isinstance(option, Path) for option in options) or any(table is not None for table in tables)


def changed_since(scenario: Scenario, manifest: Mapping[str, Any]) -> str | None:
    """Return a description of the input files that changed since a run, or None; missing files do not count.

    Parameters
    ----------
    scenario : Scenario
    manifest : mapping
        The manifest of the run. Earlier versions wrote only the fingerprint of the data.
    """
    changed = changed_files(manifest["inputs"])
    if changed and reads_files(scenario):
        with suppress(GossipRecError):
            old, new = str(manifest["data"]["fingerprint"]), data_fingerprint(load_data(scenario))
            if new != old:
                return f"fingerprint {old} then, {new} now"
    return f"{', '.join(changed)} changed" if changed else None


def needs_features(scenario: Scenario) -> bool:
    """Return whether a run needs the attributes of users and items."""
    choice, evaluate = scenario.dataset, scenario.evaluate
    named = choice.user_features is not None or choice.item_features is not None
    by_column = any(group.by not in (ACTIVITY, POPULARITY) for group in evaluate.group_choices)
    measures = (read_metric(metric).measure for metric in evaluate.metrics)
    return (
        named
        or by_column
        or MODELS[scenario.model.name].needs_features
        or any(measure.needs_features for measure in measures)
        or any(ATTACKS[choice.name].needs_features for choice in (*scenario.observers, *scenario.adversaries))
    )


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
        from gossiprec.data.column_parsers import shorten  # pyarrow, which few runs need

        held = shorten(", ".join(names), 400)
        raise ScenarioError(f"{key}: {path} has no column {column!r}; it has: {held or 'none'}")
    allowed = f"a finite number, {'above 0' if positive else '0 or more'}"

    def accept(values: F64) -> Bools:
        return np.isfinite(values) & (values > 0 if positive else values >= 0)

    return _columns(path, key, names, [column or "number"], allowed, accept, header=column is not None)[:, 0]


def read_sites(path: str, key: str, *, fill: bool) -> F64:
    """Return a square matrix of non-negative numbers, of any size, from a .npy or .csv file.

    Parameters
    ----------
    path, key : str
    fill : bool
        Whether to fill in cells that are negative or NaN: with the cell of the opposite direction, or else with the
        median of the known cells of the row.

    Raises
    ------
    ScenarioError
        If the file cannot be read, is not square, or has a cell that is no such number.
    """
    matrix, layout = _read_table(path, key)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        found = " x ".join(map(str, matrix.shape)) or "one number"
        raise ScenarioError(
            f"{key}: {path} is {found}; expected as many columns as rows: the sites of senders by those of receivers"
        )
    known = np.isfinite(matrix) & (matrix >= 0.0)
    if fill:
        matrix = np.where(~known & known.T, matrix.T, matrix)
        known |= known.T
        rows = np.flatnonzero(known.any(axis=1) & ~known.all(axis=1))
        for row in rows.tolist():
            matrix[row, ~known[row]] = np.median(matrix[row, known[row]])
        known[rows] = True
    if not known.all():
        row, column = np.argwhere(~known)[0].tolist()
        place = f"row {row + 1}" if layout is None else f"line {_line_of_row(path, layout, row)}"
        step = "remove this site" if fill else "correct it, or set missing: fill"
        raise ScenarioError(
            f"{key}: {path}: {place}, column {column + 1}: found {matrix[row, column]:g}; expected a finite number, "
            f"0 or more; {step}"
        )
    return matrix


def _read_table(path: str, key: str) -> tuple[F64, TextFormat | None]:
    """Return the numbers of a .npy or .csv file, and the format of the latter."""
    from gossiprec.data.text_blocks import TextFormat  # pyarrow, which few runs need

    if path.endswith(".npy"):
        return _read_array(path, key), None
    names = tuple(map(str, range(1, len(_first_cells(path, key)) + 1)))

    def accept(values: F64) -> Bools:
        return np.ones(len(values), np.bool_)

    matrix = _columns(path, key, names, names, "a number", accept, header=False)
    return matrix, TextFormat(names, ",", quote='"')


def read_matrix(path: str, key: str, n: int) -> F64:
    """Return an n x n matrix of non-negative numbers from a .npy or .csv file; the diagonal becomes 0.

    Raises
    ------
    ScenarioError
        If the file cannot be read, or does not hold such a matrix.
    """
    matrix, _ = _read_table(path, key)
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


def _read_array(path: str, key: str) -> F64:
    with _about(key):
        _check_regular(path)
    note_input(path)
    try:
        # mapped, it takes no more memory than the size of the file, whatever its header claims
        raw = np.load(path, allow_pickle=False, mmap_mode="r")
    except FileNotFoundError as error:
        raise ScenarioError(f"{key}: {path}: {no_such_file(Path(path))}") from error
    except (OSError, ValueError, EOFError) as error:
        raise ScenarioError(f"{key}: cannot read {path}: {error}") from error
    if raw.dtype.kind not in "fiu":
        raise ScenarioError(f"{key}: {path} holds {raw.dtype}; expected numbers")
    return np.array(raw, np.float64)


def _check_regular(path: str) -> None:
    """Refuse a path that is not a file, or a file that is too large; a missing file fails when it is read."""
    with suppress(OSError):
        open_regular_file(path, most_bytes=MAX_BYTES).close()


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
            f"{key}: {path} has the header {','.join(header)[:200] or 'nothing'!r}; expected {allowed}"
        )
    return header, _columns(path, key, header, header, "a finite number", np.isfinite, header=True)


def line_of_record(path: str, header: tuple[str, ...], row: int) -> int:
    """Return the number of the line of a row that :func:`read_csv_records` returned."""
    from gossiprec.data.text_blocks import TextFormat  # pyarrow, which few runs need

    return _line_of_row(path, TextFormat(header, ",", header=True, quote='"'), row)


def _line_of_row(path: str, layout: TextFormat, row: int) -> int:
    from gossiprec.data.text_blocks import find_line_of_row

    return find_line_of_row(FileSource(Path(path)), layout, row)


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
    from gossiprec.data.delimited_text import read_first_row  # pyarrow, which few runs need
    from gossiprec.data.text_blocks import TextFormat

    with _about(key):
        _check_regular(path)
        cells = read_first_row(FileSource(Path(path)), TextFormat((), ",", quote='"'))
    if cells and cells[0].startswith(("#", "%")):
        raise ScenarioError(
            f"{key}: {path}: line 1: found {cells[0][:1]!r} at its beginning; expected the header or the first row; "
            "remove the sign, or the line if it is a comment"
        )
    for mark, name in (("\t", "tabs"), (";", "semicolons")):
        if any(mark in cell for cell in cells):
            raise ScenarioError(
                f"{key}: {path}: line 1: found {name} between cells; expected commas, and points in decimal numbers; "
                f"replace the {name}"
            )
    if len(cells) == 1 and len(cells[0].split()) > 2:
        raise ScenarioError(
            f"{key}: {path}: line 1: found {len(cells[0].split())} words without a comma; expected commas between "
            "cells; replace the blanks"
        )
    return cells


def _columns(
    path: str,
    key: str,
    names: tuple[str, ...],
    wanted: Sequence[str],
    allowed: str,
    accept: Callable[[F64], Bools],
    *,
    header: bool,
) -> F64:
    """Return some columns of accepted numbers, shape (n_rows, n_columns); `allowed` describes these numbers."""
    from gossiprec.data.column_parsers import number_parser  # pyarrow, which few runs need
    from gossiprec.data.delimited_text import read_columns
    from gossiprec.data.text_blocks import TextFormat

    readers = dict.fromkeys(wanted, number_parser(allowed, accept))
    with _about(key):
        columns = read_columns(FileSource(Path(path)), TextFormat(names, ",", header, quote='"'), readers)
    return np.stack([columns[name] for name in wanted], axis=1)


@contextmanager
def _about(key: str) -> Iterator[None]:
    """Turn an error about a file into an error about the scenario key that names it."""
    try:
        yield
    except DataError as error:
        raise ScenarioError(f"{key}: {error}") from error
