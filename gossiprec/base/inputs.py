"""Input files of a run, recorded with the SHA-256 of their bytes, so that later changes are detected."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from gossiprec.base.errors import DataError, GossipRecError
from gossiprec.base.regular_files import open_regular_file

Inputs = dict[str, dict[str, Any]]
"""Path, as given to the run, to ``bytes`` and ``sha256`` of the file."""

_recording: ContextVar[tuple[Inputs, ...]] = ContextVar("_recording", default=())
"""The records of the run that is being prepared, and of loaders that serve several runs."""


@contextmanager
def record_inputs() -> Iterator[Inputs]:
    """Record the files that are read while the body runs, in this thread."""
    found: Inputs = {}
    token = _recording.set((*_recording.get(), found))
    try:
        yield found
    finally:
        _recording.reset(token)


def open_input(path: str | os.PathLike[str], *, error: type[GossipRecError] = DataError) -> BinaryIO:
    """Open a file that a run reads, and note its fingerprint for the manifest of the run.

    Parameters
    ----------
    path : path
    error : type of GossipRecError
        Class of the error for a path that is no regular file.

    Raises
    ------
    GossipRecError
        If the path is no regular file.
    OSError
        If the file is missing or may not be read.
    """
    note_input(path)
    return open_regular_file(Path(path), error=error)


def read_input(path: str | os.PathLike[str], *, error: type[GossipRecError] = DataError) -> bytes:
    """Return the bytes of a file that a run reads; see :func:`open_input`."""
    with open_input(path, error=error) as file:
        return file.read()


def note_input(path: str | os.PathLike[str]) -> None:
    """Note a file that another library opens; an unreadable file is left to that library."""
    records = _recording.get()
    if not records or all(os.fspath(path) in record for record in records):
        return
    with suppress(OSError, GossipRecError):
        told = fingerprint_of(path)
        for record in records:
            record.setdefault(os.fspath(path), told)


def note_inputs(inputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Note files that were read earlier, for data that several runs share."""
    for record in _recording.get():
        for path, told in inputs.items():
            record.setdefault(path, dict(told))


def fingerprint_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return length and SHA-256 of a file.

    Raises
    ------
    GossipRecError
        If the path is no regular file.
    OSError
        If the file cannot be read.
    """
    with open_regular_file(Path(path)) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a buffered reader
        return {"bytes": file.tell(), "sha256": digest}


def changed_inputs(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two records; the same bytes under another path are no difference."""
    lost = {path: told for path, told in then.items() if now.get(path) != told}
    came = {path: told for path, told in now.items() if then.get(path) != told}
    moved = [*_pairs(lost, came)]
    for old, new in moved:
        del lost[old], came[new]
    changes = [f"{path} has changed" for path in lost if path in came]
    changes += [f"{path} is no longer read" for path in lost if path not in came]
    return changes + [f"{path} was not read before" for path in came if path not in lost]


def _pairs(lost: Mapping[str, Any], came: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the recorded and the present path of files with the same bytes."""
    left = dict(came)
    for old, told in lost.items():
        new = next((path for path, other in left.items() if other == told), None)
        if new is not None:
            del left[new]
            yield old, new


def changed_files(then: Mapping[str, Any], paths: Iterable[str] | None = None) -> list[str]:
    """Return the recorded files, or some of them, that exist and have other bytes now.

    A missing file is not a change.
    """
    found = []
    for path in then if paths is None else paths:
        try:
            if fingerprint_of(path) != then[path]:
                found.append(path)
        except (OSError, GossipRecError):
            continue
    return found
