"""Arrays in temporary files, for rows that do not fit into memory."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import SPACE, ResourceError, ScenarioError

MIB = 2**20


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free on the disk of a folder.

    Raises
    ------
    ScenarioError
        If there is no such folder.
    """
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise _unusable(folder, error) from error


def check_free(folder: Path, needed: int) -> None:
    """Refuse rows that need more bytes than are free on the disk of a folder.

    Raises
    ------
    ResourceError
    """
    if needed > free_bytes(folder):
        raise _full(folder, needed)


def _full(folder: Path, needed: int) -> ResourceError:
    return ResourceError(
        f"the rows of nodes (executor.storage: mapped) need {needed / MIB:,.0f} MiB in {folder}, but only "
        f"{free_bytes(folder) / MIB:,.0f} MiB are free there; free disk space, set executor.folder to a folder on "
        "another disk, or lower dataset.limit_users or model.dim"
    )


def _unusable(folder: Path, error: OSError) -> ScenarioError:
    return ScenarioError(
        f"executor.folder: found {str(folder)!r}, in which no file can be written ({error.strerror}); expected a "
        "folder on a disk with permission to write; set executor.folder to another one"
    )


class MappedFile:
    """A temporary file without a name, mapped into memory; the system deletes it when the process ends.

    Bytes that were never written take no disk space and are zero.

    Parameters
    ----------
    folder : Path
    size : int
        Bytes of addresses; see :meth:`claim`.

    Raises
    ------
    ScenarioError
        If no file can be made in the folder.
    OSError, OverflowError
        If the system refuses a file, or addresses, of this size.
    """

    def __init__(self, folder: Path, size: int) -> None:
        if not hasattr(os, "posix_fallocate"):
            raise ScenarioError("executor.storage: 'mapped' requires Linux; set executor.storage to float32")
        self._folder, self._claimed = folder, 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, prefix="gossiprec-rows-")  # noqa: SIM115 (as long as self)
        except OSError as error:
            raise _unusable(folder, error) from error
        size = max(size, 1)
        os.ftruncate(self._file.fileno(), size)
        self.memory = mmap.mmap(self._file.fileno(), size)
        self.memory.madvise(mmap.MADV_RANDOM)  # a fault must not read megabytes of other rows
        _OPEN.add(self)

    def array(self, shape: tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the file's first numbers as an array."""
        return np.frombuffer(self.memory, kind, int(np.prod(shape))).reshape(shape)

    def claim(self, size: int) -> None:
        """Reserve disk space for the first `size` bytes, because a write without space would kill the process.

        Raises
        ------
        ResourceError
            If the disk is full.
        """
        more = size - self._claimed
        if more <= 0:
            return
        check_free(self._folder, more)
        try:
            os.posix_fallocate(self._file.fileno(), self._claimed, more)
        except OSError as error:
            if error.errno not in SPACE:
                raise
            raise _full(self._folder, more) from error
        self._claimed = size

    def prefetch(self, first: int, size: int) -> None:
        """Start to read bytes from the disk; the caller does not wait."""
        os.posix_fadvise(self._file.fileno(), first, size, os.POSIX_FADV_WILLNEED)


_OPEN: weakref.WeakSet[MappedFile] = weakref.WeakSet()


def _read_in_order() -> None:
    """Let a forked process, which writes a checkpoint, read the files in large pieces."""
    for file in _OPEN:
        file.memory.madvise(mmap.MADV_SEQUENTIAL)


os.register_at_fork(after_in_child=_read_in_order)


def make_mapped_array(folder: Path, shape: tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a zeroed array in a temporary file, which lasts as long as the array."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    file = MappedFile(folder, size)
    file.claim(size)
    file.memory.madvise(mmap.MADV_SEQUENTIAL)
    return file.array(shape, kind)
