"""Reading attributes of users and items, by their names in the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import I64, Texts
from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureFile, FeatureTable, Kind, LabelColumn, NumberColumn
from gossiprec.base.ragged import Ragged
from gossiprec.data.column_parsers import IdEncoder, TextColumn, shorten
from gossiprec.data.delimited_text import read_columns, read_first_row, require_once
from gossiprec.data.format_detection import COMMENT, DELIMITERS
from gossiprec.data.parsed_file import MISSING
from gossiprec.data.sources import FileSource, open_text_source
from gossiprec.data.text_blocks import TextFormat, find_line_of_row, is_utf8


def read_features(
    source: FileSource,
    layout: TextFormat,
    names: Sequence[str],
    kinds: Mapping[str, Kind],
    *,
    refuse_unlisted: bool = False,
) -> FeatureTable:
    """Return the attributes of users or items; unknown values for those that the source lacks.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
        Its first column holds names.
    names : sequence of str
        Names in the data, by dense id.
    kinds : mapping of str to str
        The columns to read, and their kinds.
    refuse_unlisted : bool
        Whether a line about another name is refused.

    Raises
    ------
    DataError
        If the source is damaged, has two lines for one name, a cell is not of its column's kind, or no name is one of
        the data.
    """
    key = layout.columns[0]
    if is_utf8(source):  # copies of MovieLens are in Latin-1, as published, or in UTF-8
        layout = replace(layout, encoding="utf-8")
    codes = IdEncoder()
    found = read_columns(source, layout, {key: codes.make_parser(key), **dict.fromkeys(kinds, _cells)})
    listed = tuple(codes.ids)
    require_once(source, layout, found[key], listed, f"one line for each {key}")

    def error(row: int, text: str, allowed: str) -> DataError:
        return source.error(find_line_of_row(source, layout, row), text, allowed)

    known = set(names)
    others = [place for place, name in enumerate(listed) if name not in known]
    if len(others) == len(listed):
        raise DataError(
            f"{source}: found attributes of {len(listed)} {key}s, such as {listed[0]!r}; expected those of the data, "
            f"such as {names[0]!r}, at least one; use the file that belongs to the data"
        )
    if others and refuse_unlisted:
        row = int(np.argmax(found[key] == others[0]))
        allowed = f"{key}s of the data; remove such lines, or set unlisted: skip for the table"
        raise error(row, f"{key} {listed[others[0]]!r}", allowed)
    row_of = {listed[code]: row for row, code in enumerate(found[key].tolist())}
    rows = np.array([row_of.get(name, -1) for name in names], np.int64)
    columns = tuple(_column(name, kind, found[name], rows, error) for name, kind in kinds.items())
    return FeatureTable(tuple(kinds), columns, str(source))


def _cells(cells: TextColumn) -> Texts:
    return np.array([text.strip() for text in cells.texts.to_pylist()], object)


def _is_unknown(text: str) -> bool:
    return not text or text.lower() in MISSING


def _column(
    name: str, kind: Kind, cells: Texts, rows: I64, error: Callable[[int, str, str], DataError]
) -> NumberColumn | LabelColumn:
    if kind == "number":
        values = np.array([_number(name, row, text, error) for row, text in enumerate(cells)], np.float64)
        return NumberColumn(values).take(rows)
    sets = [
        [] if _is_unknown(text) else (text.split("|") if kind == "labels" else [text])
        for text in (cells[row] if row >= 0 else "" for row in rows.tolist())
    ]
    return label_column(sets)


def label_column(sets: Sequence[Sequence[str]]) -> LabelColumn:
    """Return the column of the labels of each row."""
    labels = tuple(sorted({label.strip() for each in sets for label in each} - {""}))
    place = {label: code for code, label in enumerate(labels)}
    pairs = [(row, place[label.strip()]) for row, each in enumerate(sets) for label in each if label.strip()]
    owners, codes = np.array(pairs, np.int64).reshape(-1, 2).T
    return LabelColumn(labels, Ragged.sets_from_pairs(owners, codes, len(sets)))


def _number(name: str, row: int, text: str, error: Callable[[int, str, str], DataError]) -> float:
    if _is_unknown(text):
        return math.nan
    value = _as_number(text)
    if value is None:
        raise error(row, repr(text), f"a finite number as {name}; set kinds: {{{name}: label}} for labels")
    return value


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_feature_file(file: FeatureFile, names: Sequence[str], key: str) -> FeatureTable:
    """Return the attributes in a table that a scenario names; `key` is ``user`` or ``item``.

    Raises
    ------
    DataError
        On the conditions of :func:`read_features`, or if the header repeats a column or lacks one of `kinds`.
    """
    source = open_text_source(file.path, f"dataset.{key}_features.path")
    header, delimiter = _header(source)
    columns = header[1:]
    if not columns or "" in columns or len(set(header)) < len(header):
        raise source.error(
            1,
            f"the header {shorten(', '.join(header), 400) or 'nothing'}",
            f"{key}, then the name of each attribute, each once"
            + ("; remove the comment above the header" if header[:1] and COMMENT.match(header[0]) else ""),
        )
    strange = [name for name in file.kinds if name not in columns]
    if strange:
        raise source.error(
            1,
            f"no column {strange[0]!r}, which kinds names",
            f"columns among: {shorten(', '.join(columns), 400)}",
        )
    layout = TextFormat((key, *columns), delimiter, header=True, quote='"')
    detected = _detected_kinds(source, layout, [name for name in columns if name not in file.kinds])
    kinds: dict[str, Kind] = {name: file.kinds.get(name) or detected[name] for name in columns}
    return read_features(source, layout, names, kinds, refuse_unlisted=file.unlisted == "refuse")


def _header(source: FileSource) -> tuple[tuple[str, ...], str]:
    """Return the names of the columns, and the delimiter that gives most of them."""
    found = {
        mark: read_first_row(source, TextFormat((), mark, quote='"')) for mark in DELIMITERS if mark != " "
    }
    mark = max(found, key=lambda each: len(found[each]))
    return found[mark], mark


def _detected_kinds(source: FileSource, layout: TextFormat, columns: Sequence[str]) -> dict[str, Kind]:
    """Return the kind of each column: numbers if all cells are; several labels if a cell has a ``|``."""
    cells = read_columns(source, layout, dict.fromkeys(columns, _cells)) if columns else {}
    kinds: dict[str, Kind] = {}
    for name, texts in cells.items():
        known = [text for text in texts if not _is_unknown(text)]
        numbers = known and all(_as_number(text) is not None for text in known)
        kinds[name] = "number" if numbers else "labels" if any("|" in text for text in known) else "label"
    return kinds
