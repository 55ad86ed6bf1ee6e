"""The schema of event logs: the kinds of event and their columns, and the digest of rows.

The header of a log holds the schema with which it was written, so a reader follows the file, not this module. A new
kind, or a new column at the end of a kind, raises the version of :data:`SCHEMA`, and ``CHANGELOG.md`` says so.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import LogError, did_you_mean

NO_PEER = -1
"""Filler of a view that holds fewer than ``view_size`` peers."""

_FIXED_DTYPE = re.compile(r"<[fiu][248]|\|[iub]1")


@dataclass(frozen=True)
class Column:
    """One column of a kind.

    Attributes
    ----------
    name : str
    dtype : str
        Fixed numpy type with its byte order, such as ``"<f8"``.
    meaning : str
        For readers of the log; times are virtual, in mean wake periods.
    size : int or str or None
        Values per row: None for a single value, an int for a fixed number, or a name that
        :meth:`EventSchema.with_sizes` resolves when a log is opened.
    codes : tuple of str
        The name of each code, from code 0, if the values are codes.
    """

    name: str
    dtype: str
    meaning: str = ""
    size: int | str | None = None
    codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _FIXED_DTYPE.fullmatch(self.dtype):
            raise ValueError(f"column {self.name!r}: {self.dtype!r} is not a fixed little-endian number type")

    def shape(self, rows: int) -> tuple[int, ...]:
        """Return the shape of the column's array for the given number of rows."""
        return (rows,) if self.size is None else (rows, int(self.size))

    def bytes_for(self, rows: int) -> int:
        """Return the packed size in bytes of the given number of rows."""
        return math.prod(self.shape(rows)) * np.dtype(self.dtype).itemsize

    def array(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return `values` (a scalar: one row) as the column's contiguous array; the conversion loses nothing.

        Raises
        ------
        ValueError
            If a value cannot be held by the column's type.
        """
        found = np.atleast_1d(np.asarray(values))
        with np.errstate(invalid="ignore"):
            packed = np.ascontiguousarray(found, self.dtype)
        if found.dtype != packed.dtype and not np.array_equal(packed, found, equal_nan=True):
            raise ValueError(
                f"column {self.name!r} ({self.dtype}) cannot hold all of its {found.dtype} values"
            )
        return packed


@dataclass(frozen=True)
class EventKind:
    """One kind of event: its meaning and its columns, of which the first is always ``time``."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns or self.columns[0].name != "time":
            raise ValueError(f"the first column of event kind {self.name!r} must be 'time'")

    def pack(self, columns: Mapping[str, npt.ArrayLike]) -> tuple[int, list[memoryview]]:
        """Return the number of rows and the packed columns (flat buffers), in schema order.

        Raises
        ------
        ValueError
            If the columns are not exactly the kind's, or their shapes or values do not fit.
        """
        names = [column.name for column in self.columns]
        if sorted(columns) != sorted(names):
            raise ValueError(f"event kind {self.name!r} has columns {names}; found {list(columns)}")
        arrays = [column.array(columns[column.name]) for column in self.columns]
        rows = len(arrays[0])
        for column, array in zip(self.columns, arrays, strict=True):
            if array.shape != column.shape(rows):
                raise ValueError(
                    f"event kind {self.name!r}: column {column.name!r} must have shape {column.shape(rows)}, "
                    f"found {array.shape}"
                )
        return rows, [array.reshape(-1).data for array in arrays]


@dataclass(frozen=True)
class EventSchema:
    """The kinds of event a log can hold, and the version of the schema."""

    version: int
    kinds: tuple[EventKind, ...]

    def __getitem__(self, name: str) -> EventKind:
        """Return the kind called `name`.

        Raises
        ------
        LogError
            If the log has no such kind; the message names similar ones.
        """
        for kind in self.kinds:
            if kind.name == name:
                return kind
        known = [kind.name for kind in self.kinds]
        raise LogError(
            f"unknown event kind {name!r}; this log has: {', '.join(known)}{did_you_mean(name, known)}"
        )

    def with_sizes(self, sizes: Mapping[str, int]) -> EventSchema:
        """Return the schema with named sizes resolved; kinds that need a missing size are left out."""

        def settled(column: Column) -> Column:
            return replace(column, size=sizes[column.size]) if isinstance(column.size, str) else column

        fitting = [
            k for k in self.kinds if all(c.size in sizes for c in k.columns if isinstance(c.size, str))
        ]
        return replace(
            self, kinds=tuple(replace(k, columns=tuple(settled(c) for c in k.columns)) for k in fitting)
        )

    def with_control(self, kinds: Sequence[str]) -> EventSchema:
        """Return the schema with control messages of some kinds; without any, the same schema."""
        if not kinds:
            return self
        names = Column("kind", "|u1", codes=tuple(kinds))
        delivered = (Column("time", "<f8", "delivered at"), *_ENDS, *_SIZE, names)
        control = EventKind("control", "a message without a model was delivered", delivered)
        lost = EventKind("control_drop", "a message without a model was lost", self["drop"].columns)
        return EventSchema(self.version, (*self.kinds, control, lost))

    def to_header(self) -> dict[str, Any]:
        """Return the schema as plain data for a log's header."""
        return {
            "schema": self.version,
            "kinds": [
                {
                    "name": kind.name,
                    "meaning": kind.meaning,
                    "columns": [{**vars(column), "codes": list(column.codes)} for column in kind.columns],
                }
                for kind in self.kinds
            ],
        }

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> EventSchema:
        """Return the schema in a log's header (the inverse of :meth:`to_header`)."""
        kinds = [
            EventKind(kind["name"], kind["meaning"], tuple(_column(entry) for entry in kind["columns"]))
            for kind in header["kinds"]
        ]
        return EventSchema(int(header["schema"]), tuple(kinds))


def _column(entry: Mapping[str, Any]) -> Column:
    """Return the column that a header describes; attributes added by later versions are ignored."""
    size = None if entry["size"] is None else operator.index(entry["size"])
    return Column(entry["name"], entry["dtype"], entry["meaning"], size, tuple(entry["codes"]))


DROP_CAUSES = ("loss", "receiver_offline", "sender_offline", "run_ended", "partition")
"""Why a message never arrived; a ``drop`` row holds the index into this tuple. Append, never reorder."""

MISS_CAUSES = ("offline", "busy")
"""Why a node missed its wake; a ``miss`` row holds the index into this tuple. Append, never reorder."""

_TIME = Column("time", "<f8", "time of the event")
_AT_NODE = (_TIME, Column("node", "<i4"))
_ROUND = (_TIME, Column("round", "<i4"))
_ENDS = (Column("sender", "<i4"), Column("receiver", "<i4"), Column("sent_at", "<f8"))
_PEERS = Column("peers", "<i4", f"filled up with {NO_PEER}", size="view_size")
_SIZE = (
    Column("size_bytes", "<i4"),
    Column("queued", "<f8", "delay caused by other messages on shared bandwidth"),
)
_WORK = (Column("epochs", "<i4"), Column("samples", "<i4", "training samples, all epochs"))
_ONLINE = Column("online", "|u1", "1: online, 0: offline")
_EPSILON = Column("epsilon", "<f8", "inf without noise")
OPTIONS = (
    "training.learning_rate", "training.betas.0", "training.betas.1", "training.eps", "training.local_epochs",
    "training.negatives",
)  # fmt: skip
"""Numbers that a run can change; a ``change`` row holds the index into this tuple. Append, never reorder."""
_OPTION = (Column("option", "|u1", codes=OPTIONS), Column("value", "<f8"))
_CHANGED = "a node went online or offline; also the nodes that are offline at the start"
_SPENT = "privacy budget that a node had spent by a report tick; only nodes that trained since the last tick"

_KINDS = {
    "wake": ("a node woke", _AT_NODE),
    "view": ("a node drew the view that its next wake uses", (*_AT_NODE, _PEERS)),
    "message": ("a message was delivered", (Column("time", "<f8", "delivered at"), *_ENDS, *_SIZE)),
    "drop": (
        "a message was lost",
        (Column("time", "<f8", "lost at"), *_ENDS, Column("cause", "|u1", codes=DROP_CAUSES)),
    ),
    "update": ("a node finished a local update", (*_AT_NODE, *_WORK)),
    "miss": ("a node missed a wake", (*_AT_NODE, Column("cause", "|u1", codes=MISS_CAUSES))),
    "session": (_CHANGED, (*_AT_NODE, _ONLINE)),
    "round": ("a round ended (coordinator, or report tick)", _ROUND),
    "evaluate": ("the models were scored", _ROUND),
    "stop": ("the run ended by its rule, before its last report", _ROUND),
    "change": (
        "a number of an option was changed after a report; it holds from then on",
        (*_ROUND, *_OPTION),
    ),
    "privacy": (_SPENT, (*_AT_NODE, _EPSILON)),
}

SCHEMA = EventSchema(4, tuple(EventKind(name, *about) for name, about in _KINDS.items()))
"""The schema of logs written by this version."""


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
                    size, rows = "-" if column.size is None else column.size, self.rows[kind.name]
                    line = f"{kind.name} {column.name} {column.dtype} {size} {rows} {running.hexdigest()}\n"
                    total.update(line.encode())
        return total.hexdigest()
