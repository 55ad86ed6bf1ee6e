"""Files of a run or study directory: their names, how they are opened, and how they are replaced in one step.

A directory may come from an untrusted source: a link in it could let a command write, delete or read elsewhere. So
only regular files are opened, never through a link. Readers of a replaced file see the old one or the new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.base.inputs import format_bytes
from gossiprec.base.machine import available_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SCENARIO = "scenario.yaml"
MANIFEST = "manifest.json"
EVENTS = "events.mplog"
METRICS = "metrics.csv"
ATTACKS = "attacks.csv"
FINDINGS = "findings.csv"
ADVERSARIES = "adversaries.npz"
HITS = "hits.npz"
POSITIONS = "positions.csv"
VERSION = "version.npz"
BY_USER = "metrics_by_user.parquet"
LISTS = "lists.parquet"
USERS = "users.csv"
ITEMS = "items.csv"
SUMMARY = "summary.json"
EPSILON = "epsilon.npz"
"""Written for a complete run by ``gossiprec epsilon``."""
CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints, present until the run is complete."""
OBSERVED = "observed"
"""Folder of the results of observers that saw the complete run later; each folder in it is a run directory."""
VERSIONS = "versions-*.npz"
"""Pattern of the names of stored versions (``evaluate.keep``); :func:`versions_path` gives that of a report."""
TENSORBOARD = "events.out.tfevents.*"
"""Pattern of the names of TensorBoard's files, if TensorBoard tracks the run."""

FILES = (
    SCENARIO, EVENTS, METRICS, ATTACKS, FINDINGS, ADVERSARIES, HITS, POSITIONS, VERSION, BY_USER, LISTS, USERS,
    ITEMS, SUMMARY, MANIFEST,
)  # fmt: skip
"""All files that a run writes."""

RESULTS = (SUMMARY, ADVERSARIES, HITS, POSITIONS, VERSION, BY_USER, LISTS)
"""The files that a run writes when it ends."""

STATUSES = ("running", "complete", "failed", "interrupted")


def versions_path(folder: Path, report: int) -> Path:
    """Return the file of the versions that a run stores at a report, numbered from 1."""
    return folder / VERSIONS.replace("*", f"{report:05d}")


def log_path(path: Path) -> Path:
    """Return the event log that `path` refers to: the file itself, or the log in that run directory."""
    return path / EVENTS if path.is_dir() else path


TEMPORARY_SUFFIX = ".writing"
SMALL_BYTES = 64 << 20
"""Size up to which a file is read without asking how much memory there is."""
HEADER_BYTES = 1 << 16
"""Bytes that a packed file may need in addition to its rows or arrays."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
"""Flags for a file that must not exist yet; with O_EXCL a link at its name is refused too."""
_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO then fails at once instead of waiting
_MODE = 0o666


def open_regular(path: str | os.PathLike[str], flags: int) -> int:
    """Return the descriptor of a regular file, opened with these flags of `os.open`.

    Raises
    ------
    LogError
        If there is a link, a folder, a pipe or a device at that name.
    OSError
        If the file cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | _ALWAYS, _MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO) or os.path.islink(path):
            raise not_regular_error(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise not_regular_error(path)
    os.set_blocking(descriptor, True)
    return descriptor


def not_regular_error(path: str | os.PathLike[str]) -> LogError:
    """Return the error for a path that is a link or otherwise no regular file."""
    found = "a link" if os.path.islink(path) else "no regular file"
    return LogError(
        f"{path}: found {found}; expected a regular file of the run; replace it by the file, or delete it"
    )


def temporary_name(path: Path) -> Path:
    """Return a random name next to `path` for a file that is to replace it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")


def find_leftovers(path: Path) -> list[Path]:
    """Return the temporary files of `path` that killed processes have left."""
    return [*path.parent.glob(f".{path.name}.*{TEMPORARY_SUFFIX}")]


def read_regular(path: Path, growth: int = 1) -> bytes:
    """Return the content of a regular file.

    Parameters
    ----------
    path : Path
    growth : int
        Bytes of memory that a byte of the file can become when it is parsed.

    Raises
    ------
    LogError
        If it is a link or no regular file, or larger than the available memory.
    OSError
        If it cannot be read.
    """
    with open_to_read(path) as file:
        check_room(path, growth * os.fstat(file.fileno()).st_size)
        return file.read()


def check_room(path: Path, n_bytes: int) -> None:
    """Refuse a file that the available memory cannot hold, such as one that is mostly holes.

    Parameters
    ----------
    path : Path
    n_bytes : int
        The memory that its content needs.

    Raises
    ------
    LogError
    """
    if n_bytes > SMALL_BYTES and n_bytes > (available := available_bytes() // 2):
        raise LogError(
            f"cannot read {path}: its content needs {format_bytes(n_bytes)}; expected up to {format_bytes(available)}, "
            "half of the available memory; the file is damaged, or needs a larger machine"
        )


def check_need(path: Path, n_bytes: int, most: int, reason: str) -> None:
    """Refuse a file that unpacks to more than its run can have written, whatever memory there is.

    Parameters
    ----------
    path : Path
    n_bytes : int
        The memory that its content needs.
    most : int
        The most that it can need.
    reason : str
        What sets the limit, for the message.

    Raises
    ------
    LogError
    """
    if n_bytes > most:
        raise LogError(
            f"cannot read {path}: its content needs {format_bytes(n_bytes)}; expected up to {format_bytes(most)}, "
            f"{reason}; the file is damaged"
        )
    check_room(path, n_bytes)


def open_to_read(path: Path) -> BufferedReader:
    """Open a regular file for reading; see :func:`read_regular`."""
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")


def read_parquet(
    path: Path, file: pq.ParquetFile, row_bytes: int, most_rows: int | None = None, reason: str = ""
) -> pa.Table:
    """Return the table of a Parquet file, of which a row takes up to `row_bytes` of memory; see :func:`check_need`."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    needed = sum(group.num_rows * row_bytes + group.total_byte_size for group in groups)
    most = needed if most_rows is None else 2 * row_bytes * most_rows + HEADER_BYTES
    check_need(path, needed, most, reason)
    return file.read(use_threads=False)


def check_own_files(folder: Path) -> None:
    """Refuse a run directory in which a name that gossiprec uses is a link.

    Raises
    ------
    LogError
        If there is such a link; the message names the first.
    """
    if folder.is_dir():
        for name in (*FILES, EPSILON, CHECKPOINTS, OBSERVED):
            if (folder / name).is_symlink():
                raise not_regular_error(folder / name)


def check_folder(path: Path) -> None:
    """Refuse a link at the path of a folder that belongs to a run or study.

    Raises
    ------
    LogError
    """
    if path.is_symlink():
        raise LogError(
            f"{path}: found a link; expected a folder of the run; replace it by the folder, or delete it"
        )


@contextmanager
def wrap_write_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the body into a :class:`ResourceError` that names `path` and the next step."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENAMETOOLONG:
            raise LogError(f"cannot write {path}: {reason}; choose a shorter one") from error
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
