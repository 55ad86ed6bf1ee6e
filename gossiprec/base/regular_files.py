"""Reading of regular files with a bound on their size; pipes, devices and folders are refused at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

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
        f"{path}: found {format_bytes(size)} or more; expected at most {format_bytes(most_bytes)}; check "
        "that it is the right file"
    )
