"""The report of how a file was parsed, for a check by the user, with the section of a scenario."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.data import SPLITS
from gossiprec.data.column_roles import MEANINGS
from gossiprec.data.delimited_text import InteractionTable
from gossiprec.data.file import DelimitedFile
from gossiprec.data.format_detection import CALLED, DetectedFormat
from gossiprec.data.loading import load_and_split, validate_dataset_options
from gossiprec.data.parsed_file import ParsedFile
from gossiprec.data.split_helpers import first_interactions

SHOWN = 3
"""Rows in the report."""
SPLIT: dict[str, Any] = {"name": "last", "test": 0.2}
"""Split of the section; it suits users with any number of items, with or without times."""


def check_file(dataset: DelimitedFile) -> dict[str, Any]:
    """Return how a file was parsed, ready for JSON; ``dataset`` is the section of a scenario.

    Raises
    ------
    DataError
        If it is damaged, or can be parsed in two ways.
    """
    understood, data = dataset.understood, dataset.load(0)
    table, places = understood.table, dataset.options.form == "lists"
    pairs = len(first_interactions(data).users)
    return {
        "file": str(understood.source),
        **_written(understood),
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data.users),
        "repeated_pairs": len(data.users) - pairs,
        **_left_out(table, len(data.users)),
        **({} if places else _spans(table)),
        "first_rows": [
            _row(table, number, dated=not places) for number in range(min(SHOWN, len(table.users)))
        ],
        "notes": _notes(dataset),
        "dataset": dataset_section(dataset),
    }


def dataset_section(dataset: DelimitedFile) -> dict[str, Any]:
    """Return the scenario section ``dataset`` that fixes the detected format of the file."""
    options, how = dataset.options, dataset.understood.how
    said = options.model_dump(mode="json", exclude_defaults=True)
    if how is None:
        said["columns"] = dict(dataset.understood.names)
    else:
        said["delimiter"] = how.layout.delimiter
        if how.layout.encoding != options.encoding:
            said["encoding"] = how.layout.encoding
        if options.form == "lists":
            said["header"] = how.layout.header
            if how.layout.user_delimiter is not None:
                said["user_delimiter"] = how.layout.user_delimiter
        elif how.names and len({*how.names}) == len(how.names):
            named = zip(how.layout.columns, how.names, strict=True)
            said["columns"] = {meaning: name for meaning, name in named if meaning in MEANINGS}
            said.pop("header", None)
        else:
            said |= {"columns": list(how.layout.columns), "header": how.layout.header}
    return {"name": "file", **said, "split": dict(SPLIT)}


def _written(understood: ParsedFile) -> dict[str, Any]:
    """Return the format of the text."""
    how = understood.how
    if how is None:
        skipped = {"skipped_columns": ", ".join(understood.skipped)} if understood.skipped else {}
        return {"format": "Parquet", "columns": dict(understood.names), **skipped}
    if how.layout.columns == ("user", "items"):
        columns = {"user": "the first name of a line", "items": "the other names, in order of time"}
    else:
        columns = _called(how)
    return {
        "encoding": f"{how.layout.encoding}{' with a byte order mark' if how.marked else ''}",
        "delimiter": CALLED.get(how.layout.delimiter, repr(how.layout.delimiter)),
        "header": ", ".join(how.names) if how.names else "none",
        "columns": columns,
        **({"skipped_columns": ", ".join(how.skipped)} if how.skipped else {}),
    }


def _called(how: DetectedFormat) -> dict[str, str]:
    """Return the names of the columns, or their places, by meaning."""
    names = how.names or tuple(f"column {place}" for place in range(1, len(how.layout.columns) + 1))
    columns = dict(zip(how.layout.columns, names, strict=False))
    return {meaning: columns[meaning] for meaning in MEANINGS if meaning in columns}


def _left_out(table: InteractionTable, kept: int) -> dict[str, int]:
    left = len(table.users) - kept
    return {"left_out_by_options": left} if left else {}


def _spans(table: InteractionTable) -> dict[str, str]:
    found = {}
    if table.ratings is not None:
        found["ratings"] = f"{table.ratings.min():g} to {table.ratings.max():g}"
    if table.times is not None:
        known = table.times[table.times >= 0]
        unknown = len(table.times) - len(known)
        span = f"{_date(known.min())} to {_date(known.max())}" if len(known) else "none known"
        found["times"] = span + (f", {unknown} unknown" if unknown and len(known) else "")
    return found


def _row(table: InteractionTable, number: int, *, dated: bool) -> dict[str, Any]:
    """Return a row as it was read."""
    row: dict[str, Any] = {
        "user": table.user_names[table.users[number]],
        "item": table.item_names[table.items[number]],
    }
    if table.ratings is not None:
        row["rating"] = float(table.ratings[number])
    if table.times is not None:
        part = 0.0 if table.fractions is None else float(table.fractions[number])
        row["time"] = _date(table.times[number], part) if dated else int(table.times[number])
    return row


def _date(seconds: np.int64, part: float = 0.0) -> str:
    if seconds < 0:
        return "unknown"
    digits = f"{part:.9f}".rstrip("0")[1:] if part else ""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S") + digits


def _notes(dataset: DelimitedFile) -> list[str]:
    """Return the notes that a user should read before running anything."""
    notes = []
    if dataset.understood.how is not None and not dataset.understood.source.ends_in_a_line():
        notes.append("the last line has no line break; the file may be truncated")
    rule = SPLITS[SPLIT["name"]]
    options = validate_dataset_options(rule.Options, {"test": SPLIT["test"]}, "split last")
    try:
        load_and_split(dataset, rule(options), 1)
    except DataError as error:
        notes.append(f"a run with this file would fail: {error}")
    return notes
