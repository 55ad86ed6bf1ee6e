"""The writer of a study's table as Parquet and CSV, with the same bytes for the same rows."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gossiprec.base.spreadsheet import safe_cell, safe_rows
from gossiprec.runs.run_files import open_replacement, replace_file
from gossiprec.study.table_rows import Row

PARQUET, CSV = "table.parquet", "table.csv"

_TEXT, _WHOLE, _NUMBER = "string", "int64", "float64"
_KINDS = {
    "seed": _WHOLE,
    "run": _TEXT,
    "measure": _TEXT,
    "observer": _TEXT,
    "relevance": _TEXT,
    "momentum": _NUMBER,
    "community_size": _WHOLE,
    "value": _NUMBER,
    "status": _TEXT,
    "code": _TEXT,
}


def axis_type(labels: Sequence[Any]) -> str:
    """Return the type of an axis column: whole numbers, numbers, booleans, or else text."""
    known = [label for label in labels if label is not None]
    if known and all(isinstance(label, bool) for label in known):
        return "bool"
    if any(isinstance(label, bool | str) for label in known) or not known:
        return _TEXT
    if all(isinstance(label, int) and abs(label) < 2**63 for label in known):
        return _WHOLE
    return _NUMBER


def write_study_table(folder: Path, rows: Sequence[Row], axes: dict[str, str]) -> None:
    """Write both files, each in one step.

    Parameters
    ----------
    folder : Path
    rows : sequence of Row
        Rows in the order of the table; unknown values are None.
    axes : dict of str to str
        The columns of the axes and their types.

    Notes
    -----
    Labels without a column of their own are in the last column, ``labels``, if there are any.

    Raises
    ------
    ResourceError
        If a file cannot be written; it is then unchanged.
    """
    kinds = {**axes, **_KINDS}
    if any("labels" in row for row in rows):
        kinds["labels"] = _TEXT
    columns = {name: [_cell(row.get(name), kind) for row in rows] for name, kind in kinds.items()}
    _write_parquet(folder / PARQUET, columns, kinds)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(safe_rows([columns]))
    writer.writerows(
        [_words(value) if isinstance(value, bool) else safe_cell(value) for value in row]
        for row in zip(*columns.values(), strict=True)
    )
    replace_file(folder / CSV, text.getvalue().encode())


def _cell(value: Any, kind: str) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if kind == _TEXT:
        return value if isinstance(value, str) else _words(value)
    return float(value) if kind == _NUMBER else value


def _words(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_parquet(path: Path, columns: dict[str, list[Any]], kinds: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {_TEXT: pa.string(), _WHOLE: pa.int64(), _NUMBER: pa.float64(), "bool": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    table = pa.table(
        {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}, schema
    )
    with open_replacement(path) as file:
        pq.write_table(table, file, compression="zstd")
