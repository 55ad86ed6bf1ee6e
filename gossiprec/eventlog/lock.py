"""Who writes a run now: a lock on its event log, which the system takes back however the writer ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from gossiprec.errors import LogError
from gossiprec.eventlog.atomic_write import writing

PATIENCE_S = 0.5
"""Time for somebody who only looks whether a run is alive to be done."""
_NOT_HERE = (errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
"""File systems without locks."""


class RunLock:
    """An exclusive lock on a run's event log, held until :meth:`close` or the end of the process.

    Parameters
    ----------
    log : Path
        The event log, which must exist.

    Raises
    ------
    LogError
        If another process holds it.
    """

    def __init__(self, log: Path) -> None:
        with writing(log):
            self._file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        deadline = time.monotonic() + PATIENCE_S
        while not _try(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self._file)
                raise LogError(
                    f"{log.parent} is being written by a process that is alive; wait for its end, or stop it first"
                )
            time.sleep(PATIENCE_S / 50)

    def close(self) -> None:
        """Let go; a second call does nothing. A forked child that calls it leaves its parent's lock in force."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_written_now(log: Path) -> bool:
    """Return whether a living process holds the lock of this event log; False where files cannot be locked."""
    try:
        file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _try(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    return True
