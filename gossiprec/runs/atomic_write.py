"""Atomic file replacement: readers see the old file or the new one, and a full disk gives a clear message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from gossiprec.base.errors import ResourceError
from gossiprec.runs.own_files import NEW, open_regular, open_to_read, temporary_name


@contextmanager
def wrap_write_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the body into a :class:`ResourceError` that names `path` and the next step."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(
            f"cannot write {path}: {reason}; free disk space, fix the permissions, or choose another --out"
        ) from error


def write_all(file: FileIO, content: bytes | memoryview) -> None:
    """Write all of `content` to an unbuffered file."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


@contextmanager
def open_replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the body ends; until then it has a random name.

    A link at `path` is replaced, not followed.

    Raises
    ------
    ResourceError
        If the disk or the permissions do not allow it; `path` is then unchanged.
    """
    temporary = temporary_name(path)
    with wrap_write_errors(path):
        try:
            with os.fdopen(open_regular(temporary, NEW), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` in one step; see :func:`open_replacement`."""
    with open_replacement(path) as file:
        file.write(content)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk, so that they survive a power failure."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk, so that it survives a power failure."""
    with open_to_read(path) as file:
        os.fsync(file.fileno())
