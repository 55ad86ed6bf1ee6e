"""Digest of a log's rows, independent of the chunks in which they were written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gossiprec.runs.schema import Column, EventKind, EventSchema


class ContentDigest:
    """SHA-256 over kinds and column bytes, independent of how rows were grouped into chunks.

    Each column has its own running hash; :meth:`hexdigest` hashes one line per column of the kinds that have
    rows. A kind without rows leaves no trace, so a schema with more kinds gives an old run its old digest.
    """

    def __init__(self, schema: EventSchema) -> None:
        self.rows = {kind.name: 0 for kind in schema.kinds}
        self._schema = schema
        self._hashes = {kind.name: [hashlib.sha256() for _ in kind.columns] for kind in schema.kinds}

    def update(self, kind: EventKind, rows: int, columns: Sequence[bytes | memoryview]) -> None:
        """Add the next rows of a kind: its packed columns, in schema order."""
        self.rows[kind.name] += rows
        for running, column in zip(self._hashes[kind.name], columns, strict=True):
            running.update(column)

    def hexdigest(self) -> str:
        """Return the digest of all rows added so far."""
        total = hashlib.sha256()
        for kind in sorted(self._schema.kinds, key=lambda kind: kind.name):
            if self.rows[kind.name]:
                for column, running in zip(kind.columns, self._hashes[kind.name], strict=True):
                    total.update(self._line(kind, column, running.hexdigest()).encode())
        return total.hexdigest()

    def _line(self, kind: EventKind, column: Column, digest: str) -> str:
        size = "-" if column.size is None else column.size
        return f"{kind.name} {column.name} {column.dtype} {size} {self.rows[kind.name]} {digest}\n"
