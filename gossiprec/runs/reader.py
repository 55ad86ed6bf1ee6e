"""The reader of an event log: all rows before the first damage, a description of the damage, and rows as text."""

from __future__ import annotations

import heapq
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import LogError
from gossiprec.runs import record_format
from gossiprec.runs.record_format import DamagedError, LogRecord
from gossiprec.runs.run_files import open_to_read
from gossiprec.runs.schema import Column, ContentDigest, EventKind, EventSchema

Columns = dict[str, npt.NDArray[Any]]
TimeSpan = tuple[float, float]
RELEASE_BYTES = 2**26
"""Bytes of a log that are read before their pages are given back."""


@dataclass(frozen=True)
class LogDamage:
    """The first byte at which a log differs from what was written, and the symptom."""

    offset: int
    reason: str

    def __str__(self) -> str:
        return f"damage at byte {self.offset}: {self.reason}"


@dataclass(frozen=True)
class _Chunk:
    record: LogRecord
    kind: EventKind
    rows: int


class EventLog:
    """An event log as it was when it was opened: see :func:`read_log`.

    Attributes
    ----------
    path : Path
    size_bytes : int
    schema : EventSchema
        As written in the file's header.
    writer : str
        Name and version of the program that wrote the log.
    complete : bool
        The index and the trailer are there and agree with the chunks: nothing is missing.
    damage : LogDamage or None
        None also for a log that is still being written, or that ends between two chunks because its writer died.
    kinds : tuple of str
        The kinds of event this log can hold, in schema order.
    rows : dict of str to int
        Readable rows by kind.
    index_offset : int or None
        First byte of the index, if there is one.
    recorded_digest : str or None
        The digest in the index.
    """

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path, self.size_bytes = path, len(data)
        self._data, self._passed = data, 0
        self._chunks: list[_Chunk] = []
        self.recorded_digest: str | None = None
        self.index_offset: int | None = None
        self.complete = False
        self.damage: LogDamage | None = None
        self.schema, self.writer, start = _header(path, data)
        self._kinds = {kind.name: kind for kind in self.schema.kinds}
        self.kinds = tuple(self._kinds)
        try:
            self.complete = self._scan(start)
        except DamagedError as found:
            self.damage = LogDamage(found.offset, found.reason)
        self.rows = dict.fromkeys(self._kinds, 0)
        for chunk in self._chunks:
            self.rows[chunk.kind.name] += chunk.rows

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the readable rows, computed from them."""
        return self.digest_and_spans()[0]

    def digest_and_spans(self) -> tuple[str, dict[str, TimeSpan]]:
        """Return :attr:`digest`, and the least and greatest virtual time of each kind that has rows."""
        content, spans = ContentDigest(self.schema), dict[str, TimeSpan | None]()
        for kind, rows, packed, _ in self.chunks():
            content.update(kind, rows, packed)
            spans[kind.name] = _widened(spans.get(kind.name), np.frombuffer(packed[0], kind.columns[0].dtype))
        return content.hexdigest(), {kind: span for kind, span in spans.items() if span}

    def chunks(self) -> Iterator[tuple[EventKind, int, list[bytes], int]]:
        """Yield the readable chunks in file order: kind, rows, packed columns, and the first byte of the record."""
        for chunk in self._chunks:
            yield chunk.kind, chunk.rows, self._packed(chunk), chunk.record.start

    def events(self, kind: str) -> Columns:
        """Return the readable rows of one kind, in the order they were written.

        Parameters
        ----------
        kind : str
            One of :attr:`kinds`.

        Returns
        -------
        dict of str to ndarray
            Column name to a new array of shape (n_rows,) or (n_rows, size).

        Raises
        ------
        LogError
            If the log has no such kind.
        """
        columns = self.schema[kind].columns
        arrays = {c.name: np.empty(c.shape(self.rows[kind]), c.dtype) for c in columns}
        filled = 0
        for part in self.iter_event_blocks(kind):
            upto = filled + len(part[columns[0].name])
            for name, values in part.items():
                arrays[name][filled:upto] = values
            filled = upto
        return arrays

    def iter_event_blocks(self, kind: str) -> Iterator[Columns]:
        """Yield the rows of one kind piece by piece, as they were written, for logs that are larger than memory."""
        columns = self.schema[kind].columns
        for chunk in (chunk for chunk in self._chunks if chunk.kind.name == kind):
            yield {
                column.name: np.frombuffer(packed, column.dtype).reshape(column.shape(chunk.rows))
                for column, packed in zip(columns, self._packed(chunk), strict=True)
            }

    def count_rows_after(self, offset: int) -> tuple[dict[str, int], dict[str, int] | None]:
        """Search for whole records after byte `offset`, at which the log is damaged.

        Returns
        -------
        rows : dict of str to int
            Rows in whole chunks after it, by kind.
        written : dict of str to int or None
            Rows of the whole log, by kind, if its index is intact.
        """
        rows, written = dict.fromkeys(self._kinds, 0), None
        for found in re.finditer(b"|".join((record_format.CHUNK, record_format.INDEX)), self._data[offset:]):
            try:
                record = record_format.read_record(self._data, offset + found.start())
                if record.tag == record_format.INDEX:
                    written = {str(kind): int(n) for kind, n in record.content(self._data)["rows"].items()}
                else:
                    chunk = self._chunk(record)
                    rows[chunk.kind.name] += chunk.rows
            except (DamagedError, ValueError, TypeError, KeyError, AttributeError):
                continue
        return rows, written

    def time_span(self, kind: str) -> TimeSpan | None:
        """Return the least and greatest virtual time of one kind's readable rows, or None if it has none."""
        span = None
        for part in self.iter_event_blocks(kind):
            span = _widened(span, part["time"])
        return span

    def _packed(self, chunk: _Chunk) -> list[bytes]:
        packed: list[bytes] = chunk.record.content(self._data)[2]
        self._pass(chunk.record)
        return packed

    def _pass(self, record: LogRecord) -> None:
        """Give back the pages of the file that were read, some at a time: the memory of a long log is then constant."""
        self._passed += record.end - record.start
        data = self._data.obj
        if self._passed >= RELEASE_BYTES and isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            data.madvise(mmap.MADV_DONTNEED)
            self._passed = 0

    def _scan(self, start: int) -> bool:
        """Register every whole chunk from byte `start` on; return whether index and trailer follow them."""
        while start < len(self._data):
            record = record_format.read_record(self._data, start)
            if record.tag == record_format.INDEX:
                self._check_index(record)
                return record_format.check_trailer(self._data, record.end, record.start)
            self._chunks.append(self._chunk(record))
            self._pass(record)
            start = record.end
        return False

    def _chunk(self, record: LogRecord) -> _Chunk:
        try:
            if record.tag != record_format.CHUNK:
                raise ValueError(f"its tag is {record.tag!r}")
            name, rows, packed = record.content(self._data)
            kind = self._kinds[name]
            lengths = [column.bytes_for(rows) for column in kind.columns]
            if [len(values) for values in packed] != lengths:
                raise ValueError(f"{rows} rows of {name!r} must pack into columns of {lengths} bytes")
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(record.start, f"the record is not a chunk of this log ({error})") from error
        return _Chunk(record, kind, rows)

    def _check_index(self, record: LogRecord) -> None:
        index = record.content(self._data)
        listed = [[c.kind.name, c.record.start, c.rows] for c in self._chunks]
        if not isinstance(index, dict) or index.get("chunks") != listed:
            raise DamagedError(record.start, "the index does not list the chunks that precede it")
        self.recorded_digest, self.index_offset = index.get("digest"), record.start


