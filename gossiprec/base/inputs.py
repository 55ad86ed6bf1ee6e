"""Input files: regular files only, bounded in size, and recorded with the SHA-256 of their bytes.

Pipes, devices and folders are refused at once. The record lets a later run detect changes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from gossiprec.base.errors import DataError, GossipRecError

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
"""Other kinds of files that a path may name, by the type that the system reports."""
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def open_regular_file(
    path: str | Path, *, most_bytes: int | None = None, error: type[GossipRecError] = DataError
) -> BinaryIO:
    """Open a regular file, or a link to one, for reading.

    Parameters
    ----------
    path : str or Path
    most_bytes : int, optional
        Largest size; None for any.
    error : type of GossipRecError
        Class of the error for a path that is no regular file, or one that is too large.

    Raises
    ------
    GossipRecError
        Of class `error`, if the path names something else than a regular file, or one above `most_bytes`.
    OSError
        If the file is missing or may not be read.
    """
    _require_regular(
        path, os.stat(path), most_bytes, error
    )  # a pipe is not even opened: its writer would notice
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    file = open(os.open(path, flags), "rb")  # noqa: SIM115  # the caller closes it
    try:
        _require_regular(
            path, os.fstat(file.fileno()), most_bytes, error
        )  # the path may name another file by now
    except GossipRecError:
        file.close()
        raise
    return file


def read_regular_file(path: str | Path, *, most_bytes: int, error: type[GossipRecError] = DataError) -> bytes:
    """Return the contents of a regular file of up to `most_bytes` bytes; see :func:`open_regular_file`."""
    with open_regular_file(path, most_bytes=most_bytes, error=error) as file:
        data = file.read(most_bytes + 1)  # the file may have grown, and files of the system report size 0
    if len(data) > most_bytes:
        raise _too_large(path, len(data), most_bytes, error)
    return data


def no_such_file(
    path: Path,
    expected: str = "the path of a file that exists",
    key: str | None = None,
    *,
    what: str = "file",
) -> str:
    """Return the message about a path that names nothing, with the folder of a relative path.

    Parameters
    ----------
    path : Path
    expected : str, optional
    key : str, optional
        The key that gives the path if a scenario does, unless the message begins with it.
    what : str, optional
    """
    correct = "correct the path" + (f" (key {key} of a scenario)" if key else "")
    if path.is_absolute():
        return f"no such {what} at this absolute path; expected {expected}; {correct}"
    return (
        f"no such {what} in {Path.cwd()}, where this command runs; expected {expected}; {correct}, or run the command "
        "in the folder from which it leads there"
    )


def format_bytes(count: int) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1, as ``"1.5 GiB"``."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if size >= 10 or unit == 0 else f"{size:.1f} {UNITS[unit]}"


def _require_regular(
    path: str | Path, status: os.stat_result, most_bytes: int | None, error: type[GossipRecError]
) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in KINDS if is_kind(status.st_mode)), "no file")
        raise error(
            f"{path}: found {kind}; expected a regular file; pass one, or write the contents to a file first"
        )
    if most_bytes is not None and status.st_size > most_bytes:
        raise _too_large(path, status.st_size, most_bytes, error)


def _too_large(path: str | Path, size: int, most_bytes: int, error: type[GossipRecError]) -> GossipRecError:
    return error(
        f"{path}: found {format_bytes(size)} or more; expected up to {format_bytes(most_bytes)}; check "
        "that it is the right file"
    )


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
        fingerprint = fingerprint_of(path)
        for record in records:
            record.setdefault(os.fspath(path), fingerprint)


def note_inputs(inputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Note files that were read earlier, for data that several runs share."""
    for record in _recording.get():
        for path, fingerprint in inputs.items():
            record.setdefault(path, dict(fingerprint))


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
    lost = {path: fingerprint for path, fingerprint in then.items() if now.get(path) != fingerprint}
    came = {path: fingerprint for path, fingerprint in now.items() if then.get(path) != fingerprint}
    moved = [*_pairs(lost, came)]
    for old, new in moved:
        del lost[old], came[new]
    changes = [f"{path} has changed" for path in lost if path in came]
    changes += [f"{path} is no longer read" for path in lost if path not in came]
    return changes + [f"{path} was not read before" for path in came if path not in lost]


def _pairs(lost: Mapping[str, Any], came: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the recorded and the present path of files with the same bytes."""
    left = dict(came)
    for old, fingerprint in lost.items():
        new = next((path for path, other in left.items() if other == fingerprint), None)
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
