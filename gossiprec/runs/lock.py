"""Locks for single writers, released when the last process that holds them ends for any reason."""

from __future__ import annotations

import errno
import os
import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import SoftFileLock, Timeout, lock_descriptor

from gossiprec.base.errors import GossipRecError, LogError, ResourceError
from gossiprec.runs.run_files import open_regular, wrap_write_errors

TIMEOUT_S = 0.5
"""Seconds that a run waits for a process that only checks whether the run is alive."""
LOOK_S = 0.2
"""Seconds that a checking process waits for other checking processes."""
PAUSE_S = 0.01

LOCK, MARKER = ".lock", ".held"
"""Name of the file to lock in a folder, and the suffix of its marker on file systems without locks."""
_NOT_HERE = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
"""Error numbers of file systems without locks."""


class Lock:
    """An exclusive lock on a file, held until :meth:`close` or the end of the last process that holds it.

    On a file system without locks, a marker next to the file names process and machine, and a warning is issued. The
    marker of a process that has ended is taken over, but only its own machine can determine that it has.

    Parameters
    ----------
    path : Path
        Created if it does not exist.
    refusal : GossipRecError
        Raised if another process still holds the lock after `patience_s`.
    patience_s : float
        Seconds to wait for another process.
    looks : bool
        Whether the lock only tests if it is free: no marker is made then.

    Attributes
    ----------
    descriptor : int
        The file descriptor that holds the lock; -1 once it is closed.
    """

    def __init__(
        self, path: Path, refusal: GossipRecError, patience_s: float, *, looks: bool = False
    ) -> None:
        self._path, self._looks = path, looks
        self.descriptor = self._opened()
        self._marker = SoftFileLock(f"{path}{MARKER}", thread_local=False)
        deadline = time.monotonic() + patience_s
        try:
            while not (self._takes() and self._is_in_place()):
                if time.monotonic() > deadline:
                    raise refusal
                time.sleep(PAUSE_S)
                self.close()
                self.descriptor = self._opened()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock; later calls do nothing. A forked child that calls it leaves its parent's lock in force."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self._marker.release()

    @contextmanager
    def moved_to(self, path: Path) -> Iterator[None]:
        """Also lock the file `path` while the body renames it over the locked one; afterwards hold only that lock."""
        descriptor = open_regular(path, os.O_RDWR)
        try:
            with suppress(OSError):  # without file locks the marker, which names no file, stays
                lock_descriptor(descriptor, blocking=False)
            yield
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self.descriptor)
        self.descriptor = descriptor

    def _opened(self) -> int:
        may_write = os.access(self._path, os.W_OK) or not self._path.exists()
        mode = os.O_RDWR if may_write else os.O_RDONLY  # NFS locks only files that are open for writing
        return open_regular(self._path, mode if self._looks else mode | os.O_CREAT)

    def _is_in_place(self) -> bool:
        """Return whether the locked file still has its name: another writer may have put a new file there."""
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self.descriptor))
        except FileNotFoundError:
            return False

    def _takes(self) -> bool:
        try:
            return lock_descriptor(self.descriptor, blocking=False)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
        if self._looks and not os.path.exists(self._marker.lock_file):
            return True
        warnings.warn(
            f"this file system does not support locks; {self._marker.lock_file} names the process that is "
            "writing. If that process ran on another machine and has ended, delete the file",
            RuntimeWarning,
            stacklevel=3,
        )
        try:
            self._marker.acquire(timeout=0)
        except Timeout:
            return False
        return True


class RunLock(Lock):
    """The lock on a run's event log.

    Raises
    ------
    LogError
        If another process holds it.
    ResourceError
        If the log cannot be opened.
    """

    def __init__(self, log: Path) -> None:
        alive = f"{log.parent} is in use by a running process; wait until it ends, or stop it"
        with wrap_write_errors(log):
            super().__init__(log, LogError(alive), TIMEOUT_S)


@contextmanager
def exclusive_writer(folder: Path, *, what: str, patience_s: float) -> Iterator[int]:
    """Keep other writers out of a folder while the body runs; yield the file descriptor that holds the lock.

    Parameters
    ----------
    folder : Path
    what : str
        Kind of job that writes there, for the message.
    patience_s : float
        Seconds to wait for another writer; one that was killed keeps the lock until its children have ended.

    Raises
    ------
    ResourceError
        If another writer is active in the folder.
    """
    busy = f"another {what} is running in {folder}; wait until it ends, stop it, or choose another --out"
    with wrap_write_errors(folder):
        lock = Lock(folder / LOCK, ResourceError(busy), patience_s)
    try:
        yield lock.descriptor
    finally:
        lock.close()


def is_locked(log: Path) -> bool:
    """Return whether a process holds the lock of this event log; False if there is none, or it cannot be opened."""
    held = LogError("held")
    try:
        if log.exists():
            Lock(log, held, LOOK_S, looks=True).close()
    except OSError:
        return False
    except LogError as error:
        return error is held
    return False


_BOOT = Path("/proc/sys/kernel/random/boot_id")

UNKNOWN = "unknown"
"""Status of a run if only another machine could determine whether its process is alive."""


def process_identity() -> dict[str, Any]:
    """Return the identity of this process: host name, boot id of the machine (or None) and process id."""
    return {"host": platform.node(), "boot": _boot(), "process": os.getpid()}


def resolve_status(writer: Mapping[str, Any] | None) -> str:
    """Return the status of a run that should be running but is not locked: ``killed`` or :data:`UNKNOWN`.

    Parameters
    ----------
    writer : mapping or None
        :func:`process_identity` of the process that wrote the run, or None if it was not recorded.

    Notes
    -----
    On the machine that wrote it, a free lock means that the process has ended, since locks end with it. Another machine
    may not see a lock, for example if the folder is a copy, or is shared by other means than NFS.
    """
    if not writer:
        return "killed"
    here = writer.get("host") == platform.node() or (_boot() is not None and writer.get("boot") == _boot())
    return "killed" if here else UNKNOWN


def describe_status(status: str, writer: Mapping[str, Any] | None) -> str:
    """Return the status of a run as text, with the process that wrote it if that is of interest."""
    if not writer or status not in ("running", "killed", UNKNOWN):
        return status
    process = f"process {writer.get('process')} on {writer.get('host')}"
    if status == UNKNOWN:
        return f"unknown whether still running: it is written by {process}, but this is {platform.node()}"
    return f"running ({process})" if status == "running" else f"killed ({process} has ended)"


def _boot() -> str | None:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
