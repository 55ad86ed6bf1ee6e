"""Differences between two folders of results, such as run directories: every file, value by value."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from gossiprec import open_run
from gossiprec.runs import Run

MEASURED = {
    "wall_seconds", "processor_seconds", "node_updates_per_second", "peak_rss_mib", "needed_mib", "seconds",
    "attack_seconds", "checkpoints",
}  # fmt: skip
"""Keys of JSON files with times and sizes on this machine, which are not compared."""
FREE = {"manifest.json", "scenario.yaml", "checkpoints"}
"""Files and folders of which the form may change; the log's digest, which is in the manifest, is compared."""
EVENTS = "events.out.tfevents"
"""Begin of the names of TensorBoard's files; the rest is time, machine and process."""


RENAMED = {
    "findings.csv": (",rankings,", ",cda,"),
    "summary.json": ('"attack": "rankings"', '"attack": "cda"'),
}
"""Intended difference: findings about rankings have the name of their attack, in these scenarios always cda. By file:
what stands in results from before, and what in those of now."""


def compare(old: Path, new: Path) -> dict[str, str]:
    """Return the first difference in each file that differs, by its path in the folders."""
    before, after = compared_files(old), compared_files(new)
    found: dict[str, str | None] = dict.fromkeys(before.keys() ^ after.keys(), "only now")
    found |= dict.fromkeys(before.keys() - after.keys(), "only before")
    for name in before.keys() & after.keys():
        difference = DIFFERENCES.get(Path(name).suffix, text_difference)
        if difference is not log_difference and filecmp.cmp(before[name], after[name], shallow=False):
            continue
        try:
            found[name] = difference(before[name], after[name])
        except Exception as error:  # a file that cannot be read is a difference, too
            found[name] = f"cannot be compared: {type(error).__name__}: {error}"
    return {name: place for name, place in sorted(found.items()) if place}


def compared_files(folder: Path) -> dict[str, Path]:
    """Return the files in a folder, below it too, by their paths in it."""
    found = {}
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if file.is_file() and not FREE.intersection(place.parts):
            is_tracked = file.name.startswith(EVENTS)
            found[str(place.with_name(EVENTS) if is_tracked else place)] = file
    return found


def row_difference(before: Iterable[Any], after: Iterable[Any]) -> str | None:
    """Return the first row that differs; the first row is row 0."""
    pairs = enumerate(zip_longest(before, after))
    return next((f"row {row}: {one!r}, now {two!r}" for row, (one, two) in pairs if one != two), None)


def text_difference(old: Path, new: Path) -> str | None:
    """Return the first line that differs, line ends included."""
    return row_difference(expected_text(old).split("\n"), text_of(new).split("\n"))


def text_of(file: Path) -> str:
    """Return the text of a file; bytes that are no text are escaped."""
    return file.read_bytes().decode("utf-8", "backslashreplace")


def expected_text(old: Path) -> str:
    """Return the text of a file from before, with the intended difference."""
    return text_of(old).replace(*RENAMED.get(old.name, ("", "")))


def json_difference(old: Path, new: Path) -> str | None:
    """Return the first value that differs, by key path; measured ones and the order of keys are not compared."""
    before, after = (dict(values(json.loads(text))) for text in (expected_text(old), text_of(new)))
    for key in [*before, *(key for key in after if key not in before)]:
        if before.get(key) != after.get(key):
            return f"{key}: {before.get(key, 'missing')}, now {after.get(key, 'missing')}"
    return None


def values(plain: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the compared values of plain data as text, by key path; an empty list or mapping is a value."""
    if not isinstance(plain, dict | list) or not plain:
        yield path, repr(plain)
        return
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        if key not in MEASURED:
            yield from values(value, f"{path}.{key}" if path else str(key))


def log_difference(old: Path, new: Path) -> str | None:
    """Return the first row that differs in each kind of event, or that only the digests do."""
    one, two = open_run(old.parent), open_run(new.parent)
    is_same = one.manifest["log_digest"] == two.manifest["log_digest"]
    if is_same and old.read_bytes() == new.read_bytes():
        return None
    kinds = sorted({*one.log.kinds, *two.log.kinds})
    rows = {kind: row_difference(events(one, kind), events(two, kind)) for kind in kinds}
    said = "; ".join(f"{kind} {place}" for kind, place in rows.items() if place)
    return said or (None if is_same else "digests differ, rows do not")


def events(run: Run, kind: str) -> Iterator[str]:
    """Yield the rows of a kind of event as text."""
    columns = run.events(kind) if kind in run.log.kinds else {}
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield str(dict(zip(columns, row, strict=True)))


def array_difference(old: Path, new: Path) -> str | None:
    """Return the first array that differs, in its type or its bytes."""
    with np.load(old) as before, np.load(new) as after:
        for key in sorted({*before.files, *after.files}):
            if key not in before.files or key not in after.files:
                return f"{key}: only {'before' if key in before.files else 'now'}"
            a, b = before[key], after[key]
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                return f"{key}: {a.dtype} {a.shape}, now {b.dtype} {b.shape}"
            if a.tobytes() != b.tobytes():
                place = next(k for k in range(a.size) if a.flat[k].tobytes() != b.flat[k].tobytes())
                return f"{key} entry {place}: {a.flat[place]!r}, now {b.flat[place]!r}"
    return None


def table_difference(old: Path, new: Path) -> str | None:
    """Return the first column that differs, in its type or in a value."""
    before, after = pq.read_table(old), pq.read_table(new)
    types = [{field.name: str(field.type) for field in table.schema} for table in (before, after)]
    if list(types[0].items()) != list(types[1].items()):
        return f"columns {types[0]}, now {types[1]}"
    for name in types[0]:
        place = row_difference(*(map(repr, table[name].to_pylist()) for table in (before, after)))
        if place:
            return f"{name} {place}"
    return None


def curve_difference(old: Path, new: Path) -> str | None:
    """Return the first point that differs in files of TensorBoard; their times are not compared."""
    return row_difference(points(old), points(new))


def points(file: Path) -> Iterator[tuple[int, str, float]]:
    """Yield round, name and value of each point in a file of TensorBoard."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    for record in RawEventFileLoader(str(file)).Load():
        event = Event.FromString(record)
        for value in event.summary.value:
            yield event.step, value.tag, value.simple_value


DIFFERENCES: dict[str, Callable[[Path, Path], str | None]] = {
    ".mplog": log_difference,
    ".npz": array_difference,
    ".parquet": table_difference,
    ".json": json_difference,
    ".tfevents": curve_difference,
}
"""How files are compared, by suffix; others line by line."""
