"""The writer of an event log: one chunk of columns per call, no Python work per row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType

import numpy.typing as npt

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.runs import record_format
from gossiprec.runs.reader import read_log
from gossiprec.runs.run_files import open_regular, wrap_write_errors, write_all
from gossiprec.runs.schema import SCHEMA, ContentDigest, EventKind, EventSchema
from gossiprec.version import __version__

_REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
CHUNK_ROWS = 65_536
"""Rows per chunk; more rows become several chunks, since a chunk is copied whole when it is written and read."""


class EventWriter:
    """The writer of an event log; appended events are readable at once.

    Parameters
    ----------
    path : path
        The log; an existing file is replaced.
    sizes : mapping of str to int, optional
        The schema's named sizes, such as ``{"view_size": 3}``; kinds that need a missing size are left out.
    schema : EventSchema
        For tests and tools; runs use :data:`~gossiprec.runs.schema.SCHEMA`.

    Attributes
    ----------
    size_bytes : int
        Length of the log so far.
    complete : bool
        Whether the log was closed with its index, so that all appended rows are in it.

    Raises
    ------
    ResourceError
        If the file cannot be written, here or in a later call. The log then ends after its last whole chunk.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sizes: Mapping[str, int] | None = None,
        schema: EventSchema = SCHEMA,
    ) -> None:
        self._begin(path, schema.with_sizes(sizes or {}))
        with wrap_write_errors(self.path):
            self._file = FileIO(os.open(self.path, _REPLACE, 0o666), "wb")
        header = {
            "format": record_format.FORMAT,
            "writer": f"gossiprec {__version__}",
            **self.schema.to_header(),
        }
        try:
            self._write(record_format.MAGIC + record_format.pack_record(record_format.HEADER, header))
        except BaseException:
            self._file.close()
            raise

    def _begin(self, path: str | os.PathLike[str], schema: EventSchema) -> None:
        self.path = Path(path)
        self.schema = schema
        self._content = ContentDigest(schema)
        self._chunks: list[tuple[str, int, int]] = []
        self.size_bytes = 0
        self._whole = True
        self.complete = False

    @classmethod
    def resumed(cls, path: str | os.PathLike[str], *, end: int, digest: str) -> EventWriter:
        """Return a writer that continues after byte `end` of an existing log; later bytes are cut off.

        Parameters
        ----------
        path : path
        end : int
            Position between two records.
        digest : str
            Digest of the rows before `end`.

        Raises
        ------
        LogError
            If the log has changed since that position was noted; it is then left unchanged.
        ResourceError
            If the file cannot be written.
        """
        log = read_log(path, end=end)
        self = cls.__new__(cls)
        self._begin(path, log.schema)
        for kind, rows, packed, start in log.chunks():
            self._content.update(kind, rows, packed)
            self._chunks.append((kind.name, start, rows))
        if log.damage or log.size_bytes != end or self.digest != digest:
            found = log.damage or f"its rows before byte {end} have changed since they were written"
            raise LogError(f"{path} cannot be continued: {found}")
        self.size_bytes = end
        with wrap_write_errors(self.path):
            self._file = FileIO(open_regular(self.path, os.O_RDWR), "r+b")
            self._file.truncate(end)
            self._file.seek(end)
        return self

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the rows so far, independent of their grouping into chunks."""
        return self._content.hexdigest()

    @property
    def rows(self) -> dict[str, int]:
        """Rows appended so far, by kind."""
        return dict(self._content.rows)

    def append(self, kind: str, columns: Mapping[str, npt.ArrayLike]) -> None:
        """Write rows of one kind: one chunk, more if there are very many, none if there are no rows.

        Parameters
        ----------
        kind : str
            A kind of the schema.
        columns : mapping of str to array
            Exactly the kind's columns, each of shape (n_rows,) or (n_rows, size).

        Raises
        ------
        LogError
            If this log has no such kind.
        ValueError
            If the columns do not fit the kind, or the writer is closed.
        ResourceError
            If the file cannot be written.
        """
        if not self._whole:
            raise ResourceError(
                f"{self.path}: an earlier write failed, so nothing more can be written; start the run again"
            )
        found = self.schema[kind]
        rows, packed = found.pack(columns)
        widths = [len(values) // max(rows, 1) for values in packed]
        for start in range(0, rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, rows)
            part = [
                values[start * width : stop * width] for values, width in zip(packed, widths, strict=True)
            ]
            self._append_chunk(found, stop - start, part)

    def close(self) -> None:
        """Write the index and close the file; later calls do nothing.

        After a failed write there is no index: the log is readable up to its last whole chunk, not complete.
        """
        if self._file.closed:
            return
        try:
            if self._whole:
                self._write_index()
        finally:
            self._file.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append_chunk(self, kind: EventKind, rows: int, packed: Sequence[memoryview]) -> None:
        place = (kind.name, self.size_bytes, rows)
        self._whole = False  # an interrupt before the chunk is hashed and listed leaves no index
        self._write(record_format.pack_record(record_format.CHUNK, [kind.name, rows, packed]))
        self._content.update(kind, rows, packed)
        self._chunks.append(place)
        self._whole = True

    def _write_index(self) -> None:
        index = {"chunks": self._chunks, "rows": self.rows, "digest": self.digest}
        self._write(
            record_format.pack_record(record_format.INDEX, index)
            + record_format.pack_trailer(self.size_bytes)
        )
        self.complete = True

    def _write(self, records: bytes) -> None:
        """Write all of `records`; on failure, cut the file back to the previous end and raise the reason."""
        try:
            with wrap_write_errors(self.path):
                write_all(self._file, records)
        except BaseException:
            self._whole = False
            with suppress(OSError):
                self._file.truncate(self.size_bytes)
            raise
        self.size_bytes += len(records)