def _widened(span: TimeSpan | None, times: npt.NDArray[Any]) -> TimeSpan | None:
    """Return the span that also holds these times."""
    if not len(times):
        return span
    low, high = float(times.min()), float(times.max())
    return (low, high) if span is None else (min(low, span[0]), max(high, span[1]))


def _header(path: Path, data: memoryview) -> tuple[EventSchema, str, int]:
    """Return the schema, the writer, and the first byte after the header."""
    if data[: len(record_format.MAGIC)] != record_format.MAGIC:
        raise DamagedError(0, "the file does not start with the magic bytes of an event log")
    record = record_format.read_record(data, len(record_format.MAGIC))
    header = record.content(data)
    try:
        if record.tag != record_format.HEADER:
            raise ValueError(f"its tag is {record.tag!r}")
        if header["format"] != record_format.FORMAT:
            raise LogError(
                f"{path} has format {header['format']}, but this gossiprec reads format {record_format.FORMAT}; "
                f"read it with the program that wrote it ({header['writer']}) or a later one"
            )
        return EventSchema.from_header(header), str(header["writer"]), record.end
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(record.start, f"the header does not describe an event log ({error})") from error


def open_log(path: Path, end: int | None = None) -> EventLog:
    """Return the log in the first `end` bytes of a file; raise :class:`DamagedError` if its header cannot be read."""
    try:
        with open_to_read(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise LogError(
            f"cannot read the event log {path}: {error.strerror}; pass a run directory or its events.mplog"
        ) from error
    return EventLog(path, memoryview(data)[:end])


def read_log(path: str | os.PathLike[str], *, strict: bool = False, end: int | None = None) -> EventLog:
    """Open an event log, also while it is being written.

    Parameters
    ----------
    path : path
    strict : bool
        Refuse a log that is damaged or incomplete, instead of returning the part before the damage.
    end : int, optional
        Read only the bytes before this one.

    Raises
    ------
    LogError
        If the file is not an event log or its header is damaged; if `strict`, also if anything is damaged or
        missing.
    """
    try:
        log = open_log(Path(path), end)
    except DamagedError as found:
        raise LogError(f"{path} cannot be read: {LogDamage(found.offset, found.reason)}") from found
    if strict and not log.complete:
        missing = log.damage or f"it ends at byte {log.size_bytes} without an index: its run did not finish"
        raise LogError(
            f"{path} is not complete: {missing}; `gossiprec log verify` reports what is still readable"
        )
    return log


BLOCK_ROWS = 4_096
"""Number of rows of several kinds per block."""

Rows = Iterable[tuple[Any, ...]]


def column_names(kind: EventKind) -> list[str]:
    """Return the names of a kind's columns in text: ``peers`` of size 2 is ``peers_0`` and ``peers_1``."""
    return [name for column in kind.columns for name in _flat_names(column)]


def iter_rows_of_kind(log: EventLog, kind: str) -> Iterator[Rows]:
    """Yield the rows of one kind in blocks, in the order they were written."""
    for events in log.iter_event_blocks(kind):
        yield _rows(log.schema[kind], events)


def iter_rows_by_time(log: EventLog, kinds: Sequence[str], limit: int | None = None) -> Iterator[Rows]:
    """Yield the rows of several kinds in blocks, each row led by its kind, in the order of virtual time.

    Ties keep the order of `kinds`, and within a kind the order in which rows were written. A chunk of each kind is in
    memory at a time, but all rows of a kind that was not written in the order of time.
    """
    rows = islice(heapq.merge(*(_rows_in_time(log, kind) for kind in kinds), key=itemgetter(1)), limit)
    while block := [*islice(rows, BLOCK_ROWS)]:
        yield block


def _rows_in_time(log: EventLog, kind: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a kind in the order of virtual time, each led by the kind."""
    blocks, last = log.iter_event_blocks(kind), -np.inf
    for times in (block["time"] for block in log.iter_event_blocks(kind)):
        if len(times) and (times[0] < last or (np.diff(times) < 0).any()):
            events = log.events(kind)
            order = np.argsort(events["time"], kind="stable")
            blocks = iter([{name: values[order] for name, values in events.items()}])
            break
        last = times[-1] if len(times) else last
    for block in blocks:
        for row in _rows(log.schema[kind], block):
            yield kind, *row


def _flat_names(column: Column) -> list[str]:
    if column.size is None:
        return [column.name]
    return [f"{column.name}_{place}" for place in range(int(column.size))]


def _rows(kind: EventKind, events: Columns) -> Rows:
    values = [_values(column, events[column.name]) for column in kind.columns]
    return zip(*(flat for column in values for flat in column), strict=True)


def _values(column: Column, array: npt.NDArray[Any]) -> list[list[Any]]:
    """Return the column's values as lists of Python objects: one list, or one per position of a row."""
    if names := column.codes:
        return [[names[code] if code < len(names) else str(code) for code in array.tolist()]]
    return [array.tolist()] if array.ndim == 1 else [values.tolist() for values in array.T]
