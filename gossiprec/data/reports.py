"""Reports on data for a user: statistics of a data set, and how a file was parsed.

The statistics are pure functions on arrays: sizes, inequality, similarity of users, and distances.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64
from gossiprec.base.errors import DataError
from gossiprec.base.geodesy import first_off_globe, great_circle_km
from gossiprec.base.ragged import Ragged
from gossiprec.data import SPLITS
from gossiprec.data.check_ins import SortedCheckIns
from gossiprec.data.delimited_text import InteractionTable
from gossiprec.data.file import DelimitedFile
from gossiprec.data.format_detection import DELIMITER_NAMES, MEANINGS
from gossiprec.data.loading import load_and_split, validate_dataset_options
from gossiprec.data.parsed_file import ParsedFile
from gossiprec.data.split import CheckIns, Interactions, Split, first_interactions
from gossiprec.measures.communities import jaccard_blocks

COMPARED_USERS = 5000
"""Number of users up to which each is compared with all others; of more users, `SAMPLED_USERS` are."""

SAMPLED_USERS = 500
NEIGHBOURS = 50
"""Community size of the community-detection work."""


def describe_interactions(data: Split | Interactions) -> dict[str, Any]:
    """Return the statistics of a data set, ready for JSON.

    Repeated (user, item) pairs count once. `mean_top50_jaccard` uses the training items of a split, or all
    items of interactions.
    """
    if isinstance(data, Split):
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        sizes = {f"{part}_interactions": int(sets.offsets[-1]) for part, sets in parts.items()}
        users = data.train.sizes + data.validation.sizes + data.test.sizes
        items = sum(np.bincount(sets.values, minlength=data.n_items) for sets in parts.values())
        known = data.train
    else:
        known = Ragged.sets_from_pairs(data.users, data.items, data.n_users)
        sizes, users, items = {}, known.sizes, np.bincount(known.values, minlength=data.n_items)
    return {
        "name": data.name,
        "users": data.n_users,
        "items": data.n_items,
        "interactions": int(users.sum()),
        **sizes,
        "density": float(users.sum() / (data.n_users * data.n_items)),
        "gini_items": gini(items),
        "gini_users": gini(users),
        "min_per_user": int(users.min()),
        "median_per_user": float(np.median(users)),
        "max_per_user": int(users.max()),
        f"mean_top{NEIGHBOURS}_jaccard": float(top_jaccard(known, data.n_items).mean()),
    }


def describe_check_ins(data: Interactions, split: Split | None = None) -> dict[str, Any]:
    """Return the statistics of check-ins, ready for JSON; transitions of a split are its training moves.

    The median of an empty list is None. `test_with_previous` is the share of test items with a known previous place.
    """
    visits = SortedCheckIns.of(data)
    found = {"check_ins": len(data.users), "share_timed": float(visits.timed.mean())}
    if split is not None and split.check_ins is not None:
        train, test = split.check_ins.train, split.check_ins.test
        gaps, steps = train.gap_minutes[train.previous >= 0], move_lengths_km(split.check_ins)
        more = {"test_with_previous": float((test.previous >= 0).mean())} if len(test.previous) else {}
    else:
        places = np.empty((data.n_items, 2)) if data.coordinates is None else data.coordinates
        rows = np.flatnonzero(visits.follows)
        gaps, more = visits.gap_minutes[rows], {}
        steps = pairwise_distances_km(places[visits.items[rows - 1]], places[visits.items[rows]])
    return {
        **found,
        "transitions": len(gaps),
        "median_gap_minutes": float(np.median(gaps)) if len(gaps) else None,
        "median_step_km": float(np.median(steps)) if len(steps) else None,
        **more,
    }


def gini(values: npt.ArrayLike) -> float:
    """Return the Gini coefficient: 0 if all are equal, ``(n - 1) / n`` if one has everything.

    Parameters
    ----------
    values : array_like, shape (n,)
        Non-negative amounts. No values, or only zeros, count as equal.

    Raises
    ------
    ValueError
        If a value is negative or not a number.
    """
    amounts = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not np.all(amounts >= 0):
        raise ValueError("gini: found a negative amount or NaN; expected amounts of at least 0")
    n, total = amounts.size, amounts.sum()
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ amounts / (n * total))


def top_jaccard(sets: Ragged, n_items: int, k: int = NEIGHBOURS) -> F64:
    """Return each user's mean Jaccard index with the `k` most similar other users.

    Parameters
    ----------
    sets : Ragged
    n_items : int
    k : int
        Maximum number; if there are fewer other users, all of them count.

    Returns
    -------
    ndarray of float64, shape (n_users,)
        For more than `COMPARED_USERS` users, the values of `SAMPLED_USERS` evenly spaced ones.
    """
    n_users = len(sets)
    k = min(k, n_users - 1)
    if k < 1:
        return np.zeros(n_users)
    chosen = np.arange(n_users)
    if n_users > COMPARED_USERS:
        chosen = np.linspace(0, n_users - 1, SAMPLED_USERS).astype(np.int64)
    blocks = jaccard_blocks(sets, chosen, n_items=n_items)
    return np.concatenate([np.partition(block, -k, axis=1)[:, -k:].mean(axis=1) for block in blocks])


def pairwise_distances_km(here: F64, there: F64) -> F64:
    """Return the great-circle distance of each pair of places.

    Parameters
    ----------
    here, there : ndarray, shape (n, 2)
        Latitude and longitude in degrees.

    Returns
    -------
    ndarray of float64, shape (n,)
        Kilometres on a sphere of the Earth's mean radius, 6,371.0088 km (the published work uses about 6,378).

    Raises
    ------
    DataError
        If a place is not on the globe.
    """
    for places in (here, there):
        row = first_off_globe(places)
        if row is not None:
            raise DataError(
                f"place {row}: found latitude {places[row, 0]}, longitude {places[row, 1]}; "
                "expected -90 to 90 and -180 to 180 degrees"
            )
    return great_circle_km(here, there)


def move_lengths_km(check_ins: CheckIns) -> F64:
    """Return the lengths of the training moves with a known previous place, in order."""
    moves = check_ins.train
    known = moves.previous >= 0
    places = check_ins.coordinates
    return pairwise_distances_km(places[moves.previous[known]], places[moves.items.values[known]])


PREVIEW_ROWS = 3
"""Rows in the report."""
SPLIT: dict[str, Any] = {"name": "last", "test": 0.2}
"""Split of the section; it suits users with any number of items, with or without times."""


def describe_parsed_file(dataset: DelimitedFile) -> dict[str, Any]:
    """Return how a file was parsed, ready for JSON; ``dataset`` is the section of a scenario.

    Raises
    ------
    DataError
        If it is damaged, or can be parsed in two ways.
    """
    understood, data = dataset.parsed_file, dataset.load(0)
    table, places = understood.table, dataset.options.form == "lists"
    pairs, left = len(first_interactions(data).users), len(table.users) - len(data.users)
    return {
        "file": str(understood.source),
        **_written(understood),
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data.users),
        "repeated_pairs": len(data.users) - pairs,
        **({"left_out_by_options": left} if left else {}),
        **({} if places else _spans(table)),
        "first_rows": [
            _row(table, number, dated=not places) for number in range(min(PREVIEW_ROWS, len(table.users)))
        ],
        "notes": _notes(dataset),
        "dataset": dataset_section(dataset),
    }


def dataset_section(dataset: DelimitedFile) -> dict[str, Any]:
    """Return the scenario section ``dataset`` that fixes the detected format of the file."""
    options, how = dataset.options, dataset.parsed_file.how
    said = options.model_dump(mode="json", exclude_defaults=True)
    if how is None:
        said["columns"] = dict(dataset.parsed_file.names)
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
        called = dict(how.columns)
        columns = {meaning: called[meaning] for meaning in MEANINGS if meaning in called}
    return {
        "encoding": f"{how.layout.encoding}{' with a byte order mark' if how.marked else ''}",
        "delimiter": DELIMITER_NAMES.get(how.layout.delimiter, repr(how.layout.delimiter)),
        "header": ", ".join(how.names) if how.names else "none",
        "columns": columns,
        **({"skipped_columns": ", ".join(how.skipped)} if how.skipped else {}),
    }


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
    if dataset.parsed_file.is_cut:
        notes.append("the last line has no line break; the file may be truncated")
    rule = SPLITS[SPLIT["name"]]
    options = validate_dataset_options(rule.Options, {"test": SPLIT["test"]}, "split last")
    try:
        load_and_split(dataset, rule(options), 1)
    except DataError as error:
        notes.append(f"a run with this file would fail: {error}")
    return notes
