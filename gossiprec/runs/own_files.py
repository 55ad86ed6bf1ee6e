"""Files of a run or study directory: opened only if they are regular files, never through a link.

A directory may come from an untrusted source. A link in it could let a command write, delete or read elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from io import BufferedReader
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.runs import run_files

TEMPORARY_SUFFIX = ".writing"
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
            raise not_regular(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise not_regular(path)
    os.set_blocking(descriptor, True)
    return descriptor


def not_regular(path: str | os.PathLike[str]) -> LogError:
    """Return the error for a path that is a link or otherwise no regular file."""
    found = "a link" if os.path.islink(path) else "no regular file"
    return LogError(
        f"{path}: found {found}; expected a regular file of the run; replace it by the file, or delete it"
    )


def temporary_name(path: Path) -> Path:
    """Return a random name next to `path` for a file that is to replace it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")


def leftovers(path: Path) -> list[Path]:
    """Return the temporary files of `path` that killed processes have left."""
    return [*path.parent.glob(f".{path.name}.*{TEMPORARY_SUFFIX}")]


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises
    ------
    LogError
        If it is a link or no regular file.
    OSError
        If it cannot be read.
    """
    with open_to_read(path) as file:
        return file.read()


def open_to_read(path: Path) -> BufferedReader:
    """Open a regular file for reading; see :func:`read_regular`."""
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")


def check_own_files(folder: Path) -> None:
    """Refuse a run directory in which a name that gossiprec uses is a link.

    Raises
    ------
    LogError
        If there is such a link; the message names the first.
    """
    if folder.is_dir():
        for name in (*run_files.FILES, run_files.CHECKPOINTS):
            if (folder / name).is_symlink():
                raise not_regular(folder / name)


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
